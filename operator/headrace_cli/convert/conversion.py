"""From documents of other systems to ours: finds the function for each kind, and gathers what they say.

Pure. Called by the command `convert`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from headrace.core.errors import InvalidSpec
from headrace.core.quoting import quoted
from headrace_cli.convert import argo, channels, kyma
from headrace_cli.convert.foreign_object import ForeignObject
from headrace_cli.manifests.documents import Document


@dataclass(frozen=True, slots=True)
class Note:
    """A remark on a document.

    Attributes:
        where: names the document.
        lost: a part of the document has no equal; otherwise the remark is advice.
    """

    where: str
    words: str
    lost: bool = True

    def __str__(self) -> str:
        return f"{self.where}: {self.words}"


@dataclass(slots=True)
class Conversion:
    """The result.

    Attributes:
        objects: manifests of Knative and of this channel, in order; equal ones once.
        notes: in the order of the documents.
    """

    objects: list[dict[str, Any]] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)


_Turn = Callable[[ForeignObject], Iterable[dict[str, Any]]]
_KINDS: Mapping[tuple[str, str], _Turn] = {
    ("messaging.knative.dev", "NatsJetStreamChannel"): channels.of_the_peer,
    ("messaging.knative.dev", "NatssChannel"): channels.of_another_kind,
    ("messaging.knative.dev", "NatsChannel"): channels.of_another_kind,
    ("messaging.knative.dev", "InMemoryChannel"): channels.of_another_kind,
    ("messaging.knative.dev", "KafkaChannel"): channels.of_kafka,
    ("messaging.knative.dev", "Subscription"): channels.subscription,
    ("eventing.kyma-project.io", "Subscription"): kyma.subscription,
    ("operator.kyma-project.io", "Eventing"): kyma.eventing,
    ("argoproj.io", "EventBus"): argo.event_bus,
    ("argoproj.io", "Sensor"): argo.sensor,
    ("argoproj.io", "EventSource"): argo.event_source,
}


def convert(documents: Iterable[Document], suffix: str = "") -> Conversion:
    """Convert all documents; those of other kinds are noted and left out.

    Args:
        suffix: ends the names of Subscriptions, so that they may stand beside their originals.

    Raises:
        InvalidSpec: a document of a known kind is malformed; names document and field.
    """
    found = Conversion()
    shared: dict[str, Any] = {"suffix": suffix}
    # Documents that hold for others come before them.
    for document in sorted(documents, key=lambda one: one.body.get("kind") != "Eventing"):
        group = str(document.body.get("apiVersion", "")).partition("/")[0]
        turn = _KINDS.get((group, str(document.body.get("kind"))))
        if turn is None:
            kind = f"{quoted(document.body.get('kind'))} of {quoted(document.body.get('apiVersion'))}"
            found.notes.append(Note(document.where, f"{kind} is left out: nothing here corresponds to it"))
            continue
        foreign = ForeignObject(document.where, document.body, shared)
        for made in turn(foreign):
            if made not in found.objects:
                found.objects.append(made)
        found.notes += [Note(document.where, words) for words in foreign.notes]
        found.notes += [Note(document.where, words, lost=False) for words in foreign.advice]
    _refuse_two_of_one_name(found.objects)
    return found


def _refuse_two_of_one_name(objects: Iterable[Mapping[str, Any]]) -> None:
    seen: set[tuple[str, str, str]] = set()
    for each in objects:
        metadata = each["metadata"]
        key = (str(each["kind"]), str(metadata["namespace"]), str(metadata["name"]))
        if key in seen:
            words = f"two different {key[0]} would be called {key[1]}/{key[2]}: rename one, or convert them apart"
            raise InvalidSpec(words, field="metadata.name")
        seen.add(key)
