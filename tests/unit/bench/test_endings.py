"""How the command of an experiment ends that cannot go on."""

import os
import signal

import pytest

from benchmarks.experiment import INTERRUPTED, in_one_line
from benchmarks.experiments.hold_yield import __main__ as hold_yield


def test_missing_trace_is_one_line(tmp_path):
    words = [str(tmp_path / "none.swf"), "--out", str(tmp_path / "out")]
    with pytest.raises(SystemExit, match=r"^hold_yield: .*none\.swf: cannot be read"):
        hold_yield.main(words)


def test_interruption_has_no_traceback(capsys):
    with pytest.raises(SystemExit) as caught, in_one_line("mine"):
        os.kill(os.getpid(), signal.SIGTERM)
    assert caught.value.code == INTERRUPTED
    assert capsys.readouterr().err == "mine: interrupted\n"


def test_internal_fault_keeps_its_traceback():
    with pytest.raises(ZeroDivisionError), in_one_line("mine"):
        1 / 0  # noqa: B018
