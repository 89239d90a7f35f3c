"""All cells, in the order of the table."""

from tests.faults import (
    cells_channel,
    cells_forward,
    cells_leases,
    cells_limits,
    cells_nats,
    cells_order,
    cells_power,
    cells_receive,
    cells_subscriber,
)
from tests.faults.cell import CELLS
from tests.faults.partitions import cells_cables, cells_machine

__all__ = [
    "CELLS",
    "cells_cables",
    "cells_channel",
    "cells_forward",
    "cells_leases",
    "cells_limits",
    "cells_machine",
    "cells_nats",
    "cells_order",
    "cells_power",
    "cells_receive",
    "cells_subscriber",
]
