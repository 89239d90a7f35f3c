"""What a new pod template must have shown before requests go to it, whatever the scale: ADR 038.

`receive` always begins with one pod: Knative leads requests to a revision once one of its pods has answered a probe.
When `receive` has been ready with a template, a `forward` of the same place may begin at zero with that template, since
image, account, pull secrets and settings are the same. Until then each `forward` keeps the template that it has. Pure.
"""

from __future__ import annotations

import copy
import hashlib
import json
from collections.abc import Mapping
from typing import Any

INITIAL_SCALE = "autoscaling.knative.dev/initial-scale"
TEMPLATE_ANNOTATION = "headrace.dev/template"
"""The template that an object was given, as a digest: the live one has the server's additions, too."""
RETRY_ANNOTATION = "headrace.dev/retry-of"
"""On a revision: the revision before it, which had no pod in time, and which Knative gives none any more."""
TOKEN_VARIABLES = ("HEADRACE_CALLER_DIGEST", "HEADRACE_DELIVERY_KEY")
"""Variables that follow from the shared token: they may change at any time, and make no pod fail."""
# Knative's own words for a revision that had no pod in time.
_GIVEN_UP = "Initial scale was never achieved"
# These differ between functions of one place, and make no pod fail.
_OF_REQUESTS = ("timeoutSeconds", "containerConcurrency", "responseStartTimeoutSeconds")

Object = dict[str, Any]


def marked(wanted: Object) -> Object:
    """The object with the digest of its template."""
    metadata = wanted["metadata"]
    annotations = {**metadata.get("annotations", {}), TEMPLATE_ANNOTATION: _digest(wanted)}
    return {**wanted, "metadata": {**metadata, "annotations": annotations}}


def begun(wanted: Object, live: Mapping[str, Any] | None, initial_scale: str) -> Object:
    """The object with the number of pods for a revision's start, and with another try if Knative has given up."""
    again = _retry_of(wanted, live)
    return _annotated(wanted, {INITIAL_SCALE: initial_scale, **({RETRY_ANNOTATION: again} if again else {})})


def is_proven(wanted: Object, live: Mapping[str, Any] | None) -> bool:
    """Has it been ready with the wanted template? A Service that is at zero now counts as well."""
    if live is None or not _same(wanted, live):
        return False
    status = live.get("status") or {}
    if status.get("observedGeneration") != live["metadata"].get("generation"):
        return False
    newest = status.get("latestCreatedRevisionName")
    if not newest or newest != status.get("latestReadyRevisionName"):
        return False
    # Unknown is also said before there is a revision of the newest template.
    told = (each for each in status.get("conditions") or () if each.get("type") == "ConfigurationsReady")
    return any(each.get("status") in ("True", "False") for each in told)


def settled(wanted: Object, live: Mapping[str, Any] | None, *, proven: bool | None, zero: bool | None) -> Object:
    """A `forward` as the present state allows it.

    Args:
        wanted: `marked`.
        live: the present object; None when it is not there.
        proven: the `receive` of its place has been ready with the present template; None where that can't be known.
        zero: the cluster lets a revision begin with no pod; None where that is not known.
    """
    if live is not None and _same(wanted, live):
        # Another number would be another revision, for nothing.
        before = _annotation_of(live, INITIAL_SCALE)
        return begun(wanted, live, "0" if before == "0" and zero is not False else "1")
    if live is not None and proven is False and _has_containers(live):
        return _as_before(wanted, live)
    return begun(wanted, live, "0" if proven and zero else "1")


def _as_before(wanted: Object, live: Mapping[str, Any]) -> Object:
    """The wanted object with its present template, except for the variables of the shared token."""
    template = copy.deepcopy(live["spec"]["template"])
    told = {one["name"]: one for one in _variables(wanted) if one["name"] in TOKEN_VARIABLES}
    for container in template["spec"]["containers"]:
        # Each stays at its place: in another order they would be another revision, for nothing.
        kept = {one.get("name"): one for one in container.get("env") or ()}
        together = {**kept, **told}
        container["env"] = [one for name, one in together.items() if name in told or name not in TOKEN_VARIABLES]
    metadata = wanted["metadata"]
    annotations = {name: text for name, text in metadata["annotations"].items() if name != TEMPLATE_ANNOTATION}
    before = (live["metadata"].get("annotations") or {}).get(TEMPLATE_ANNOTATION)
    if before:
        annotations[TEMPLATE_ANNOTATION] = before
    spec = {**wanted["spec"], "template": template}
    return {**wanted, "metadata": {**metadata, "annotations": annotations}, "spec": spec}


def _has_containers(live: Mapping[str, Any]) -> bool:
    """Is there anything to keep? Somebody may have put anything there."""
    found: Any = live
    for step in ("spec", "template", "spec", "containers"):
        found = found.get(step) if isinstance(found, Mapping) else None
    return isinstance(found, list) and all(
        isinstance(one, dict) and all(isinstance(each, dict) for each in one.get("env") or ()) for one in found
    )


def _retry_of(wanted: Object, live: Mapping[str, Any] | None) -> str:
    """The revision that this one tries again; empty for none."""
    if live is None or not _same(wanted, live):
        return ""
    status = live.get("status") or {}
    newest = str(status.get("latestCreatedRevisionName") or "")
    told = (each for each in status.get("conditions") or () if each.get("type") == "Ready")
    given_up = any(_GIVEN_UP in str(each.get("message") or "") for each in told)
    if given_up and newest != status.get("latestReadyRevisionName"):
        return newest
    return _annotation_of(live, RETRY_ANNOTATION)


def _same(wanted: Object, live: Mapping[str, Any]) -> bool:
    before = (live["metadata"].get("annotations") or {}).get(TEMPLATE_ANNOTATION)
    return bool(before == wanted["metadata"]["annotations"][TEMPLATE_ANNOTATION])


def _digest(wanted: Object) -> str:
    pods = copy.deepcopy(
        {key: one for key, one in wanted["spec"]["template"]["spec"].items() if key not in _OF_REQUESTS}
    )
    for container in pods["containers"]:
        container["env"] = [one for one in container.get("env", ()) if one["name"] not in TOKEN_VARIABLES]
    return hashlib.sha256(json.dumps(pods, sort_keys=True).encode()).hexdigest()[:16]


def _annotated(wanted: Object, annotations: Mapping[str, str]) -> Object:
    template = wanted["spec"]["template"]
    metadata = template.get("metadata", {})
    together = {**metadata.get("annotations", {}), **annotations}
    template = {**template, "metadata": {**metadata, "annotations": together}}
    return {**wanted, "spec": {**wanted["spec"], "template": template}}


def _annotation_of(live: Mapping[str, Any], annotation: str) -> str:
    """An annotation of the template; a value of another type counts as none."""
    found: Any = live
    for step in ("spec", "template", "metadata", "annotations", annotation):
        found = found.get(step) if isinstance(found, Mapping) else None
    return found if isinstance(found, str) else ""


def _variables(wanted: Object) -> list[dict[str, Any]]:
    return [one for container in wanted["spec"]["template"]["spec"]["containers"] for one in container.get("env", ())]
