"""Runs the experiment: ``python -m benchmarks.experiments.malleable``."""

from benchmarks.experiments.malleable.experiment import main

main()
