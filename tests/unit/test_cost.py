"""What ``--cost`` writes about a session."""

from types import SimpleNamespace

import pytest

from tests.cost import Writer


def test_session_that_is_interrupted_before_its_workers_end_has_its_line(tmp_path):
    file, lines = tmp_path / "cost", []
    writer = Writer(SimpleNamespace(stash=pytest.Stash()), file)
    report = {"nodeid": "test_a", "when": "call", "cost_s": (1.5, 2.0)}
    writer.pytest_runtest_logreport(SimpleNamespace(**report))
    writer.pytest_terminal_summary(SimpleNamespace(write_line=lines.append))
    assert file.read_text() == "0.000\t1.500\t0.000\t2.000\ttest_a\n"
    assert lines == [f"CPU: 0 s; 2 s in 1 tests, 0 s before the first one; see {file}"]
