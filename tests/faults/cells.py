"""All cells, in the order of the table."""

from tests.faults import cells_forward, cells_receive
from tests.faults.cell import CELLS

__all__ = ["CELLS", "cells_forward", "cells_receive"]
