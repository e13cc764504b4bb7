"""Sends an array for ``cosched submit --wait``, and waits until all tasks have ended."""

from __future__ import annotations

from cosched.cli.domain.sending import Sending, say
from cosched.cli.domain.waiting import Ended, run_array_to_end
from cosched.core.arrays import parse_array


def send_array_to_end(sending: Sending) -> list[Ended]:
    """Submits an array and returns its tasks once all have ended. An interrupt cancels all
    of them."""
    tasks = len(parse_array(sending.job.array).indices)
    return run_array_to_end(sending.connect, sending.sender(), tasks, say)
