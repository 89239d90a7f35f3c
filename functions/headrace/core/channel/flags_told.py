"""What of Knative's flags makes no sense, told on every channel: Knative itself passes it over in silence. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headrace.core.channel import related
from headrace.core.conditions import Condition
from headrace.core.security.flags import Flags


def condition(observed: Mapping[str, Any]) -> Condition | None:
    """A condition of severity Info; None where all that is asked for is understood.

    Args:
        observed: `related` of the hook's request.
    """
    _, problems = Flags.read(related.config_map(observed, related.EVENTING, related.FEATURES) or {})
    if not problems:
        return None
    told = f"ConfigMap {related.EVENTING}/{related.FEATURES}: {'; '.join(problems)}"
    return Condition("FlagsUnderstood", False, "FlagUnknown", told, informative=True)
