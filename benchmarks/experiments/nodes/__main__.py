"""Runs the experiment: ``python -m benchmarks.experiments.nodes``."""

from benchmarks.experiments.nodes.experiment import main

main()
