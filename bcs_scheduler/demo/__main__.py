"""`python -m bcs_scheduler.demo`."""

from __future__ import annotations

import sys

from bcs_scheduler.demo.run import main

sys.exit(main())
