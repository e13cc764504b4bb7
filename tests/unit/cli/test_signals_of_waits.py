"""Signals to a command that waits for a job: the first one cancels the job."""

from __future__ import annotations

import os
import signal

import pytest

from cosched.cli.domain.waiting import Interrupted, Interrupts


def test_terminal_that_closes_cancels_the_job():
    """Its shell sends SIGHUP, and the kernel sends it again when the shell ends."""
    with Interrupts() as interrupts:
        interrupts.arm()
        with pytest.raises(Interrupted) as first:
            os.kill(os.getpid(), signal.SIGHUP)
        os.kill(os.getpid(), signal.SIGHUP)
        with pytest.raises(SystemExit) as second:
            os.kill(os.getpid(), signal.SIGTERM)
    assert first.value.number == signal.SIGHUP
    assert second.value.code == 128 + signal.SIGTERM


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_second_signal_ends_the_command(number):
    with Interrupts():
        os.kill(os.getpid(), number)
        with pytest.raises(SystemExit) as ended:
            os.kill(os.getpid(), number)
    assert ended.value.code == 128 + number
