"""Tests the duty cycle over processes of this user: none stays stopped."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator

import pytest

from cosched.core.errors import CoschedError
from cosched.core.node.periods import DUTY_CYCLE_NS
from cosched.linux import pidfd, proc
from cosched.linux.dutycycle import PULSE_NS, DutyCycle
from cosched.linux.probe import attach, probe

SHARED = frozenset({0})
Spawn = Callable[[], int]


@pytest.fixture
def spawn() -> Iterator[Spawn]:
    """Starts processes that wait; ends them whatever state they are in."""
    processes: list[subprocess.Popen[bytes]] = []

    def start() -> int:
        processes.append(subprocess.Popen(["cat"], stdin=subprocess.PIPE))
        return processes[-1].pid

    yield start
    for process in processes:
        process.kill()
        process.communicate()


def stopped(pid: int) -> bool:
    """Whether the process is stopped, given the moment that a signal takes."""
    state = proc.state(pid)
    for _ in range(100):
        time.sleep(0.001)
        state, before = proc.state(pid), state
        if state == before and state != "R":
            break
    return state == "T"


def cycle(spawn: Spawn, mode: str, jobs: str = "abc") -> tuple[DutyCycle, dict[str, int]]:
    classes = DutyCycle(mode)
    pids = {}
    for job in jobs:
        classes.create(job, SHARED)
        pids[job] = spawn()
        classes.add(job, pids[job])
    return classes, pids


def who_runs(pids: dict[str, int]) -> str:
    return "".join(job for job, pid in pids.items() if not stopped(pid))


def test_only_the_scheduled_job_runs(spawn: Spawn) -> None:
    classes, pids = cycle(spawn, "proportional")
    assert who_runs(pids) == "abc"
    classes.set_shares({"a": 98, "b": 1, "c": 1})
    assert who_runs(pids) == "a"
    classes.set_shares({"a": 1, "b": 98})
    assert who_runs(pids) == "b"
    classes.close()
    assert who_runs(pids) == "abc"


def test_a_frozen_job_is_stopped_and_gets_no_pulse(spawn: Spawn) -> None:
    classes, pids = cycle(spawn, "proportional")
    classes.freeze("b")
    classes.set_shares({"a": 99, "c": 1})
    for _ in range(6):
        assert stopped(pids["b"])
        classes.pulse()
    newcomer = spawn()
    classes.add("b", newcomer)
    assert stopped(newcomer)
    classes.thaw("b")
    classes.set_shares({"a": 98, "b": 1, "c": 1})
    classes.set_shares({"a": 1, "b": 98})
    assert who_runs(pids) == "b"
    classes.close()


@pytest.mark.parametrize("undo", ["remove", "destroy", "close", "restore"])
def test_frozen_job_continues_after_removal_or_close(spawn: Spawn, undo: str) -> None:
    classes, pids = cycle(spawn, "proportional")
    classes.freeze("a")
    assert who_runs(pids) == "bc"
    if undo == "remove":
        classes.remove("a", pids["a"])
    elif undo == "destroy":
        classes.destroy("a")
    elif undo == "close":
        classes.close()
    else:
        classes.restore({})
    assert who_runs(pids) == "abc"


@pytest.mark.parametrize(
    ("mode", "seen"),
    [
        ("proportional", ["ab", "a", "ac", "a", "ab", "a"]),
        ("strict", ["b", "a", "c", "a", "b", "a"]),
    ],
)
def test_pulses_take_turns(spawn: Spawn, mode: str, seen: list[str]) -> None:
    classes, pids = cycle(spawn, mode)
    classes.set_shares({"a": 98, "b": 1, "c": 1})
    found, elapsed = [], 0
    for _ in seen:
        classes.pulse()
        found.append(who_runs(pids))
        assert classes.pulse_period_ns is not None
        elapsed += classes.pulse_period_ns
    assert found == seen
    # Three pulses of two waiting jobs: one and a half cycles.
    assert elapsed == DUTY_CYCLE_NS * 3 // 2
    classes.close()


def test_process_of_another_user_does_not_stop_pulses(
    spawn: Spawn, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    classes, pids = cycle(spawn, "strict")
    classes.set_shares({"a": 98, "b": 1, "c": 1})
    strange, send = classes._jobs["a"].pidfds[pids["a"]], signal.pidfd_send_signal

    def refuse(fd: int, number: int) -> None:
        if fd == strange:
            raise PermissionError
        send(fd, number)

    monkeypatch.setattr(signal, "pidfd_send_signal", refuse)
    found = []
    for _ in range(4):
        classes.pulse()
        found.append(who_runs(pids))
    assert found == ["ab", "a", "ac", "a"]  # it runs on its own
    assert [
        f"process {pids['a']} now belongs" in r.getMessage() for r in caplog.records
    ] == [True]
    classes.close()
    assert who_runs(pids) == "abc"


def test_a_switch_ends_a_pulse(spawn: Spawn) -> None:
    classes, pids = cycle(spawn, "strict")
    classes.set_shares({"a": 98, "b": 1, "c": 1})
    classes.pulse()
    classes.set_shares({"a": 1, "b": 1, "c": 98})
    assert who_runs(pids) == "c"
    assert classes.pulse_period_ns != PULSE_NS["strict"]
    classes.close()


def test_strict_pulse_stops_only_jobs_on_same_cpus(spawn: Spawn) -> None:
    classes, pids = cycle(spawn, "strict")
    classes.create("c", frozenset({1}))
    classes.set_shares({"a": 99, "b": 1, "c": 100})
    classes.pulse()
    assert who_runs(pids) == "bc"
    classes.close()


@pytest.mark.parametrize(
    "percents", [{"a": 1, "b": 1, "c": 1}, {"a": 34, "b": 33, "c": 33}]
)
def test_all_jobs_run_if_none_is_scheduled(spawn: Spawn, percents: dict[str, int]) -> None:
    classes, pids = cycle(spawn, "proportional")
    classes.set_shares(percents)
    classes.pulse()
    assert who_runs(pids) == "abc"
    classes.close()


def test_end_of_scheduled_job_continues_others(spawn: Spawn) -> None:
    classes, pids = cycle(spawn, "proportional")
    classes.set_shares({"a": 98, "b": 1, "c": 1})
    classes.destroy("a")
    assert who_runs(pids) == "abc"
    classes.close()


def test_end_of_pulsed_job_ends_its_pulse(spawn: Spawn) -> None:
    classes, pids = cycle(spawn, "strict")
    classes.set_shares({"a": 98, "b": 1, "c": 1})
    classes.pulse()
    classes.destroy("b")
    assert who_runs(pids) == "ab"
    classes.close()


def test_late_task_of_stopped_job_is_stopped(spawn: Spawn) -> None:
    classes, _ = cycle(spawn, "proportional")
    classes.set_shares({"a": 98, "b": 1, "c": 1})
    late = spawn()
    classes.add("b", late)
    assert stopped(late)
    classes.remove("b", late)
    assert not stopped(late)
    classes.close()


def test_only_stopped_processes_are_continued(
    spawn: Spawn, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent, send = [], signal.pidfd_send_signal

    def note(fd: int, number: int) -> None:
        sent.append(number)
        send(fd, number)

    monkeypatch.setattr(signal, "pidfd_send_signal", note)
    classes, pids = cycle(spawn, "proportional")
    classes.remove("a", pids["a"])
    assert signal.SIGCONT not in sent
    left = spawn()  # as by a scheduler daemon that was killed
    os.kill(left, signal.SIGSTOP)
    assert stopped(left)
    classes.add("a", left)
    assert not stopped(left)
    classes.close()


def test_dead_processes_are_ignored(spawn: Spawn) -> None:
    classes, pids = cycle(spawn, "proportional")
    classes.add("a", 1 << 22)
    fd = pidfd.open_pidfd(pids["b"])
    assert fd is not None
    signal.pidfd_send_signal(fd, signal.SIGKILL)
    while not pidfd.exited(fd):
        time.sleep(0.001)
    before = classes.cpu_ns("b")
    classes.set_shares({"a": 98, "b": 1, "c": 1})
    classes.set_shares({"a": 1, "b": 98, "c": 1})
    assert classes.cpu_ns("b") == before
    classes.remove("b", pids["b"])
    classes.close()


def test_cpu_time_does_not_shrink_when_a_task_leaves(spawn: Spawn) -> None:
    classes, pids = cycle(spawn, "proportional")
    used = classes.cpu_ns("a")
    assert used is not None
    classes.remove("a", pids["a"])
    after = classes.cpu_ns("a")
    assert after is not None
    assert after >= used
    assert classes.cpu_ns("unknown") is None
    classes.close()


def started(pid: int) -> dict[int, int]:
    ticks = proc.start_ticks(pid)
    assert ticks is not None
    return {pid: ticks}


def test_reused_pid_is_neither_added_nor_continued(spawn: Spawn) -> None:
    classes, pids = cycle(spawn, "strict")
    ticks = proc.start_ticks(pids["a"])
    assert ticks is not None
    classes.create("d", frozenset({0}))
    classes.add("d", pids["a"], ticks + 1)
    classes.set_shares({"d": 1, "a": 98, "b": 1, "c": 1})
    assert who_runs(pids) == "a"
    attach("n", "dutycycle").restore({"b": {pids["b"]: 1}, "c": started(pids["c"])})
    assert who_runs(pids) == "ac"
    classes.close()


def test_restore_continues_processes_passed_to_it(spawn: Spawn) -> None:
    dead, pids = cycle(spawn, "strict")
    dead.set_shares({"a": 98, "b": 1, "c": 1})
    assert who_runs(pids) == "a"
    guardian = attach("n", "dutycycle")
    for _ in range(2):
        guardian.restore({job: started(pid) | {1 << 22: 1} for job, pid in pids.items()})
        assert who_runs(pids) == "abc"


def test_restore_holds_until_the_next_switch(spawn: Spawn) -> None:
    classes, pids = cycle(spawn, "strict")
    classes.set_shares({"a": 98, "b": 1, "c": 1})
    classes.pulse()
    classes.restore({})
    classes.pulse()
    assert who_runs(pids) == "abc"
    classes.set_shares({"a": 98, "b": 1, "c": 1})
    assert who_runs(pids) == "a"
    classes.close()


def test_unknown_class_and_bad_pid_are_errors(spawn: Spawn) -> None:
    classes = DutyCycle("strict")
    with pytest.raises(CoschedError, match="does not exist"):
        classes.add("a", 1)
    classes.set_shares({"a": 1})  # its class could not be made
    classes.destroy("a")
    classes.remove("a", 1)


def test_probe_gives_reason_for_duty_cycle() -> None:
    found = probe("n", want="dutycycle")
    assert found.scheduler.name == "dutycycle"
    assert found.tried[0][1].startswith("chosen: ")
