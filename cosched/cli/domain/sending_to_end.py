"""Sends a job for ``cosched submit --wait``, and waits until it has ended."""

from __future__ import annotations

import os

from cosched.cli.domain.sending import Sending, note, say
from cosched.cli.domain.waiting import Ended, Sizes, run_to_end


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
