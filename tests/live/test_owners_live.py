"""Owners' control of live jobs: suspend, resume, boost, detach, and their permissions. No
process stays stopped when daemons die."""

from __future__ import annotations

import json
import os
import signal

import pytest

from cosched.core.errors import CoschedError
from cosched.linux import proc
from cosched.node.sockets.client import request
from cosched.shm._native import ffi, lib
from tests.live.conftest import eventually
from tests.live.test_daemons_live import class_members
from tests.tools.commands import run_command

pytestmark = pytest.mark.live

STRANGER = 65534


def cosched(node, *words, status=0):
    run = run_command(*words, "--run-dir", node.paths.run_dir)
    assert run.returncode == status, run.stderr
    return (run.stdout if status == 0 else run.stderr).strip()


def stands_still(task):
    """Whether the process is stopped by a signal or its group is frozen."""
    group = f"/sys/fs/cgroup{task_group(task.pid)}/cgroup.events"
    if proc.state(task.pid) == "T":
        return True
    return os.path.exists(group) and "frozen 1" in open(group).read()


def task_group(pid):
    with open(f"/proc/{pid}/cgroup") as lines:
        return next((line[3:].strip() for line in lines if line.startswith("0::")), "")


@pytest.fixture
def stranger(node):
    """Registers a task of another user; it lives until the test is over."""
    os.chmod(node.paths.run_dir, 0o755)
    held = []

    def register(job):
        # A fork: the interpreter itself may be in a folder that is closed to others.
        said, answer = os.pipe()
        stay, end = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(end)
            os.setgroups([])
            os.setgid(STRANGER)
            os.setuid(STRANGER)
            link, part = (
                ffi.new("struct cosched_link *"),
                ffi.new("struct cosched_registration *"),
            )
            name = ffi.new("char[]", job.encode())
            part.job, part.world = name, 1
            socket = str(node.paths.register_socket).encode()
            error = lib.cosched_attach(link, socket, part, 5000)
            os.write(answer, ffi.string(link.reason) if error else b"registered")
            os.read(stay, 1)
            os._exit(0)
        for fd in (answer, stay):
            os.close(fd)
        held.append((child, end))
        with os.fdopen(said) as lines:
            assert os.read(lines.fileno(), 200) == b"registered"

    yield register
    for child, end in held:
        os.close(end)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def as_user(uid, node, op, job):
    """The daemon's answer, or its error, to a request by another user."""
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        os.setuid(uid)
        try:
            answer = json.dumps(request(node.paths, op, job=job))
        except CoschedError as error:
            answer = str(error)
        os.write(write_end, answer.encode())
        os._exit(0)
    os.close(write_end)
    os.waitpid(child, 0)
    with os.fdopen(read_end) as said:
        return said.read()


@pytest.mark.parametrize("class_scheduler", ["auto", "dutycycle"])
def test_suspended_job_stops_until_it_is_resumed(node, class_scheduler):
    # On a busy machine a shorter slice may be over when the job goes on.
    node.up(class_scheduler=class_scheduler, slice="10min")
    first, second = node.task("a"), node.task("b")
    said = cosched(node, "suspend", "a")
    assert said == f"node node1: job {os.geteuid()}.a: suspended"
    eventually(lambda: stands_still(first), "the job to stop")
    assert second.scheduled
    assert node.job("a")["state"] == "suspended"
    assert "already suspended" in cosched(node, "suspend", "a")
    text = cosched(node, "status")
    assert "suspended" in text
    assert max(map(len, text.splitlines())) <= 80
    cosched(node, "resume", "a")
    eventually(lambda: not stands_still(first), "the job to go on")
    assert first.ask("arrive 1") == "1"
    eventually(lambda: first.scheduled, "its turn")


def test_suspended_job_runs_only_between_two_daemons(node):
    node.up()
    task = node.task("a")
    cosched(node, "suspend", "a")
    eventually(lambda: stands_still(task), "the job to stop")
    os.kill(node.scheduler_pid, signal.SIGKILL)
    eventually(lambda: not stands_still(task), "the guardian to continue it")
    eventually(lambda: node.scheduler_pid is None, "the daemon's end")
    assert task.scheduled
    node.up()
    eventually(lambda: stands_still(task), "the new daemon to take over")
    assert node.job("a")["mode"] == "suspended"
    node.down()
    eventually(lambda: not stands_still(task), "it to run on without daemons")
    assert task.scheduled


