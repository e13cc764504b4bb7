"""Tasks in groups that an engine made: their shares are set in place, and given back.

The test is the engine: it makes groups as Slurm does, in the hierarchy with the cpu
controller of this machine, and starts tasks in them as two ordinary users.
"""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from cosched.linux import proc
from cosched.linux.cgroups.cgroupfs import Hierarchy, hierarchies, move, write
from cosched.rundir.lock import lock_holder
from tests.live.conftest import LiveNode, eventually
from tests.tools.commands import run_command

pytestmark = pytest.mark.live

USERS = (65532, 65533)
WATCH_S = 1.5
TRIES = 5
NORMAL = {1: "1024", 2: "100"}
WEIGHT = {1: "cpu.shares", 2: "cpu.weight"}


class Engine:
    """Makes groups of jobs as Slurm does, and starts tasks in them."""

    def __init__(self, node: LiveNode, hierarchy: Hierarchy) -> None:
        self.node = node
        self.hierarchy = hierarchy
        self.top = hierarchy.mount_point / f"slurm_test{os.getpid()}"
        self.made: list[Path] = []

    @property
    def version(self) -> int:
        return self.hierarchy.version

    def group(self, path: str) -> Path:
        """Makes a group below the engine's, each with the cpu controller."""
        at = self.hierarchy.mount_point
        for name in (self.top.name, *Path(path).parts):
            if self.version == 2:
                write(at / "cgroup.subtree_control", "+cpu")
            at /= name
            if not at.exists():
                at.mkdir()
                self.made.append(at)
        return at

    def job(self, number: int, user: int) -> Path:
        """The group of a batch job: below its user's with version 1."""
        inside = f"job_{number}"
        return self.group(f"uid_{user}/{inside}" if self.version == 1 else inside)

    def step(self, number: int, user: int) -> Path:
        job = self.job(number, user)
        return self.group(str((job / "step_0").relative_to(self.top)))

    def task(self, name: str, group: Path, user: int, **more):
        """A task of this user that the engine started in a group."""
        script = f'echo $$ > {group}/cgroup.procs && exec "$@"'
        through = ("sh", "-c", script, "sh")
        return self.node.task(name, through=through, uid=user, **more)

    def weight(self, group: Path) -> str:
        return (group / WEIGHT[self.version]).read_text().strip()

    def standing(self) -> bool:
        """Whether every group has what the engine gave it."""
        return {self.weight(group) for group in self.made} == {NORMAL[self.version]}

    def close(self) -> None:
        for group in reversed(self.made):
            eventually(lambda g=group: not (g / "cgroup.procs").read_text(), "its end")
            group.rmdir()


def engine_of(node: LiveNode) -> Engine:
    for hierarchy in hierarchies():
        root = hierarchy.mount_point
        v2 = hierarchy.version == 2
        has_cpu = not v2 and "cpu" in hierarchy.controllers
        if v2:
            has_cpu = "cpu" in (root / "cgroup.controllers").read_text().split()
        if has_cpu and not hierarchy.read_only and os.access(root, os.W_OK):
            return Engine(node, hierarchy)
    pytest.skip("no control group with the cpu controller may be written here")


@pytest.fixture
def engine(node):
    made = engine_of(node)
    os.chmod(node.paths.run_dir, 0o755)
    yield made
    for task in node.tasks:
        task.end()
    node.down()
    made.close()


def group_of(engine: Engine, pid: int) -> Path | None:
    group = engine.hierarchy.group_of(pid)
    return None if group is None else engine.hierarchy.directory(group)


def placed(node: LiveNode, name: str) -> dict:
    return node.job(name)["class"]


def two_jobs(engine: Engine):
    """A job of each of two users, in a batch job of its own."""
    groups = [engine.step(number, user) for number, user in enumerate(USERS, start=7)]
    names = ("a", "b")
    both = zip(names, groups, USERS, strict=True)
    return [engine.task(name, group, user) for name, group, user in both], groups


def received(pids) -> list[float]:
    before = [proc.process_cpu_ns(pid) or 0 for pid in pids]
    time.sleep(WATCH_S)
    got = [(proc.process_cpu_ns(p) or 0) - b for p, b in zip(pids, before, strict=True)]
    return [ns / max(1, sum(got)) for ns in got]


def test_two_users_jobs_are_steered_in_their_engines_groups(engine, node):
    node.up(slice="30s")
    tasks, groups = two_jobs(engine)
    assert [task.error for task in tasks] == [0, 0]
    for task, group, name in zip(tasks, groups, "ab", strict=True):
        assert group_of(engine, task.pid) == group
        assert placed(node, name)["ways"] == ["in place"]
        assert placed(node, name)["groups"] == [str(group.parent)]
    pids = [task.pid for task in tasks]
    seen = []
    for turn in (0, 1):
        if not tasks[turn].scheduled:
            assert tasks[turn].ask("arrive 1") == "1"
            eventually(lambda t=tasks[turn]: t.scheduled, "the switch")
        for task in tasks:
            task.tell(f"spin {TRIES * (WATCH_S + 0.5)}")
        # A kernel may first make up for what happened under other weights.
        for _ in range(TRIES):
            seen.append(received(pids))
            if seen[-1][turn] > 0.9:
                break
        else:
            pytest.fail(f"parts of the CPU: {seen}")
        for task in tasks:
            task.tell("status")
            task.answer()  # to spin, which ends
            task.answer()
    for task in tasks:
        assert task.ask("leave") == "bye"
    eventually(lambda: not node.status()["jobs"], "both gone")
    assert engine.standing()


