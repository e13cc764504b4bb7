"""Runs the experiment: ``python -m benchmarks.experiments.yoo``."""

import sys

from benchmarks.experiments.yoo.experiment import main

sys.exit(main())
