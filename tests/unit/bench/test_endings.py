"""How the command of an experiment ends that cannot go on."""

import os
import signal

import pytest

from benchmarks.experiments.endings import INTERRUPTED, in_one_line
from benchmarks.experiments.hold_yield import experiment as hold_yield


def test_a_trace_that_is_not_there(tmp_path):
    words = [str(tmp_path / "none.swf"), "--out", str(tmp_path / "out")]
    with pytest.raises(SystemExit, match=r"^hold_yield: .*none\.swf: cannot be read"):
        hold_yield.main(words)


def test_an_interruption_is_told_without_a_traceback(capsys):
    with pytest.raises(SystemExit) as caught, in_one_line("mine"):
        os.kill(os.getpid(), signal.SIGTERM)
    assert caught.value.code == INTERRUPTED
    assert capsys.readouterr().err == "mine: interrupted\n"


def test_a_fault_of_its_own_keeps_its_traceback():
    with pytest.raises(ZeroDivisionError), in_one_line("mine"):
        1 / 0  # noqa: B018
