"""The class scheduler of this machine, over processes that spin.

Benchmarks measure time. These tests check only order and rough size, because other programs
may use the CPUs too.
"""

from __future__ import annotations

import fnmatch
import json
import os
import signal
import subprocess
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from cosched.core.config.words import MODES
from cosched.linux import proc
from cosched.linux.cgroups import freezer
from cosched.linux.cgroups.cgroupfs import hierarchies, move
from cosched.linux.classes import ClassScheduler
from cosched.linux.probe import attach, probe
from tests.live.conftest import eventually

pytestmark = [
    pytest.mark.live,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root: makes control groups"),
]

CPU = max(os.sched_getaffinity(0))
CPUS = frozenset({CPU})
JOBS = ("0.a", "0.b", "0.c", "0.d")
NOBODY = 65534
#: As in the orders that leave nothing to unscheduled jobs.
IDLE = {job: 100 if job == JOBS[0] else 0 for job in JOBS}
WATCH_S = 1.5
PATIENCE_S = 60.0

Spin = Callable[[], int]


@pytest.fixture
def spin() -> Iterator[Spin]:
    """Starts processes that spin on one CPU; ends them in any state."""
    started: list[subprocess.Popen[bytes]] = []

    def start() -> int:
        process = subprocess.Popen(["sh", "-c", "while :; do :; done"])
        os.sched_setaffinity(process.pid, CPUS)
        started.append(process)
        return process.pid

    yield start
    for process in started:
        process.kill()
        process.wait()


@pytest.fixture
def tag() -> Iterator[str]:
    """A tag whose groups are removed after the test."""
    name = f"live-{os.getpid()}"
    yield name
    assert not left_behind(name)


def left_behind(tag: str) -> list[Path]:
    """Returns the groups of the tag that still exist, and removes them."""
    found = [
        Path(place, name)
        for hierarchy in hierarchies()
        for place, names, _ in os.walk(hierarchy.mount_point)  # passes over removed ones
        for name in fnmatch.filter(names, f"cosched-*{tag}")
    ]
    for kind in ("cgroup2", "cgroup1"):
        with suppress(Exception):
            attach(tag, kind).close()
    return found


@pytest.fixture(params=MODES)
def classes(request: pytest.FixtureRequest, tag: str) -> Iterator[ClassScheduler]:
    scheduler = probe(tag, mode=request.param).scheduler
    if scheduler.name == "dutycycle":
        pytest.skip("no cgroup with the cpu controller may be written here")
    yield scheduler
    scheduler.close()


def fill(
    classes: ClassScheduler, spin: Spin, jobs: tuple[str, ...] = JOBS
) -> dict[str, int]:
    """A class with one spinning process for each job."""
    pids = {}
    for job in jobs:
        pids[job] = spin()
        classes.create(job, CPUS)
        classes.add(job, pids[job])
    return pids


def shares_of(scheduled: str) -> dict[str, int]:
    return {job: 97 if job == scheduled else 1 for job in JOBS}


def received(pids: dict[str, int]) -> dict[str, float]:
    """Each job's part of what all of them got during the next moments."""
    before = cpu_times(pids)
    time.sleep(WATCH_S)
    got = {job: ns - before[job] for job, ns in cpu_times(pids).items()}
    return {job: ns / sum(got.values()) for job, ns in got.items()}


def cpu_times(pids: dict[str, int]) -> dict[str, int]:
    """The CPU time of each job until now."""
    return {job: proc.process_cpu_ns(pid) or 0 for job, pid in pids.items()}


def group_of(pid: int) -> str:
    return Path(f"/proc/{pid}/cgroup").read_text()


def assert_scheduled(job: str, got: dict[str, float], least: float = 0.8) -> None:
    assert got[job] > least, got


# --- control groups ---------------------------------------------------------------------


def test_scheduled_job_gets_nearly_all_cpu_time(
    classes: ClassScheduler, spin: Spin
) -> None:
    pids = fill(classes, spin)
    # Quotas of unscheduled jobs are theirs also where others leave the scheduled one less.
    least = 0.6 if classes.mode == "strict" else 0.8
    for job in JOBS[:2]:
        classes.set_shares(shares_of(job))
        assert_scheduled(job, received(pids), least)


