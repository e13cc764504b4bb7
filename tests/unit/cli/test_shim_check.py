"""The checks of shims by ``cosched shim`` and ``doctor``, with outcomes of the tests."""

from types import SimpleNamespace

import pytest
from click.testing import CliRunner

from cosched.cli.nodes import doctor
from cosched.cli.tools import shim
from cosched.core.errors import CoschedError
from cosched.launch.selfcheck import Outcome


def test_reason_of_a_failed_run_is_shown_as_a_whole(monkeypatch):
    why = "the ranks received other messages than were sent: " + "rank 0 got 17; " * 6
    target = SimpleNamespace(mpi="mpiexec", title="MPICH 4.2", abi="mpich", build=None)
    monkeypatch.setattr(shim, "find_target", lambda *_: target)
    monkeypatch.setattr(shim, "make_shim", lambda *_: "shim.so")
    played = [Outcome("shadow", why)]
    monkeypatch.setattr(shim.shim_check, "outcomes", lambda *_: played)
    done = CliRunner().invoke(shim.Check.click_command, [])
    assert done.exit_code == 1
    with pytest.raises(CoschedError, match=r"MPICH 4\.2: shadow: does not work"):
        raise done.exception
    lines = done.output.splitlines()
    assert f"shadow FAILED: {why}".split() == " ".join(lines[1:]).split()
    assert max(map(len, lines)) <= 80


def test_doctor_shows_how_a_shim_is_built(monkeypatch):
    shown = []
    target = SimpleNamespace(title="MPICH 4.2", build=None)
    monkeypatch.setattr(doctor, "find_target", lambda *_: target)
    monkeypatch.setattr(doctor, "make_shim", lambda _, show: show(1, 9))
    monkeypatch.setattr(doctor, "show_progress", lambda *words: shown.append(words))
    monkeypatch.setattr(doctor.shim_check, "outcomes", lambda *_: [])
    mpi = SimpleNamespace(title="MPICH", version="4.2", mpiexec="mpiexec")
    (found,) = doctor._check_shims(SimpleNamespace(mpis=[mpi]))
    assert found.text == "MPICH 4.2: all calls work with both carriers"
    assert shown == [("building for MPICH 4.2", 1, 9)]
