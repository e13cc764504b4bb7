"""Warns of jobs with far more ranks than CPUs."""

from __future__ import annotations

from cosched.core.counting import counted

#: Up to so many ranks of a job for each CPU are usual where users try a program.
RANKS_PER_CPU = 4


def crowd_text(ranks: int, cpus: int) -> str:
    """Returns one line if ranks have so few CPUs that they mostly wait; "" otherwise."""
    if ranks <= cpus * RANKS_PER_CPU:
        return ""
    return f"{ranks} ranks take turns on {counted(cpus, 'CPU')}, so they mostly wait"
