"""Runs the experiment: ``python -m benchmarks.experiments.startup``."""

from benchmarks.experiments.startup.experiment import main

main()
