"""Readers of /proc on fake trees, and a few facts about this very process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

import pytest

from cosched.core.errors import CoschedError
from cosched.linux import pidfd, priority, proc
from cosched.linux.memory import held_bytes
from cosched.linux.processes.signals import Delivery, send_by_pidfd

TICK_NS = 1_000_000_000 // os.sysconf("SC_CLK_TCK")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    process = tmp_path / "proc/42"
    for tid, cpus in ((42, "0-1"), (43, "4")):
        task = process / f"task/{tid}"
        task.mkdir(parents=True)
        (task / "status").write_text(f"Name:\tx\nCpus_allowed_list:\t{cpus}\n")
    fields = ["S", *(str(n) for n in range(4, 53))]
    (process / "stat").write_text(f"42 (a ) b) {' '.join(fields)}\n")
    (process / "comm").write_text("a ) b\n")
    (process / "status").write_text("Name:\ta ) b\nUid:\t1000\t1001\t1002\t1003\n")
    (tmp_path / "proc/stat").write_text(
        "cpu  11 22 33 44 55 66 77 88 99 0\n"
        "cpu0 1 2 3 4 5 6 7 8 9 0\n"
        "cpu3 10 20 30 40 50 60 70 80 90 0\n"
        "intr 1 2 3\n"
    )
    return tmp_path


def test_process_fields_are_read(root: Path) -> None:
    assert proc.start_ticks(42, root) == 22
    assert proc.state(42, root) == "S"
    assert proc.process_uids(42, root) == (1000, 1001)
    assert proc.threads(42, root) == [42, 43]
    assert proc.cpu_affinity(42, root) == {0, 1, 4}


def test_gone_process_gives_none(root: Path) -> None:
    assert proc.start_ticks(43, root) is None
    assert proc.state(43, root) is None
    assert proc.process_uids(43, root) is None
    assert proc.threads(43, root) == []
    assert proc.cpu_affinity(43, root) == frozenset()
    assert proc.process_cpu_ns(1 << 22) is None


def test_stolen_time_is_not_busy_time(root: Path) -> None:
    assert proc.cpu_stolen_ns(root) == {0: 8 * TICK_NS, 3: 80 * TICK_NS}


def test_busy_time_leaves_out_idle_iowait_steal_and_guest(root: Path) -> None:
    assert proc.cpu_busy_ns(root) == {0: 19 * TICK_NS, 3: 190 * TICK_NS}


@pytest.mark.parametrize(
    ("text", "cpus"),
    [("", set()), ("3", {3}), ("0-2,5\n", {0, 1, 2, 5}), ("0,2-3,63", {0, 2, 3, 63})],
)
def test_cpu_lists(text: str, cpus: set[int]) -> None:
    assert proc.parse_cpu_list(text) == cpus


def test_this_process() -> None:
    me = os.getpid()
    assert proc.process_uids(me) == (os.getuid(), os.geteuid())
    assert proc.cpu_affinity(me) >= os.sched_getaffinity(0)
    before, own = proc.process_cpu_ns(me), time.process_time_ns()
    assert before is not None
    assert abs(before - own) < 1_000_000_000
    assert set(proc.cpu_busy_ns()) >= os.sched_getaffinity(0)


# --- pidfd ----------------------------------------------------------------------------


@pytest.fixture
def child() -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(["cat"], stdin=subprocess.PIPE)
    yield process
    process.kill()
    process.communicate()


def test_a_pidfd_outlives_its_process(child: subprocess.Popen[bytes]) -> None:
    fd = pidfd.open_pidfd(child.pid)
    assert fd is not None
    try:
        assert not pidfd.exited(fd)
        assert send_by_pidfd(fd, signal.SIGKILL) is Delivery.SENT
        child.wait()
        assert pidfd.exited(fd)
        assert send_by_pidfd(fd, signal.SIGKILL) is Delivery.ENDED
        assert pidfd.open_pidfd(child.pid) is None
    finally:
        os.close(fd)


def test_identity_is_pid_and_start(child: subprocess.Popen[bytes]) -> None:
    ticks = proc.start_ticks(child.pid)
    assert ticks is not None
    fd = pidfd.open_identified(child.pid, ticks)
    assert fd is not None
    os.close(fd)
    assert pidfd.open_identified(child.pid, ticks + 1) is None
    assert pidfd.open_identified(1 << 22, ticks) is None


def test_pidfd_of_thread_or_bad_pid_is_refused() -> None:
    with pytest.raises(CoschedError, match="pid 0: is not the id of a process"):
        pidfd.open_pidfd(0)


# --- priority -------------------------------------------------------------------------


def forbid(*_: object) -> None:
    raise PermissionError(1, "Operation not permitted")


def test_priority_without_fifo_is_nice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "sched_setscheduler", forbid)
    monkeypatch.setattr(os, "getpriority", lambda *_: 0)
    monkeypatch.setattr(os, "getsid", lambda _: os.getpid())
    nices: list[int] = []
    monkeypatch.setattr(os, "setpriority", lambda _, __, nice: nices.append(nice))
    (tmp_path / "proc/sys/kernel").mkdir(parents=True)
    (tmp_path / "proc/sys/kernel/sched_autogroup_enabled").write_text("1\n")
    (tmp_path / "proc/self").mkdir()
    got = priority.raise_daemon_priority(tmp_path)
    assert (got.name, nices) == ("nice -20", [-20])
    assert "SCHED_FIFO: Operation not permitted" in got.why
    # The session counts too, since its leader asked.
    assert (tmp_path / "proc/self/autogroup").read_text() == "-20"


def test_priority_without_rights_is_unchanged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "sched_setscheduler", forbid)
    monkeypatch.setattr(os, "setpriority", forbid)
    monkeypatch.setattr(os, "getpriority", lambda *_: 0)
    got = priority.raise_daemon_priority(tmp_path)
    assert got.name == "nice 0"


def test_priority_with_rights_is_fifo(monkeypatch: pytest.MonkeyPatch) -> None:
    policies: list[int] = []
    monkeypatch.setattr(
        os, "sched_setscheduler", lambda _pid, policy, _param: policies.append(policy)
    )
    assert priority.raise_daemon_priority().name == "SCHED_FIFO 1"
    assert policies == [os.SCHED_FIFO | os.SCHED_RESET_ON_FORK]


MEMBER = """
import os
from cosched.linux.priority import raise_member_priority
print(raise_member_priority(), os.getpriority(os.PRIO_PROCESS, 0), flush=True)
os.execlp("nice", "nice") if os.fork() == 0 else os.wait()
"""


def test_member_is_before_tasks_and_its_children_are_not() -> None:
    ran = subprocess.run(
        [sys.executable, "-c", MEMBER], capture_output=True, text=True, check=True
    )
    returned, own, of_child = map(int, ran.stdout.split())
    ordinary = os.getpriority(os.PRIO_PROCESS, 0)
    assert returned == own
    if os.geteuid() == 0:
        assert (own, of_child) == (-10, 0)
    else:
        assert own in (-10, ordinary)


@pytest.mark.parametrize("call", ["setpriority", "sched_setscheduler"])
def test_member_without_rights_goes_on_as_it_is(
    call: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    policies, nices = [0], [0]
    monkeypatch.setattr(os, "sched_setscheduler", lambda _, new, __: policies.append(new))
    monkeypatch.setattr(os, "setpriority", lambda _, __, nice: nices.append(nice))
    monkeypatch.setattr(os, "getpriority", lambda *_: nices[-1])
    monkeypatch.setattr(os, call, forbid)
    assert priority.raise_member_priority() == 0
    assert nices == [0]  # or tasks of jobs would inherit it


def test_reaped_process_is_not_looked_up_in_proc(monkeypatch: pytest.MonkeyPatch) -> None:
    child = subprocess.Popen(["true"])
    child.wait()

    def look_up(*_: object) -> NoReturn:
        raise AssertionError("a real-time task could spin here")

    for name in ("open", "listdir"):
        monkeypatch.setattr(os, name, look_up)
    assert proc.start_ticks(child.pid) is None
    assert proc.process_uids(child.pid) is None
    assert proc.started_by(child.pid, 9, lambda _: True) == []
    assert proc.cpu_affinity(child.pid) == frozenset()
    assert held_bytes([child.pid]) == 0
    assert proc.is_reaped(child.pid)
