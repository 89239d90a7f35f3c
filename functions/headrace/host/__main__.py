"""`python -m headrace.host`: serve FUNCTION_TARGET on HOST and PORT."""

import sys

from headrace.host.serving import main

sys.exit(main())
