"""Runs ``scripts/vm-lab``."""

import sys

from scripts.vmlab.cli import main

sys.exit(main())
