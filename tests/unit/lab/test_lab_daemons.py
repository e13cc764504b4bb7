"""The daemons of a lab's nodes start some at a time, and each failure is reported."""

from __future__ import annotations

import subprocess
import threading
from pathlib import Path

import pytest

from cosched.core.errors import CoschedError
from cosched.lab import life
from cosched.lab.lab import Lab

NAMES = [f"lab{number}" for number in range(1, 3 * life.AT_ONCE + 1)]


@pytest.fixture
def lab(monkeypatch):
    monkeypatch.setattr(Lab, "enter_argv", lambda _, name, directory: ["enter", name])
    return Lab(Path("/nowhere"), "10.77.0.0/24", Path("/nowhere/agent"), (), None)


def test_many_nodes_start_their_daemons_some_at_a_time(lab, monkeypatch):
    lock, together = threading.Lock(), threading.Barrier(life.AT_ONCE, timeout=30)
    now, depths, ran = set(), [], []

    def run(argv, **_):
        with lock:
            now.add(argv[1])
            depths.append(len(now))
        together.wait()
        with lock:
            now.remove(argv[1])
            ran.append(argv[1])
        return subprocess.CompletedProcess(argv, 0)

    monkeypatch.setattr(life.subprocess, "run", run)
    life._in_nodes(lab, NAMES, ["up"])
    assert sorted(ran) == sorted(NAMES)
    assert max(depths) == life.AT_ONCE


def test_each_node_whose_daemons_fail_is_named(lab, monkeypatch):
    def run(argv, stdout, timeout, **_):
        if argv[1] == "lab2":
            raise subprocess.TimeoutExpired(argv, timeout)
        if argv[1] == "lab9":
            stdout.write(b"first\ncannot listen\n")
            return subprocess.CompletedProcess(argv, 1)
        return subprocess.CompletedProcess(argv, 0)

    monkeypatch.setattr(life.subprocess, "run", run)
    expected = "lab2: 'cosched up' took over 30 s; lab9: 'cosched up' failed: cannot listen"
    with pytest.raises(CoschedError, match=f"^{expected}$"):
        life._in_nodes(lab, NAMES, ["up"])