def test_unscheduled_jobs_run_too(classes: ClassScheduler, spin: Spin) -> None:
    """Otherwise they could trap no message until their next turn."""
    pids = fill(classes, spin)
    classes.set_shares(shares_of(JOBS[0]))
    before = {job: proc.process_cpu_ns(pid) or 0 for job, pid in pids.items()}
    deadline = time.monotonic() + PATIENCE_S
    waiting = set(JOBS)
    while waiting:
        assert time.monotonic() < deadline, f"got no turn: {sorted(waiting)}"
        time.sleep(0.05)
        waiting = {j for j in waiting if proc.process_cpu_ns(pids[j]) == before[j]}


def test_jobs_without_a_share_leave_the_cpu_to_the_scheduled_one(
    classes: ClassScheduler, spin: Spin
) -> None:
    if classes.mode == "strict":
        pytest.skip("a quota has a least value of 1%")
    pids = fill(classes, spin)
    classes.set_shares(IDLE)
    assert_scheduled(JOBS[0], received(pids), least=0.95)


def test_jobs_without_a_share_get_what_the_scheduled_one_leaves(
    classes: ClassScheduler, spin: Spin
) -> None:
    if classes.mode == "strict":
        pytest.skip("quotas leave unused time unused")
    pids = fill(classes, spin)
    classes.set_shares(IDLE)
    os.kill(pids[JOBS[0]], signal.SIGSTOP)
    got = received(pids)
    os.kill(pids[JOBS[0]], signal.SIGCONT)
    assert min(got[job] for job in JOBS[1:]) > 0.1, got


def test_cpu_time_is_accounted(classes: ClassScheduler, spin: Spin) -> None:
    pids = fill(classes, spin)
    classes.set_shares(shares_of(JOBS[0]))
    received(pids)
    used = {job: classes.cpu_ns(job) for job in JOBS}
    if None in used.values():
        pytest.skip("this machine does not account CPU time by group")
    assert max(used, key=lambda job: used[job] or 0) == JOBS[0]


def stands_still(pid: int) -> bool:
    before = proc.process_cpu_ns(pid)
    time.sleep(0.05)
    return proc.process_cpu_ns(pid) == before


@pytest.mark.parametrize("classes", MODES[:1], indirect=True)
@pytest.mark.parametrize("undo", ["thaw", "remove", "destroy", "another process"])
def test_frozen_class_stops_and_continues(
    classes: ClassScheduler, spin: Spin, tag: str, undo: str
) -> None:
    """The mode changes nothing but shares."""
    job = JOBS[0]
    pid = fill(classes, spin, (job,))[job]
    classes.freeze(job)
    eventually(lambda: stands_still(pid), "the class to stop")
    newcomer = spin()
    classes.add(job, newcomer)
    classes.freeze(job)
    eventually(lambda: stands_still(newcomer), "the newcomer to stop")
    if undo == "thaw":
        classes.thaw(job)
    elif undo == "remove":
        classes.remove(job, pid)
        assert stands_still(newcomer)
    elif undo == "destroy":
        classes.destroy(job)
    else:
        attach(tag, classes.name, classes.mode).thaw(job)
    eventually(lambda: not stands_still(pid), "the process to go on")


def test_version_2_freezes_all_processes_in_the_group(spin: Spin) -> None:
    """Freezing needs no controller."""
    unified = next((h for h in hierarchies() if h.version == 2 and not h.read_only), None)
    if unified is None:
        pytest.skip("no cgroup v2 hierarchy is mounted")
    group = unified.mount_point / f"cosched-freezer-{os.getpid()}"
    group.mkdir()
    pid = spin()
    try:
        move(group, pid)
        freezer.freeze(group)
        frozen = group / "cgroup.events"
        eventually(lambda: "frozen 1" in frozen.read_text(), "the group to stop")
        assert stands_still(pid)
        move(unified.mount_point, pid)  # a process that is moved out continues
        eventually(lambda: not stands_still(pid), "the process to go on")
        move(group, pid)
        eventually(lambda: stands_still(pid), "a process that is moved in to stop")
        freezer.thaw(group)
        eventually(lambda: not stands_still(pid), "the process to go on")
    finally:
        move(unified.mount_point, pid)
        group.rmdir()


