"""Tasks in engines' groups over fake cgroup trees: in place, moved, or duty cycle."""

from __future__ import annotations

import errno
import logging
import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from cosched.core.config.words import Move
from cosched.core.errors import CoschedError
from cosched.linux.cgroups import placement
from cosched.linux.cgroups.placement import PlacedClasses, place_tasks
from cosched.linux.classes import ShareRefused, Way
from cosched.linux.probe import attach, probe
from tests.unit.linux.fake_cgroups import SELF, FakeKernel

FOUR = frozenset(range(4))
TAG = "n"
WEIGHT = {1: "cpu.shares", 2: "cpu.weight"}
QUOTA = {1: "cpu.cfs_quota_us", 2: "cpu.max"}
NORMAL = {1: "1024", 2: "100"}
LOW = {1: "11", 2: "1"}
UNLIMITED = {1: "-1", 2: "max 100000"}


class FakeDuty:
    """The duty cycle, without processes to signal."""

    pulse_period_ns = 1

    def __init__(self, mode: str) -> None:
        self.members: dict[int, str] = {}
        self.calls: list[tuple[str, object]] = []

    def create(self, job: str, cpus: frozenset[int]) -> None:
        pass

    def add(self, job: str, pid: int, start_ticks: int | None = None) -> None:
        self.members[pid] = job

    def remove(self, job: str, pid: int) -> None:
        self.members.pop(pid, None)

    def destroy(self, job: str) -> None:
        self.members = {p: j for p, j in self.members.items() if j != job}

    def set_shares(self, percents: Mapping[str, int]) -> frozenset[int]:
        self.calls.append(("shares", dict(percents)))
        return frozenset()

    def freeze(self, job: str) -> None:
        self.calls.append(("freeze", job))

    def thaw(self, job: str) -> None:
        self.calls.append(("thaw", job))

    def restore(self, pids: Mapping[str, Mapping[int, int]]) -> None:
        self.calls.append(("restore", dict(pids)))

    def cpu_ns(self, job: str) -> int:
        return 0

    def pulse(self) -> None:
        self.calls.append(("pulse", None))


@pytest.fixture
def kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeKernel:
    monkeypatch.setattr(placement, "DutyCycle", FakeDuty)
    return FakeKernel(tmp_path, monkeypatch)


def hand_down(kernel: FakeKernel, mount: Path, *groups: str) -> None:
    """Makes groups of version 2, each with the controllers of its parent."""
    for path in groups:
        below = mount
        for name in Path(path).parts:
            kernel.write(below / "cgroup.subtree_control", "+cpu")
            below /= name
            if not below.exists():
                kernel.group(below)


class Node:
    """A fake machine with Slurm's groups, in either version."""

    def __init__(self, kernel: FakeKernel, version: int, nesting: str) -> None:
        self.kernel, self.version = kernel, version
        self.mount = kernel.mount("cgroup2" if version == 2 else "cpu", "/sys/fs/cgroup")
        self.nesting = nesting

    def step(self, job: int, user: int = 1, step: int = 0, leaf: str = "task_0") -> Path:
        """The group of a Slurm task; makes it."""
        path = self.nesting.format(user=user, job=job) + f"/step_{step}/{leaf}"
        if self.version == 2:
            hand_down(self.kernel, self.mount, path)
        elif not (self.mount / path).exists():
            self.kernel.group(self.mount / path)
        return self.mount / path

    def job(self, job: int, user: int = 1) -> Path:
        return self.mount / self.nesting.format(user=user, job=job)

    def weight(self, group: Path) -> str:
        return self.kernel.value(group / WEIGHT[self.version])

    def quota(self, group: Path) -> str:
        return self.kernel.value(group / QUOTA[self.version])

    def classes(self, mode: str = "proportional", move: Move = Move.FREE) -> PlacedClasses:
        found = probe(TAG, want=f"cgroup{self.version}", mode=mode, root=self.kernel.root)
        placed = place_tasks(found.scheduler, TAG, move)
        assert isinstance(placed, PlacedClasses)
        self.kernel.writes.clear()
        return placed

    def guardian(self, mode: str = "proportional") -> PlacedClasses:
        found = attach(TAG, f"cgroup{self.version}", mode, self.kernel.root)
        placed = place_tasks(found, TAG)
        assert isinstance(placed, PlacedClasses)
        return placed


