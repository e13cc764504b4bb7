"""Runs the experiment: ``python -m benchmarks.experiments.symbiosis``."""

from benchmarks.experiments.symbiosis.experiment import main

main()
