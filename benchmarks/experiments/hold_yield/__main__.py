"""Runs the experiment: ``python -m benchmarks.experiments.hold_yield``."""

from benchmarks.experiments.hold_yield.experiment import main

main()
