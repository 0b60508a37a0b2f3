"""`python -m bcs_scheduler.executor`."""

import sys

from .main import main

sys.exit(main())