def test_guardian_restores_normal_shares(
    classes: ClassScheduler, spin: Spin, tag: str
) -> None:
    pids = fill(classes, spin)
    classes.set_shares(shares_of(JOBS[0]))
    guardian = attach(tag, classes.name, classes.mode)
    guardian.restore({})
    guardian.restore({})
    # A kernel may first make up for what happened under other weights.
    assert any(min(received(pids).values()) > 0.1 for _ in range(4))
    # And back, by the one that did not restore.
    classes.restore({})
    classes.set_shares(shares_of(JOBS[1]))
    assert_scheduled(JOBS[1], received(pids), least=0.6)


def test_next_daemon_takes_over_classes(
    classes: ClassScheduler, spin: Spin, tag: str
) -> None:
    pids = fill(classes, spin)
    classes.set_shares(shares_of(JOBS[0]))
    inside = {job: group_of(pid) for job, pid in pids.items()}
    successor = probe(tag, mode=classes.mode).scheduler
    assert successor.name == classes.name
    for job, pid in pids.items():
        successor.create(job, CPUS)
        successor.add(job, pid)
        assert group_of(pid) == inside[job]
    successor.set_shares(shares_of(JOBS[1]))
    assert_scheduled(JOBS[1], received(pids), least=0.6)
    successor.close()
    assert all(f"cosched-{tag}" not in group_of(pid) for pid in pids.values())


def test_destroy_gives_members_back(classes: ClassScheduler, spin: Spin, tag: str) -> None:
    home = group_of(os.getpid())
    pids = fill(classes, spin)
    assert all(f"cosched-{tag}/{job}" in group_of(pid) for job, pid in pids.items())
    classes.remove(JOBS[0], pids[JOBS[0]])
    for job in JOBS:
        classes.destroy(job)
        assert group_of(pids[job]) == home
        assert proc.state(pids[job]) in ("R", "S")


def test_dead_task_is_no_error(classes: ClassScheduler, spin: Spin, tag: str) -> None:
    pid, other = fill(classes, spin, JOBS[:2]).values()
    os.kill(pid, signal.SIGKILL)
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    classes.set_shares({JOBS[0]: 100})
    classes.remove(JOBS[0], pid)
    classes.add(JOBS[0], 1 << 22)
    classes.destroy(JOBS[0])
    assert f"cosched-{tag}/{JOBS[1]}" in group_of(other)
    places = [place for each in hierarchies() for place, *_ in os.walk(each.mount_point)]
    left = fnmatch.filter(places, f"*/cosched-*{tag}/*")
    assert {os.path.basename(place) for place in left} == {JOBS[1]}


def test_only_strict_loses_unused_time(spin: Spin, tag: str) -> None:
    got = {}
    for mode in MODES:
        scheduler = probe(tag, mode=mode).scheduler
        if scheduler.name == "dutycycle":
            pytest.skip("no cgroup with the cpu controller may be written here")
        try:
            pids = fill(scheduler, spin, JOBS[:1])
            scheduler.set_shares({JOBS[0]: 5})
            before = proc.process_cpu_ns(pids[JOBS[0]]) or 0
            time.sleep(WATCH_S)
            got[mode] = (proc.process_cpu_ns(pids[JOBS[0]]) or 0) - before
        finally:
            scheduler.close()
    assert got["strict"] < 0.15 * WATCH_S * 1e9
    assert got["proportional"] > got["strict"]


# --- an ordinary user -------------------------------------------------------------------


def as_nobody(task: Callable[[], object]) -> object:
    """Runs ``task`` as an ordinary user in a child process; returns its result."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            os.setgroups([])
            os.setgid(NOBODY)
            os.setuid(NOBODY)
            os.write(writer, json.dumps(task()).encode())
            status = 0
        except BaseException:  # noqa: BLE001
            traceback.print_exc()
        finally:
            os._exit(status)
    os.close(writer)
    with open(reader, "rb") as answer:
        text = answer.read()
    _, status = os.waitpid(child, 0)
    assert status == 0
    return json.loads(text)


def test_ordinary_user_gets_a_class_scheduler() -> None:
    """Without delegation only the duty cycle is left, and the reasons show it."""
    tried = as_nobody(lambda: probe("live").tried)
    assert isinstance(tried, list)
    assert tried[-1][1].startswith("chosen: ")
    assert all("\n" not in reason for _, reason in tried)
