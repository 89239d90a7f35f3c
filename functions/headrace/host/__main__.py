"""`python -m headrace.host`: serve FUNCTION_TARGET on HOST and PORT."""

import gc
import sys

# What is imported stays: to look through it for garbage takes a tenth of the start. `serve` turns it on again.
gc.disable()

from headrace.host.serving import main  # noqa: E402  # after that

sys.exit(main())
