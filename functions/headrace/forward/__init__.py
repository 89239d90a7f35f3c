"""`forward`: one lease pulls from one consumer, POSTs each event, and settles it last.

`lease` owns the pulling, `line` the order of a by-key consumer, `one_event` the order of effects of a single delivery,
`short_way` the way that most of them take; what an answer means is `headrace.core.delivery.delivery`'s to say.
Effects arrive as arguments. Called by `headrace.host` for each lease request.
"""

from headrace.forward.lease import forward
from headrace.forward.one_event import closing_headers
from headrace.forward.ports import Effects, Inbox, ShortEffects, Survey

__all__ = ["Effects", "Inbox", "ShortEffects", "Survey", "closing_headers", "forward"]