LAYOUTS = [
    pytest.param((1, "slurm/uid_{user}/job_{job}"), id="v1-slurm22"),
    pytest.param((2, "system.slice/slurmstepd.scope/job_{job}"), id="v2-slurm23"),
]


@pytest.fixture(params=LAYOUTS)
def node(kernel: FakeKernel, request: pytest.FixtureRequest) -> Node:
    version, nesting = request.param
    return Node(kernel, version, nesting)


def fill(node: Node, classes: PlacedClasses, jobs: Mapping[str, int]) -> dict[str, Path]:
    """A task of each cosched job in the batch job of that number; the jobs' groups."""
    for pid, (job, number) in enumerate(jobs.items(), start=200):
        node.kernel.task(pid, node.step(number))
        classes.create(job, FOUR)
        classes.add(job, pid)
    return {job: node.job(number) for job, number in jobs.items()}


TWO = {"1.a": 7, "1.b": 8}


def test_batch_jobs_are_steered_in_place(node: Node) -> None:
    classes = node.classes()
    groups = fill(node, classes, {"1.a": 7})
    assert node.kernel.writes == []  # one job competes with nothing
    groups |= fill_more(node, classes, "1.b", 8)
    for scheduled, waiting in (("1.a", "1.b"), ("1.b", "1.a")):
        assert classes.set_shares({scheduled: 99, waiting: 1}) == FOUR
        assert node.weight(groups[scheduled]) == NORMAL[node.version]
        assert node.weight(groups[waiting]) in ("1", "3")  # one task on four CPUs
    place = classes.place("1.a")
    assert place.ways == (Way.IN_PLACE,)
    assert place.groups == (str(groups["1.a"]),)
    assert node.kernel.members(node.step(7)) == [200]
    assert not (node.mount / "cosched-n").exists()


def fill_more(node: Node, classes: PlacedClasses, job: str, number: int) -> dict[str, Path]:
    pid = 300 + number
    node.kernel.task(pid, node.step(number))
    classes.create(job, FOUR)
    classes.add(job, pid)
    return {job: node.job(number)}


def test_what_stood_there_comes_back(node: Node) -> None:
    classes = node.classes()
    (node.step(7), node.step(8))
    standing = {"1": "512", "2": "250"}[str(node.version)]
    (node.job(7) / WEIGHT[node.version]).write_text(standing)
    groups = fill(node, classes, TWO)
    classes.set_shares({"1.a": 1, "1.b": 99})
    assert node.weight(groups["1.a"]) != standing
    assert node.kernel.attributes
    classes.destroy("1.b")
    assert node.weight(groups["1.a"]) == standing
    assert not node.kernel.attributes


@pytest.mark.parametrize("mode", ["proportional", "strict"])
def test_other_process_gives_groups_back(node: Node, mode: str) -> None:
    """The timer daemon's guardian, after the scheduler daemon was killed."""
    groups = fill(node, node.classes(mode), TWO)
    classes = node.guardian(mode)
    # A killed daemon's loans, as its successor or guardian finds them.
    dead = node.classes(mode)
    for pid, job in ((200, "1.a"), (201, "1.b")):
        dead.create(job, FOUR)
        dead.add(job, pid)
    dead.set_shares({"1.a": 1, "1.b": 98})
    changed = {"proportional": node.weight, "strict": node.quota}[mode]
    normal = {"proportional": NORMAL, "strict": UNLIMITED}[mode][node.version]
    assert changed(groups["1.a"]) != normal
    classes.restore({})
    classes.restore({})
    for group in groups.values():
        assert node.weight(group) == NORMAL[node.version]
        assert node.quota(group) == UNLIMITED[node.version]
    assert not node.kernel.attributes
    # And back, by the process that did not restore.
    dead.restore({})
    dead.set_shares({"1.a": 1, "1.b": 98})
    assert changed(groups["1.a"]) != normal


def test_next_daemon_takes_over(node: Node) -> None:
    dead = node.classes()
    groups = fill(node, dead, TWO)
    dead.set_shares({"1.a": 1, "1.b": 99})
    successor = node.classes()
    for pid, job in ((200, "1.a"), (201, "1.b")):
        successor.create(job, FOUR)
        successor.add(job, pid)
    successor.set_shares({"1.a": 99, "1.b": 1})
    assert node.weight(groups["1.a"]) == NORMAL[node.version]
    successor.close()
    assert {node.weight(group) for group in groups.values()} == {NORMAL[node.version]}
    assert not node.kernel.attributes