def test_down_continues_suspended_jobs_of_killed_daemons(node):
    node.up()
    task = node.task("a")
    cosched(node, "suspend", "a")
    eventually(lambda: stands_still(task), "the job to stop")
    node.kill_all()
    assert stands_still(task)
    eventually(lambda: node.scheduler_pid is None, "the daemon's end")
    assert node.down()
    eventually(lambda: not stands_still(task), "it to run on")
    assert node.remains() == []


def test_suspended_job_can_be_killed(node):
    node.up()
    task = node.task("a")
    cosched(node, "suspend", "a")
    task.kill()
    eventually(lambda: node.job("a") is None, "the job to be forgotten")
    assert class_members(node, "a") is None


def test_released_job_gets_kernel_scheduling(node):
    node.up()
    first, second = node.task("a"), node.task("b")
    cosched(node, "detach", "b")
    assert class_members(node, "b") is None
    assert first.scheduled
    assert second.scheduled
    assert node.job("b")["state"] == "released"
    assert "-" in cosched(node, "status")
    cosched(node, "resume", "b")
    assert class_members(node, "b") == {second.pid}
    assert not second.scheduled


def test_boosted_job_runs_alone_at_once(node):
    node.up(slice="100ms")
    first, second = node.task("a"), node.task("b")
    cosched(node, "boost", "b")
    assert second.scheduled
    ticks = node.status()["timer"]["ticks"]
    eventually(lambda: node.status()["timer"]["ticks"] > ticks + 3, "slices to end")
    assert node.job("b")["state"] == "raised"
    assert not first.scheduled
    cosched(node, "resume", "b")
    eventually(lambda: first.scheduled, "the other one's turn")


def test_only_owner_and_root_may_change_a_job(node, stranger):
    node.up()
    node.task("mine")
    stranger("theirs")
    assert "belongs to uid 0" in as_user(STRANGER, node, "suspend", "mine")
    assert node.job("mine")["state"] != "suspended"
    assert '"suspended"' in as_user(STRANGER, node, "suspend", "theirs")
    assert node.job("theirs")["state"] == "suspended"
    refused = as_user(STRANGER, node, "raise", "theirs")
    assert "the operator has to allow it" in refused
    assert '"coscheduled"' in as_user(0, node, "resume", f"{STRANGER}.theirs")
    assert '"raised"' in as_user(0, node, "raise", "theirs")


def test_operator_may_allow_boosting(node, stranger):
    node.up(options={"allow_raise": True})
    stranger("theirs")
    assert '"raised"' in as_user(STRANGER, node, "raise", "theirs")


def test_job_name_of_several_users_needs_the_key(node, stranger):
    node.up()
    node.task("app")
    stranger("app")
    line = cosched(node, "suspend", "app", status=1)
    assert line.endswith(f"name one: {os.geteuid()}.app or {STRANGER}.app")
    cosched(node, "suspend", f"{STRANGER}.app")
    states = {job["uid"]: job["state"] for job in node.status()["jobs"]}
    assert states[STRANGER] == "suspended"
    assert states[os.geteuid()] == "on"


def test_unknown_jobs_and_absent_daemons_get_one_line(node):
    assert "no daemons are up" in cosched(node, "resume", "a", status=1)
    node.up()
    assert cosched(node, "boost", "a", status=1) == (
        "cosched: no job 'a' on node1; see: cosched status"
    )


def test_json_reports_each_change_by_node(node):
    node.up()
    node.task("a")
    document = json.loads(cosched(node, "suspend", "a", "--json"))
    assert document["nodes"] == [
        {
            "node": "node1",
            "job": f"{os.geteuid()}.a",
            "before": "coscheduled",
            "mode": "suspended",
            "error": None,
        }
    ]


def test_shell_completes_job_names(node):
    def offered(word):
        environment = {
            **os.environ,
            "_COSCHED_COMPLETE": "bash_complete",
            "COMP_WORDS": f"cosched suspend {word}",
            "COMP_CWORD": "2",
            "COSCHED_RUN_DIR": str(node.paths.run_dir),
        }
        done = run_command(env=environment)
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout.split()

    assert offered("so") == []
    node.up()
    node.task("solver")
    node.task("other")
    assert offered("so") == ["plain,solver"]
