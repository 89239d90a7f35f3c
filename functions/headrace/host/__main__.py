"""`python -m headrace.host`: serve FUNCTION_TARGET on HOST and PORT."""

import gc
import sys

# Imported modules stay: a search for garbage in them takes a tenth of the start. `serve` turns it on again.
gc.disable()

from headrace.host.serving import main  # noqa: E402  # after that

sys.exit(main())
