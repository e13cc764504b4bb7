"""Sends a job for ``cosched submit --wait``, and waits until it has ended."""

from __future__ import annotations

import os

from cosched.cli.domain.sending import Sending, note, say
from cosched.cli.domain.waiting import Ended, Sizes, run_array_to_end, run_to_end
from cosched.core.arrays import parse_array


def send_to_end(sending: Sending, source: int | None, *, copy: bool) -> Ended:
    """Submits the job and returns it once it has ended.

    source: a descriptor that is the job's standard input while it runs; None: it has
    another one. copy: copies its output.
    """
    sizes = None
    if copy:
        job = sending.job
        files = (job.output, job.error)
        output, error = (file and os.path.join(job.cwd, file) for file in files)
        sizes = Sizes.of(output, error)
    return run_to_end(sending.connect, sending.sender(), sizes, source, say, note)


def send_array_to_end(sending: Sending) -> list[Ended]:
    """Submits an array and returns its tasks once all have ended. An interrupt cancels all
    of them."""
    tasks = len(parse_array(sending.job.array).indices)
    return run_array_to_end(sending.connect, sending.sender(), tasks, say)
