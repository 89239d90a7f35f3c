"""`forward`: one lease pulls from one consumer, POSTs each event, and settles it last.

`lease` owns the pulling, `line` the order of a by-key consumer, `one_event` the order of effects of a single delivery,
`short_way` the way of most deliveries. `headrace.core.delivery.delivery` judges answers. Effects arrive as arguments.
`headrace.host` calls this room for each lease request.
"""

from headrace.forward.lease import forward
from headrace.forward.one_event import closing_headers
from headrace.forward.ports import Effects, Inbox, ShortEffects, Survey

__all__ = ["Effects", "Inbox", "ShortEffects", "Survey", "closing_headers", "forward"]
