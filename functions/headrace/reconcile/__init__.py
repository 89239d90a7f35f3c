"""The story of `reconcile`: parse the hook's request, decide, make it so in NATS, answer with the status.

`story` has the verbs of the hook, `own_account` finds the NATS account that a channel lives in, `in_nats` has the
order of what is done there, and `ports` the effects that it needs.
"""

from headrace.reconcile.ports import Administration, Around, Elsewhere
from headrace.reconcile.story import VERBS, reconcile

__all__ = ["VERBS", "Administration", "Around", "Elsewhere", "reconcile"]
