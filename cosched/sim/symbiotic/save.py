"""Writes the jobs of streams, two files for each stream and placement.

Columns: job, application, size_halves, walltime_s (as the scheduler expects), own_s (run
time on whole nodes), submit_s, start_s, end_s, halves (``0 2 5``; of node h // 2).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from cosched.core.units import NS_PER_S
from cosched.sim.queue.columns import Columns, save_columns
from cosched.sim.symbiotic.symbiotic_runs import SharingOutcome


def save(outcomes: Sequence[SharingOutcome], folder: Path, command: str) -> list[Path]:
    """Writes ``STREAM-SEED.PLACEMENT.npz`` and ``.csv``; returns their paths."""
    paths: list[Path] = []
    for outcome in outcomes:
        jobs = [entry.job for entry in outcome.stream]
        for name, shared in outcome.shared.items():
            columns: Columns = {
                "job": [job.number for job in jobs],
                "application": [job.application for job in jobs],
                "size_halves": [job.size for job in jobs],
                "walltime_s": [job.walltime_ns / NS_PER_S for job in jobs],
                "own_s": [entry.run_ns / NS_PER_S for entry in outcome.stream],
                "submit_s": [at_ns / NS_PER_S for at_ns in shared.submit_ns],
                "start_s": [at_ns / NS_PER_S for at_ns in shared.start_ns],
                "end_s": [at_ns / NS_PER_S for at_ns in shared.end_ns],
                "halves": [" ".join(map(str, sorted(halves))) for halves in shared.halves],
            }
            stem = folder / f"{outcome.run.name.replace(' ', '-')}.{name}"
            paths += save_columns(stem, columns, command, outcome.figures[name])
    return paths
