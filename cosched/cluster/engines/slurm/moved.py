"""Finds the nice value that a job's user gave, although the job was moved forward. Pure.

The AdminComment of a moved job has both values, and Slurm sets it in one update with the
nice value. So a crash of the controller or of slurmctld leaves all of it or nothing. If the
job has another nice value than the line has, its user gave it that later.
"""

from __future__ import annotations

import re

from cosched.cluster.engines.slurm.jobs import SlurmJob, number
from cosched.core.decoding import parse_integer

_MOVED = re.compile(
    r"cosched: moved forward from nice value (-?[0-9]{1,10}) to (-?[0-9]{1,10})"
)


def moved_line(own: int, nice: int) -> str:
    """Returns the AdminComment of a job that is moved. own: the nice value of its user."""
    return f"cosched: moved forward from nice value {own} to {nice}"


def shown_nice(job: SlurmJob) -> int:
    """Returns the nice value of a job. Slurm 22.05, for one, prints a negative one with
    2**32 added."""
    shown = int(number(job.nice, 0))
    return shown - (1 << 32) if shown >= 1 << 31 else shown


def own_nice(job: SlurmJob) -> int:
    """Returns the nice value that the user of a job gave it last."""
    shown = shown_nice(job)
    found = _MOVED.fullmatch(job.admin_comment or "")
    if found is None:
        return shown
    own, moved = (
        parse_integer(text, "a nice value", -1 << 33, 1 << 33) for text in found.groups()
    )
    return own if moved == shown else shown
