"""Signals: their fates, their names, and the one place that sends them."""

from __future__ import annotations

import ast
import os
import signal
import subprocess
import sys
from collections.abc import Iterable, Iterator

import pytest

from cosched.linux.pidfd import open_pidfd
from cosched.linux.processes.signals import (
    Delivery,
    send,
    send_by_pidfd,
    send_to_child,
    send_to_group,
    signal_name,
)
from tests.places import ROOT
from tests.tools.sources import nodes_of, python_files, words_of

HOME = "cosched/linux/processes/signals.py"
#: Calls that stand elsewhere, and why: file, call, reason.
ELSEWHERE = {
    ("cosched/node/children/kept_child.py", "terminate"): "the daemon's own child",
    ("cosched/cluster/up/members.py", "terminate"): "a member that this command starts",
    ("cosched/launch/process.py", "terminate"): "of psutil, whose errors are taken",
}
_FUNCTIONS = {"kill", "killpg", "pidfd_send_signal"}
_METHODS = {"kill", "terminate", "send_signal"}
#: Objects with a method of such a name that sends no signal.
_OTHERS = {"steward", "keeper", "command", "self.nursery", "group", "self._group"}


@pytest.fixture
def child() -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(["cat"], stdin=subprocess.PIPE)
    yield process
    process.kill()
    process.communicate()


def test_a_signal_is_sent_or_the_process_has_ended(child: subprocess.Popen[bytes]) -> None:
    pidfd = open_pidfd(child.pid)
    assert pidfd is not None
    try:
        assert send(child.pid, 0) is Delivery.SENT
        assert send_by_pidfd(pidfd, signal.SIGKILL) is Delivery.SENT
        child.wait()
        assert send_by_pidfd(pidfd, signal.SIGKILL) is Delivery.ENDED
        assert send(child.pid, signal.SIGKILL) is Delivery.ENDED
        assert send_to_group(child.pid, signal.SIGKILL) is Delivery.ENDED
        assert send_to_child(child, signal.SIGKILL) is Delivery.ENDED
    finally:
        os.close(pidfd)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to make another user's process")
def test_a_process_of_another_user_is_foreign_and_no_error() -> None:
    program = (
        "import os, signal, subprocess, sys\n"
        "from cosched.linux.processes.signals import *\n"
        "become = lambda: os.setresuid(65534, 65534, 65534)\n"
        "other = subprocess.Popen(['cat'], stdin=subprocess.PIPE, preexec_fn=become,\n"
        "                         start_new_session=True)\n"
        "pidfd = os.pidfd_open(other.pid)\n"
        "print(send(other.pid, 15), send_to_group(other.pid, 15),\n"
        "      send_by_pidfd(pidfd, 15), send_to_child(other, 15))\n"
        "other.communicate()\n"
    )
    weak = ("setpriv", "--bounding-set=-kill", "--inh-caps=-kill")
    words = [*weak, sys.executable, "-c", program]
    done = subprocess.run(words, check=False, capture_output=True, text=True)
    assert (done.stdout, done.stderr) == (" ".join(["Delivery.FOREIGN"] * 4) + "\n", "")


def test_each_signal_has_the_name_that_bash_gives_it() -> None:
    for number in range(1, 65):
        words = ["bash", "-c", f"kill -l {number}"]
        done = subprocess.run(words, check=False, capture_output=True, text=True)
        found = done.stdout.strip()
        if found and not found.isdecimal():
            assert signal_name(number) == f"SIG{found.removeprefix('SIG')}"
    assert signal_name(40) == "SIGRTMIN+6"
    assert signal_name(99) == "signal 99"


def test_all_signals_to_other_processes_are_sent_in_one_place() -> None:
    found = {
        (str(path.relative_to(ROOT)), call)
        for path in python_files("cosched", "daemons")
        for call in _calls(nodes_of(path))
        if str(path.relative_to(ROOT)) != HOME
    }
    assert found == set(ELSEWHERE)


def _calls(nodes: Iterable[ast.AST]) -> Iterator[str]:
    """Yields the names of calls that send a signal to another process."""
    for node in nodes:
        if isinstance(node, ast.ImportFrom) and node.module in ("os", "signal"):
            yield from ("import" for each in node.names if "kill" in each.name)
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            continue
        name = node.func.attr
        if name not in _METHODS | _FUNCTIONS:
            continue
        owner = words_of(node.func.value)
        to_itself = bool(node.args) and ast.unparse(node.args[0]) == "os.getpid()"
        if owner in ("os", "signal"):
            if name in _FUNCTIONS and not to_itself:
                yield name
        elif name in _METHODS and owner not in _OTHERS:
            yield name
