"""The story of `reconcile`: parse the hook's request, decide, act in NATS, answer with the status.

`story` has the verbs of the hook, `own_account` finds the NATS account of a channel, `in_nats` has the order of the
steps there, and `ports` the effects that they need.
"""

from headrace.reconcile.ports import Administration, Around, Elsewhere
from headrace.reconcile.story import VERBS, reconcile

__all__ = ["VERBS", "Administration", "Around", "Elsewhere", "reconcile"]
