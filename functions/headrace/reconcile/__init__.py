"""The story of `reconcile`: parse the hook's request, decide, make it so in NATS, answer what came of it.

`story` has the verbs of the hook and whose NATS a channel lives in, `in_nats` the order of what is done there, `ports`
what is needed for it.
"""

from headrace.reconcile.ports import Administration, Around, Elsewhere
from headrace.reconcile.story import VERBS, reconcile

__all__ = ["VERBS", "Administration", "Around", "Elsewhere", "reconcile"]