def test_second_daemon_leaves_group_alone(
    node: Node, caplog: pytest.LogCaptureFixture
) -> None:
    groups = fill(node, node.classes(), TWO)
    name = "trusted" if os.geteuid() == 0 else "user"
    for group in groups.values():
        os.setxattr(group, f"{name}.cosched.standing", b"other\ncpu.shares=5")
    classes = node.classes()
    for pid, job in ((200, "1.a"), (201, "1.b")):
        classes.create(job, FOUR)
        classes.add(job, pid)
    for _ in range(3):
        classes.set_shares({"1.a": 1, "1.b": 99})
    lines = [r.message for r in caplog.records if "another cosched daemon" in r.message]
    assert len(lines) == len(groups)  # once each
    classes.close()
    assert len(node.kernel.attributes) == len(groups)


def test_strict_shares_are_quotas_in_place(node: Node) -> None:
    classes = node.classes("strict")
    groups = fill(node, classes, TWO)
    classes.set_shares({"1.a": 50, "1.b": 1})
    assert node.quota(groups["1.a"]).split()[0] == "200000"
    assert node.quota(groups["1.b"]).split()[0] == "1000"
    assert node.weight(groups["1.a"]) == NORMAL[node.version]
    classes.close()
    assert node.quota(groups["1.a"]) == UNLIMITED[node.version]


def test_quota_of_engine_stays_an_upper_bound(node: Node) -> None:
    classes = node.classes("strict")
    (node.step(7), node.step(8))
    engines = {1: "20000", 2: "20000 100000"}[node.version]
    (node.job(7) / QUOTA[node.version]).write_text(engines)
    groups = fill(node, classes, TWO)
    classes.set_shares({"1.a": 99, "1.b": 1})
    assert node.quota(groups["1.a"]) == engines
    classes.set_shares({"1.a": 1, "1.b": 99})
    assert node.quota(groups["1.a"]).split()[0] == "1000"


def test_two_jobs_of_one_batch_job_have_its_steps(node: Node) -> None:
    classes = node.classes()
    for pid, job, step in ((200, "1.a", 0), (201, "1.b", 1)):
        node.kernel.task(pid, node.step(7, step=step))
        classes.create(job, FOUR)
        classes.add(job, pid)
    classes.set_shares({"1.a": 99, "1.b": 1})
    assert node.weight(node.job(7)) == NORMAL[node.version]
    assert node.weight(node.job(7) / "step_0") == NORMAL[node.version]
    assert node.weight(node.job(7) / "step_1") != NORMAL[node.version]


def test_foreign_task_ends_class_in_place(
    node: Node, caplog: pytest.LogCaptureFixture
) -> None:
    classes = node.classes()
    fill(node, classes, TWO)
    classes.set_shares({"1.a": 1, "1.b": 99})
    node.kernel.task(400, node.step(7))
    classes.create("1.c", FOUR)
    classes.add("1.c", 400)
    assert node.weight(node.job(7)) == NORMAL[node.version]
    # Ordinary users' tasks do not leave an engine's group.
    assert classes.place("1.a").ways == (Way.DUTY_CYCLE,)
    assert "also holds tasks of job 1.c" in str(classes.place("1.a").reason)
    lines = [r.message for r in caplog.records if r.levelno >= logging.WARNING]
    assert len(lines) == 1
    assert lines[0].startswith("job 1.a: no longer steered in place, since /")
    # The job that stays in place competes with jobs at other levels: a quota bounds it.
    classes.set_shares({"1.a": 98, "1.b": 1, "1.c": 1})
    assert node.quota(node.job(8)).split()[0] == "1000"
    assert "is steered in another way: duty cycle" in str(classes.place("1.b").bounded)
    classes.destroy("1.c")
    assert classes.place("1.a").ways == (Way.IN_PLACE,)  # it has its group again
    classes.set_shares({"1.a": 1, "1.b": 99})
    assert node.quota(node.job(8)) == UNLIMITED[node.version]


def test_same_share_reaches_a_job_that_is_in_place_again(node: Node) -> None:
    classes = node.classes()
    fill(node, classes, TWO)
    node.kernel.task(400, node.step(7))
    classes.create("1.c", FOUR)
    classes.add("1.c", 400)
    classes.set_shares({"1.a": 1, "1.b": 99})
    classes.destroy("1.c")
    assert classes.place("1.a").ways == (Way.IN_PLACE,)
    classes.set_shares({"1.a": 1, "1.b": 99})
    assert node.weight(node.job(7)) != NORMAL[node.version]


