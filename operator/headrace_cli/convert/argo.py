"""Argo Events: an EventBus becomes a Broker, the HTTP triggers of a Sensor become Triggers.

Argo's bus carries events as CloudEvents whose source is the EventSource's name and whose subject is the event's, which
is what the Triggers filter by. Source of the shapes: argoproj.io/v1alpha1 of Argo Events.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from headrace.core.errors import InvalidSpec
from headrace.core.quoting import quoted
from headrace_cli.convert import objects
from headrace_cli.convert.foreign_object import ForeignObject, iso, seconds

_RETENTION = {"0": "Limits", "1": "Interest", "2": "Work"}
_DISCARD = {"0": "Old", "1": "New"}


def event_bus(foreign: ForeignObject) -> Iterator[dict[str, Any]]:
    """The bus as a Broker; its owner has to run the NATS that Argo would install."""
    at = next((f"spec.{kind}" for kind in ("jetstream", "jetstreamExotic") if foreign.object(f"spec.{kind}")), None)
    if at is None:
        foreign.note("only a JetStream bus has a stream to convert: the Broker gets a stream with the defaults")
        yield from objects.broker(foreign.namespace, foreign.name, {})
        return
    if url := foreign.text(f"{at}.url"):
        foreign.advise(f"its NATS is {url}: name it in the ConfigMap config-nats")
    else:
        foreign.advise("its NATS server is not converted: install NATS by its own chart, and name it in config-nats")
    config = _stream(foreign, f"{at}.streamConfig")
    yield from objects.broker(foreign.namespace, foreign.name, {"stream": {"config": config}} if config else {})


def sensor(foreign: ForeignObject) -> Iterator[dict[str, Any]]:
    """Each HTTP trigger as a Trigger of the bus."""
    bus = foreign.text("spec.eventBusName") or "default"
    sources: dict[str, tuple[str, str]] = {}
    for path, body in foreign.objects("spec.dependencies"):
        one = foreign.within(path, body)
        sources[one.text("name")] = (one.text("eventSourceName"), one.text("eventName"))
        if one.value("filters") or one.value("transform"):
            foreign.note(f"{path}: its filters and transforms have no equal in a Trigger: filter in the subscriber")
    for path, body in foreign.objects("spec.triggers"):
        yield from _trigger(foreign, foreign.within(path, body), bus, sources)


def event_source(foreign: ForeignObject) -> Iterator[dict[str, Any]]:
    """No object, only a note that names the replacement."""
    bus = foreign.text("spec.eventBusName") or "default"
    kinds = ", ".join(sorted(key for key, value in foreign.object("spec").items() if isinstance(value, dict)))
    foreign.note(
        f"{kinds or 'its sources'}: use a Knative source of that kind, or let the producer POST CloudEvents to the "
        f"address of the Broker {quoted(bus)}, with source {quoted(foreign.name)} and the event's name as subject"
    )
    return iter(())


def _trigger(
    foreign: ForeignObject, one: ForeignObject, bus: str, sources: dict[str, tuple[str, str]]
) -> Iterator[dict[str, Any]]:
    name = one.text("template.name")
    if not name:
        raise one.fault("template.name", "is missing: give the trigger its name")
    if not one.object("template.http"):
        kind = ", ".join(sorted(set(one.object("template")) - {"name", "conditions"})) or "nothing"
        foreign.note(
            f"trigger {quoted(name)} is {kind}: only http triggers are deliveries; put a service in front of it"
        )
        return
    wanted = one.text("template.conditions") or (next(iter(sources)) if len(sources) == 1 else "")
    if wanted not in sources:
        foreign.note(
            f"trigger {quoted(name)} waits for {quoted(wanted or 'several dependencies')}: a Trigger has one event "
            "at a time; join them in a service of yours"
        )
        return
    if one.value("template.http.payload"):
        foreign.note(f"trigger {quoted(name)}: its payload is not built here: the subscriber gets the whole event")
    uri = one.text("template.http.url")
    if not uri:
        raise one.fault("template.http.url", "is missing: it says where events go")
    source, event = sources[wanted]
    filters = [{"exact": {"source": source}}, {"exact": {"subject": event}}]
    delivery = _delivery(foreign, one, name)
    yield objects.trigger(foreign.namespace, f"{foreign.name}-{name}", bus, uri, filters, delivery)


def _delivery(foreign: ForeignObject, one: ForeignObject, name: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    steps = one.number("retryStrategy.steps")
    if steps:
        found["retry"] = max(0, steps - 1)
        raw = one.value("retryStrategy.duration") or "1s"
        # Argo takes nanoseconds, too.
        delay = raw / 1e9 if isinstance(raw, int) and not isinstance(raw, bool) else seconds(str(raw))
        if delay is None:
            raise one.fault("retryStrategy.duration", f"is {quoted(raw)}: give a duration, as 10s")
        factor = one.value("retryStrategy.factor")
        amount = factor.get("value") if isinstance(factor, dict) else factor
        grows = amount is not None and str(amount) not in ("1", "1.0")
        found |= {"backoffPolicy": "exponential" if grows else "linear", "backoffDelay": iso(delay)}
        if grows and str(amount) not in ("2", "2.0"):
            foreign.note(
                f"trigger {quoted(name)}: retryStrategy.factor is {amount}: Knative's exponential back-off doubles"
            )
    if dead := one.text("dlqTrigger.template.http.url"):
        found["deadLetterSink"] = {"uri": dead}
    elif one.value("dlqTrigger"):
        foreign.note(f"trigger {quoted(name)}: its dlqTrigger is not http: what is given up is parked")
    if one.value("rateLimit"):
        foreign.note(f"trigger {quoted(name)}: its rateLimit has no equal: bound the subscriber, or maxAckPending")
    return found


def _stream(foreign: ForeignObject, path: str) -> dict[str, Any]:
    """Argo's streamConfig is YAML in a string, with numbers for words."""
    text = foreign.text(path)
    if not text:
        return {}
    import yaml

    try:
        body = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise foreign.fault(path, f"is not YAML: {error}") from None
    if not isinstance(body, dict):
        raise foreign.fault(path, f"is {quoted(text)}: give the settings as YAML")
    one = ForeignObject(path, body)
    try:
        config = _known(one)
    except InvalidSpec as error:
        raise foreign.fault(path, f"has {error}") from None
    for key in sorted(
        body.keys() - {"maxMsgs", "maxBytes", "replicas", "maxAge", "duplicates", "retention", "discard"}
    ):
        foreign.note(f"{path}: {key} has no equal")
    return config


def _known(one: ForeignObject) -> dict[str, Any]:
    config: dict[str, Any] = {}
    for key in ("maxMsgs", "maxBytes", "replicas"):
        if (number := one.number(key)) is not None:
            config[key] = number
    for key, ours in (("maxAge", "maxAge"), ("duplicates", "duplicateWindow")):
        if value := one.value(key):
            if seconds(str(value)) is None:
                raise one.fault(key, f"is {quoted(value)}: give a duration, as 72h")
            config[ours] = str(value)
    for key, words in (("retention", _RETENTION), ("discard", _DISCARD)):
        value = one.value(key)
        if value is None:
            continue
        if str(value) not in words:
            raise one.fault(key, f"is {quoted(value)}: give {' or '.join(words)}")
        config[key] = words[str(value)]
    return config
