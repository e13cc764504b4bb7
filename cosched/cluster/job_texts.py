"""Shows a domain's jobs in few words: their numbers and their sizes.

Apart from the answers themselves, which a quick command only reads.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from cosched.core.named_tuples import NamedTuple

if TYPE_CHECKING:
    from cosched.cluster.answers import JobInfo

#: The most characters of a job's name in the table of ``cosched queue``.
NAME_MOST = 20


class JobBounds(NamedTuple):
    """The sizes of a malleable job, in nodes."""

    minimum: int  #: the least
    ideal: int  #: the most
    preferred: int | None = None  #: it has more only while no job waits; None: its ideal


def size_text(nodes: int | None, bounds: JobBounds, unit: str = "") -> str:
    """Returns the size of a malleable job, such as ``4 of 1-8``; with its preferred size
    ``4 of 1-6-8``. nodes None: it has none. unit: a word behind the number of nodes, with a
    space before it."""
    minimum, ideal, preferred = bounds
    shown = [minimum, ideal if preferred is None else preferred, ideal]
    text = "-".join(map(str, dict.fromkeys(shown)))
    return f"{text}{unit}" if nodes is None else f"{nodes}{unit} of {text}"


def jobs_text(numbers: Sequence[int]) -> str:
    """Returns ``job 4``, or ``jobs 4, 7`` for several numbers."""
    shown = ", ".join(map(str, numbers))
    return f"{'job' if len(numbers) == 1 else 'jobs'} {shown}"


def end_text(state: str, reason: str) -> str:
    """Returns how a job ended, and why: ``failed: rank 1 ended with status 7 on n1``. The
    end by a user needs one word: ``cancelled``."""
    return state if reason in ("", state) else f"{state}: {reason}"


def label_of(job: JobInfo) -> str:
    """Returns the number of a job as users write it: ``12``, or ``12_3`` in an array."""
    return str(job["job"]) if job["array"] is None else f"{job['array']}_{job['task']}"