def test_same_share_reaches_a_job_that_was_suspended(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(placement, "signal_trees", lambda *_: None)
    classes = node.classes()
    groups = fill(node, classes, TWO)
    classes.set_shares({"1.a": 1, "1.b": 99})
    low = node.weight(groups["1.a"])
    classes.freeze("1.a")
    assert node.weight(groups["1.a"]) != low
    classes.thaw("1.a")
    classes.set_shares({"1.a": 1, "1.b": 99})
    assert node.weight(groups["1.a"]) == low


def test_task_that_leaves_its_group_is_followed(
    node: Node, caplog: pytest.LogCaptureFixture
) -> None:
    classes = node.classes()
    fill(node, classes, TWO)
    classes.set_shares({"1.a": 1, "1.b": 99})
    node.kernel.place(200, node.step(9))
    classes.inspect()
    classes.inspect()
    assert classes.place("1.a").groups == (str(node.job(9)),)
    classes.set_shares({"1.a": 1, "1.b": 99})
    assert node.weight(node.job(9)) != NORMAL[node.version]
    assert node.weight(node.job(7)) == NORMAL[node.version]
    lines = [r.message for r in caplog.records]
    assert len(lines) == 1
    assert lines[0].startswith("job 1.a: tasks left their group /")


def test_vanished_group_is_one_line(
    node: Node, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    classes = node.classes()
    groups = fill(node, classes, TWO)
    classes.set_shares({"1.a": 1, "1.b": 99})
    pwrite = os.pwrite

    def gone(fd: int, text: bytes, offset: int) -> int:
        if Path(os.readlink(f"/proc/self/fd/{fd}")).parent == groups["1.a"]:
            raise OSError(errno.ENODEV, "No such device")
        return pwrite(fd, text, offset)

    monkeypatch.setattr(os, "pwrite", gone)
    classes.set_shares({"1.a": 99, "1.b": 1})
    assert node.weight(groups["1.b"]) != NORMAL[node.version]  # the others have theirs
    for _ in range(3):
        classes.set_shares({"1.a": 1, "1.b": 99})
        classes.inspect()
    assert [r.message for r in caplog.records] == [
        f"{groups['1.a']} was removed: its tasks run at the kernel's shares"
    ]


def test_refused_share_reaches_caller_after_the_others(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    classes = node.classes()
    groups = fill(node, classes, TWO)
    pwrite = os.pwrite

    def refuse(fd: int, text: bytes, offset: int) -> int:
        if Path(os.readlink(f"/proc/self/fd/{fd}")).parent == groups["1.a"]:
            raise OSError(errno.EACCES, "Permission denied")
        return pwrite(fd, text, offset)

    monkeypatch.setattr(os, "pwrite", refuse)
    with pytest.raises(ShareRefused, match=r"job_7/.* refuses its share"):
        classes.set_shares({"1.a": 99, "1.b": 1})
    assert node.weight(groups["1.b"]) != NORMAL[node.version]


def test_group_ended_before_it_was_taken(
    node: Node, caplog: pytest.LogCaptureFixture
) -> None:
    classes = node.classes()
    fill(node, classes, TWO)
    node.kernel.end(200)
    for directory in (node.step(7), node.job(7) / "step_0", node.job(7)):
        os.rmdir(directory)
    classes.set_shares({"1.a": 1, "1.b": 99})
    classes.remove("1.a", 200)
    classes.destroy("1.a")
    assert not [r for r in caplog.records if r.levelno > logging.WARNING]


def test_containers_of_ranks_are_one_class(kernel: FakeKernel) -> None:
    mount = kernel.mount("cgroup2", "/sys/fs/cgroup")
    names = [f"machine.slice/libpod-{number * 64}.scope" for number in "abcd"]
    hand_down(kernel, mount, *names)
    node = Node.__new__(Node)
    node.kernel, node.version, node.mount = kernel, 2, mount
    classes = node.classes()
    for job, pids in (("1.a", (200, 201)), ("1.b", (202, 203))):
        classes.create(job, frozenset({0, 1}))
        for pid in pids:
            kernel.task(pid, mount / names[pid - 200])
            classes.add(job, pid)
    classes.set_shares({"1.a": 99, "1.b": 1})
    weights = [node.weight(mount / name) for name in names]
    assert weights == ["100", "100", "1", "1"]
    assert len(classes.place("1.a").groups) == 2


def test_user_scopes_of_two_users_are_bounded_by_quotas(kernel: FakeKernel) -> None:
    """Their users' slices also hold login sessions, so their weights stay."""
    mount = kernel.mount("cgroup2", "/sys/fs/cgroup")
    scopes = [f"user.slice/user-{u}.slice/user@{u}.service/run-r1.scope" for u in (7, 8)]
    sessions = [f"user.slice/user-{u}.slice/session-1.scope" for u in (7, 8)]
    hand_down(kernel, mount, *scopes, *sessions)
    node = Node.__new__(Node)
    node.kernel, node.version, node.mount = kernel, 2, mount
    for pid, session in enumerate(sessions, start=300):
        kernel.task(pid, mount / session)
    classes = node.classes()
    for pid, job in ((200, "7.a"), (201, "8.b")):
        kernel.task(pid, mount / scopes[pid - 200])
        classes.create(job, FOUR)
        classes.add(job, pid)
    classes.set_shares({"7.a": 99, "8.b": 1})
    assert [node.quota(mount / scope) for scope in scopes] == ["max 100000", "1000 100000"]
    assert node.weight(mount / "user.slice/user-8.slice") == "100"
    bounded = classes.place("8.b").bounded
    assert bounded == "/user.slice/user-8.slice also holds other programs"
    # The session ends: now the slice's weight is the job's alone.
    kernel.end(301)
    classes.inspect()
    classes.set_shares({"7.a": 99, "8.b": 1})
    assert node.weight(mount / "user.slice/user-8.slice") == "1"


def test_missing_controller_is_the_reason(kernel: FakeKernel) -> None:
    mount = kernel.mount("cgroup2", "/sys/fs/cgroup")
    scope = kernel.group(mount / "system.slice/slurmstepd.scope/job_7/step_0")
    node = Node.__new__(Node)
    node.kernel, node.version, node.mount = kernel, 2, mount
    classes = node.classes()
    kernel.task(200, scope)
    classes.create("1.a", FOUR)
    classes.add("1.a", 200)
    place = classes.place("1.a")
    assert place.ways == (Way.DUTY_CYCLE,)
    above = mount / "system.slice/slurmstepd.scope/cgroup.subtree_control"
    assert f"the cpu controller is not in {above}" in str(place.reason)


def test_group_of_the_daemon_is_no_class(kernel: FakeKernel) -> None:
    """A user's scope that holds the private daemon: tasks are moved inside of it."""
    mount = kernel.mount("cgroup2", "/sys/fs/cgroup")
    hand_down(kernel, mount, "user.slice/run-7.scope")
    scope = mount / "user.slice/run-7.scope"
    kernel.place(SELF, scope)
    node = Node.__new__(Node)
    node.kernel, node.version, node.mount = kernel, 2, mount
    classes = node.classes()
    kernel.task(200, scope, uid=0)
    classes.create("0.a", FOUR)
    classes.add("0.a", 200)
    place = classes.place("0.a")
    assert place.ways == (Way.MOVED,)
    assert place.reason == f"{scope} also holds cosched's daemons"


# --- who may be moved ---------------------------------------------------------------------


def login(kernel: FakeKernel, version: int) -> tuple[Node, Path]:
    node = Node(kernel, version, "user.slice/user-{user}.slice/session-{job}.scope")
    session = "user.slice/user-7.slice/session-1.scope"
    if version == 2:
        hand_down(kernel, node.mount, session)
    else:
        kernel.group(node.mount / session)
    return node, node.mount / session


LIMITS = {
    1: [("cpu.cfs_quota_us", "5000"), ("cpu.shares", "100")],
    2: [
        ("memory.max", "1000000"),
        ("pids.max", "20"),
        ("cpuset.cpus", "0-1"),
        ("cpu.max", "5000 100000"),
    ],
}


@pytest.mark.parametrize("version", [1, 2])
def test_task_without_limits_is_moved(kernel: FakeKernel, version: int) -> None:
    node, session = login(kernel, version)
    classes = node.classes()
    kernel.task(200, session)
    classes.create("7.a", FOUR)
    classes.add("7.a", 200)
    assert kernel.members(node.mount / "cosched-n/7.a") == [200]
    place = classes.place("7.a")
    assert place.ways == (Way.MOVED,)
    assert place.reason == (
        "/user.slice/user-7.slice/session-1.scope is not a group of one job"
    )
    classes.destroy("7.a")
    assert kernel.members(session) == [200]


@pytest.mark.parametrize("version", [1, 2])
def test_task_that_another_program_moved_is_steered_again(
    kernel: FakeKernel, version: int
) -> None:
    node, session = login(kernel, version)
    scope = session.with_name("run-r1.scope")
    if version == 2:
        hand_down(kernel, node.mount, str(scope.relative_to(node.mount)))
    else:
        kernel.group(scope)
    classes = node.classes()
    kernel.task(200, session)
    classes.create("7.a", FOUR)
    for group, way in ((session, Way.MOVED), (scope, Way.IN_PLACE), (session, Way.MOVED)):
        kernel.place(200, group)
        classes.inspect()
        classes.add("7.a", 200)
        assert classes.place("7.a").ways == (way,)
        assert (kernel.members(group) == [200]) == (way is Way.IN_PLACE)
    classes.destroy("7.a")
    assert kernel.members(session) == [200]


@pytest.mark.parametrize(
    ("version", "limit"),
    [(version, limit) for version in LIMITS for limit in LIMITS[version]],
)
def test_users_task_never_leaves_limits(
    kernel: FakeKernel, version: int, limit: tuple[str, str]
) -> None:
    node, session = login(kernel, version)
    # The limit of an outer group counts too.
    (session.parent / limit[0]).write_text(limit[1])
    classes = node.classes()
    for pid, uid in ((200, 7), (201, 0)):
        kernel.task(pid, session, uid=uid)
        classes.create(f"{uid}.a", FOUR)
        classes.add(f"{uid}.a", pid)
    assert kernel.members(session) == [200]
    place = classes.place("7.a")
    assert place.ways == (Way.DUTY_CYCLE,)
    assert str(place.reason).endswith(f"not moved: {session.parent / limit[0]} is a limit")
    assert classes.place("0.a").ways == (Way.MOVED,)  # root may leave its limits
    assert classes.pulse_period_ns is not None
    # Both compete outside of each other's groups, so a quota bounds the moved one.
    classes.set_shares({"7.a": 99, "0.a": 1})
    assert node.quota(node.mount / "cosched-n/0.a").split()[0] == "1000"
    classes.set_shares({"7.a": 1, "0.a": 99})
    assert node.quota(node.mount / "cosched-n/0.a").split()[0] in ("-1", "max")
    classes.destroy("7.a")
    assert classes.pulse_period_ns is None


def test_delegated_group_keeps_its_tasks(kernel: FakeKernel) -> None:
    node, session = login(kernel, 2)
    os.setxattr(session, "trusted.delegate", b"1")
    classes = node.classes()
    kernel.task(200, session)
    classes.create("7.a", FOUR)
    classes.add("7.a", 200)
    assert "is delegated to another program" in str(classes.place("7.a").reason)


@pytest.mark.parametrize("version", [1, 2])
def test_move_never_moves_no_task(kernel: FakeKernel, version: int) -> None:
    node, session = login(kernel, version)
    classes = node.classes(move=Move.NEVER)
    kernel.task(200, session, uid=0)
    classes.create("0.a", FOUR)
    classes.add("0.a", 200)
    assert kernel.members(session) == [200]
    assert str(classes.place("0.a").reason).endswith("not moved: move = never in [limits]")


def test_unusable_way_is_an_error_of_this_task_only(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    classes = node.classes()
    groups = fill(node, classes, TWO)
    node.kernel.task(400, node.mount, uid=0)
    classes.create("0.c", FOUR)

    def refuse(path: Path) -> None:
        raise OSError(errno.EACCES, "Permission denied", str(path))

    monkeypatch.setattr("cosched.linux.cgroups.cgroupfs.make_group", refuse)
    with pytest.raises(CoschedError, match=r"class 0\.c: cannot be made"):
        classes.add("0.c", 400)
    assert classes.place("0.c").ways == ()
    classes.set_shares({"1.a": 1, "1.b": 98, "0.c": 1})
    assert node.weight(groups["1.a"]) != NORMAL[node.version]