@pytest.mark.parametrize("killed", ["scheduler", "both", "all"])
def test_groups_are_given_back_after_a_crash(engine, node, killed):
    node.up()
    tasks, _ = two_jobs(engine)
    assert not engine.standing()
    if killed != "scheduler":
        os.kill(node.scheduler_pid, signal.SIGSTOP)
        if killed == "all":  # otherwise the process in reserve restores
            os.kill(lock_holder(node.paths.spare_lock), signal.SIGKILL)
        os.kill(node.timer_pid, signal.SIGKILL)
    os.kill(node.scheduler_pid, signal.SIGKILL)
    eventually(lambda: node.scheduler_pid is None, "the daemon's end")
    if killed == "all":
        assert not engine.standing()
        place = ["--run-dir", node.paths.run_dir, "--node", node.paths.node]
        free = run_command("down", "--keep-jobs", *place)
        assert free.returncode == 0, free.stderr
        assert engine.standing()
    else:
        eventually(engine.standing, "the engine's weights", 2.0)
    eventually(lambda: all(task.scheduled for task in tasks), "everyone running")
    # The next daemon takes over.
    node.up()
    eventually(lambda: not engine.standing(), "shares in place")
    assert placed(node, "a")["ways"] == ["in place"]
    assert node.down()
    assert engine.standing()


def test_user_does_not_leave_limits_by_registering(engine, node):
    """A task of an ordinary user stays in a login session with a CPU quota; root may go."""
    session = engine.group("user.slice/session-1.scope")
    limit = {1: ("cpu.cfs_quota_us", "80000"), 2: ("cpu.max", "80000 100000")}
    name, value = limit[engine.version]
    write(session / name, value)
    node.up()
    stranger = engine.task("a", session, USERS[0])
    assert stranger.error == 0
    roots = engine.task("b", session, 0)
    assert group_of(engine, stranger.pid) == session
    place = placed(node, "a")
    assert place["ways"] == ["duty cycle"]
    assert f"not moved: {session / name} is a limit" in place["reason"]
    assert placed(node, "b")["ways"] == ["moved"]
    assert group_of(engine, roots.pid) != session
    # It takes its turns all the same.
    first, second = (stranger, roots) if stranger.scheduled else (roots, stranger)
    assert second.ask("arrive 1") == "1"
    eventually(lambda: second.scheduled, "the switch")
    eventually(lambda: not first.scheduled, "the switch")
    assert first.ask("leave") == "bye"


def test_foreign_task_in_group_moves_nothing(engine, node):
    node.up()
    tasks, groups = two_jobs(engine)
    third = engine.task("c", groups[0], USERS[0])
    assert group_of(engine, tasks[0].pid) == groups[0]
    assert group_of(engine, third.pid) == groups[0]
    assert placed(node, "a")["ways"] == ["duty cycle"]
    assert placed(node, "b")["ways"] == ["in place"]
    assert "a quota" not in str(placed(node, "c")["bounded"])
    third.kill()
    eventually(lambda: placed(node, "a")["ways"] == ["in place"], "its group again")


def test_vanished_group_and_task_that_leaves_are_one_line_each(engine, node):
    node.up()
    tasks, groups = two_jobs(engine)
    assert not engine.standing()
    other = engine.step(9, USERS[0])
    move(other, tasks[0].pid)
    for group in (groups[0], groups[0].parent):
        group.rmdir()
        engine.made.remove(group)
    eventually(lambda: placed(node, "a")["groups"] == [str(other.parent)], "the new group")
    log = node.paths.log.read_text()
    assert log.count("tasks left their group") == 1
    assert "Traceback" not in log
    waiting = next(task for task in tasks if not task.scheduled)
    assert waiting.ask("arrive 1") == "1"
    eventually(lambda: waiting.scheduled, "the switch")
    assert float(tasks[0].ask("spin 0.05")) >= 0


def test_suspended_job_stops_in_place(engine, node):
    node.up()
    tasks, _ = two_jobs(engine)
    for word, state in (("suspend", "T"), ("resume", "S")):
        done = run_command(word, "a", "--run-dir", node.paths.run_dir)
        assert done.returncode == 0, done.stderr
        eventually(lambda s=state: proc.state(tasks[0].pid) == s, f"state {state}")
    assert tasks[0].ask("status")
