"""`forward`: one lease pulls from one consumer, POSTs each event, and settles it last.

`lease` owns the pulling, `line` the order of a by-key consumer, `one_event` the order of effects of a single delivery;
what an answer means is `headrace.core.delivery`'s to say. Effects arrive as arguments. Called by `headrace.host` for
each lease request.
"""

from headrace.forward.lease import forward
from headrace.forward.ports import Effects, Inbox, Survey

__all__ = ["Effects", "Inbox", "Survey", "forward"]
