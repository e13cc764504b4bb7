"""Malformed messages over all borders end no daemon; the run is short, with one seed."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest

from tests.fuzz.__main__ import run
from tests.fuzz.kinds import MAKERS
from tests.fuzz.senders import messages

MESSAGES = 4000


@pytest.mark.parametrize("maker", sorted(MAKERS))
def test_a_seed_always_gives_the_same_messages(maker):
    first, again = (list(messages(maker, 7, 60)) for _ in range(2))
    assert first == again
    assert len(set(first)) > 5


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: senders are other users")
def test_malformed_messages_end_no_daemon():
    with tempfile.TemporaryDirectory(prefix="cosched-fuzz-") as folder:
        Path(folder).chmod(0o755)  # for senders that are other users
        result = run(MESSAGES, 20_261_127, 60.0, Path(folder))
    assert not result.ended, result.lines()
    assert all(result.sent.values()), result.lines()
    assert result.log_bytes < 1 << 20, result.lines()
    assert not any("job of n2" in problem for problem in result.problems)
