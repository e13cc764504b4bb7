"""The daemons of one node: registration, switching, settings, requests, up and down."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from cosched.core.errors import CoschedError, NoDaemon
from cosched.core.node.settings import Settings
from cosched.core.units import NS_PER_S
from cosched.node.heartbeat import INSPECT_NS
from cosched.node.lifetime.spawn import spawn
from cosched.node.sockets.client import ControlClient, request
from cosched.rundir.paths import job_key
from cosched.shm.region import JobRegion
from tests.live.conftest import eventually

pytestmark = pytest.mark.live


def class_members(node, job):
    """Pids in a job's class, found without asking cosched."""
    key = f"{os.geteuid()}.{job}"
    for pattern in (f"*/cosched-{node.paths.tag}", f"cosched-{node.paths.tag}"):
        for tree in Path("/sys/fs/cgroup").glob(pattern):
            procs = tree / key / "cgroup.procs"
            if procs.exists():
                return {int(pid) for pid in procs.read_text().split()}
    return None


def weights(node):
    """Weight or shares of each class as the kernel has them."""
    found = {}
    for pattern in (f"*/cosched-{node.paths.tag}/*/", f"cosched-{node.paths.tag}/*/"):
        for group in Path("/sys/fs/cgroup").glob(pattern):
            for name in ("cpu.weight", "cpu.shares"):
                if (group / name).exists():
                    found[group.name] = int((group / name).read_text())
    return found


def test_task_registers_and_leaves(node):
    node.up()
    task = node.task("a")
    assert task.error == 0
    assert task.scheduled
    job = node.job("a")
    assert job["tasks"][0]["pid"] == task.pid
    assert job["uid"] == os.geteuid()
    assert class_members(node, "a") == {task.pid}
    assert task.ask("leave") == "bye"
    eventually(lambda: node.job("a") is None, "the job to be forgotten")
    assert class_members(node, "a") is None
    assert not list(Path("/dev/shm").glob(f"cosched-{node.paths.tag}-job-*"))


def test_first_job_of_a_quiet_node_gets_heartbeats(node):
    node.up()
    for _ in range(3):  # at other moments between two of a quiet node's heartbeats
        task = node.task("a")
        region = JobRegion.attach(node.paths.job_region(job_key(os.geteuid(), "a")))
        try:
            first = int(region.data.heartbeat.beat_ns)
            beat_ns = eventually(
                lambda before=first, shm=region: (
                    (now := int(shm.data.heartbeat.beat_ns)) > before and now
                ),
                "a heartbeat",
            )
        finally:
            region.close()
        assert beat_ns - first < INSPECT_NS / 2
        task.kill()
        eventually(lambda: node.job("a") is None, "the job to be forgotten")


def test_crashed_task_counts_as_cmdout(node):
    node.up()
    first, second = node.task("a", 0), node.task("a", 1)
    first.kill()
    eventually(lambda: len(node.job("a")["tasks"]) == 1, "one task left")
    second.kill()
    eventually(lambda: node.job("a") is None, "the job to be forgotten")


def test_timer_switches_jobs(node):
    node.up(slice="100ms")
    tasks = [node.task(name) for name in "abc"]
    for task in tasks:
        eventually(lambda t=task: t.scheduled, "its turn")
    assert node.status()["timer"]["ticks"] > 0


@pytest.mark.parametrize("align", ["on", "off"])
def test_settings_change_while_jobs_run(node, align):
    node.up(slice="60s")
    tasks = [node.task(name) for name in "ab"]
    wanted = {"slice": "100ms", "gmet": "5ms", "align": align}
    answer = request(node.paths, "set", settings=wanted)
    assert answer["settings"] == {**Settings().texts(), **wanted}
    for task in [*tasks, *tasks]:
        eventually(lambda t=task: t.scheduled, "its turn")


def test_node_learns_from_the_jobs_since_a_time(node):
    node.up()
    assert node.task("a").ask("leave") == "bye"
    eventually(lambda: node.job("a") is None, "the job to be forgotten")
    later_ns = time.time_ns() + NS_PER_S
    assert request(node.paths, "relearn", since_wall_ns=later_ns) == {"ended": 0}
    assert request(node.paths, "relearn", since_wall_ns=0) == {"ended": 1}


def test_trapped_message_causes_a_switch(node):
    node.up()
    first, second = node.task("a"), node.task("b")
    assert first.scheduled
    assert second.ask("arrive 0") == "0"
    assert second.ask("arrive 1") == "1"
    eventually(lambda: second.scheduled, "the switch")
    assert not first.scheduled
    assert node.job("b")["granted"] == 1
    shares = weights(node)
    assert shares[f"{os.geteuid()}.b"] > 50 * shares[f"{os.geteuid()}.a"]


def test_gmet_protects_and_the_refusal_is_counted(node):
    node.up(gmet="60s", slice="120s")
    first, second = node.task("a"), node.task("b")
    request(node.paths, "turn", job=job_key(os.geteuid(), "b"))
    eventually(lambda: second.scheduled, "the turn that it was given")
    assert first.ask("arrive 1") == "1"
    assert first.ask("arrive 1") == "1"  # once an epoch
    eventually(lambda: node.job("a")["refused"].get("gmet"), "the refusal")
    assert not first.scheduled


def test_earlier_job_is_protected_longer(node):
    node.up(gmet="20s", slice="120s")
    node.task("a")
    second = node.task("b")
    assert second.ask("arrive 1") == "1"
    eventually(lambda: node.job("b")["refused"].get("preceded"), "the refusal")
    assert not second.scheduled


def test_unscheduled_waiter_wakes_at_its_turn(node):
    node.up()
    first, second = node.task("a"), node.task("b")
    assert second.ask("pause") == "1"
    first.ask("leave")
    eventually(lambda: second.scheduled, "its turn")
    assert second.ask("pause") == "0"


def test_jobs_on_different_cpus_do_not_compete(node):
    if os.cpu_count() < 2:
        pytest.skip("needs two CPUs")
    node.up()
    first, second = node.task("a", cpu=0), node.task("b", cpu=1)
    assert first.scheduled
    assert second.scheduled


def test_truncated_region_affects_only_its_job(node):
    node.up(slice="60s")
    torn, other = node.task("torn"), node.task("other")
    daemon = node.status()["pid"]
    (region,) = Path("/dev/shm").glob(f"cosched-{node.paths.tag}-job-*.torn")
    os.truncate(region, 0)
    eventually(lambda: node.job("torn") is None, "the torn job to be given up")
    assert class_members(node, "torn") is None
    eventually(lambda: other.scheduled, "the other job to have the node")
    assert node.status()["pid"] == daemon
    assert torn.scheduled  # it let go of its region, and goes on
    torn.kill()


def test_down_lets_running_jobs_run(node):
    node.up()
    tasks = [node.task(name) for name in "ab"]
    assert node.down()
    assert all(task.scheduled for task in tasks)
    assert node.remains() == []
    assert tasks[1].ask("leave") == "bye"


def test_down_waits_for_a_starting_daemon(node):
    """It has the lock but does not answer yet, so its files must stay."""
    daemon = subprocess.Popen(
        [
            *(sys.executable, "-m", "cosched_daemons.scheduler"),
            *("--run-dir", str(node.paths.run_dir), "--node", node.paths.node),
        ],
        stdout=subprocess.PIPE,
    )
    try:
        eventually(lambda: node.scheduler_pid is not None, "its lock")
        assert node.down()
        assert daemon.wait(60) == 0
    finally:
        daemon.kill()
        daemon.communicate()
    assert node.remains() == []
    assert not node.paths.scheduler_lock.exists()


def test_down_beside_up_leaves_a_whole_node_or_none(node):
    for _ in range(3):
        with ThreadPoolExecutor() as threads:
            starts = [threads.submit(node.up, private=True, by=spawn) for _ in range(2)]
            downs = [threads.submit(node.down) for _ in range(2)]
        assert all(start.result() for start in starts)
        for down in downs:
            down.result()
        if node.scheduler_pid is not None:
            assert node.status()["pid"] == node.scheduler_pid
            assert node.task("a").ask("leave") == "bye"
            assert node.down()
        assert node.remains() == []


def test_down_without_daemons_reports_it(node):
    assert node.down() is False


def test_up_twice_is_an_error(node):
    node.up()
    with pytest.raises(CoschedError, match="up already"):
        node.up()


def test_up_reports_the_daemon_error(node):
    with pytest.raises(CoschedError, match="--class-scheduler"):
        node.up(class_scheduler="nonsense")
    assert node.scheduler_pid is None


def test_other_shim_version_is_refused(node):
    node.up()
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection:
        connection.connect(str(node.paths.register_socket))
        connection.send(bytes(88))
        answer = connection.recv(4096)
    assert b"version" in answer
    assert node.status()["jobs"] == []


def test_silent_connection_blocks_no_task(node):
    node.up()
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as silent:
        silent.connect(str(node.paths.register_socket))
        assert node.task("a").error == 0


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (b"nonsense\n", "not a request"),
        (b"[]\n", "not a request"),
        (b'{"op": "dance"}\n', "unknown op"),
        (b'{"op": "set", "settings": {"slyce": "1s"}}\n', "slyce"),
        (b'{"op": "set", "settings": {"slice": "1us"}}\n', "too short"),
        (b'{"op": "set"}\n', "nothing to set"),
        (b'{"op": "relearn", "since_wall_ns": "now"}\n', "must be a whole number"),
    ],
)
def test_bad_requests_get_one_clear_error(node, line, words):
    node.up()
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(str(node.paths.control_socket))
        connection.sendall(line)
        answer = json.loads(connection.makefile().readline())
    assert words in answer["error"]
    assert node.status()["settings"]["slice_s"] == 10


def test_other_users_may_read_but_not_change(node):
    node.up()
    os.chmod(node.paths.run_dir, 0o755)
    read_end, write_end = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.setuid(65534)
        answers = []
        for op in ("status", "down"):
            try:
                answers.append(request(node.paths, op).get("node", "ok"))
            except CoschedError as error:
                answers.append(str(error))
        os.write(write_end, json.dumps(answers).encode())
        os._exit(0)
    os.close(write_end)
    os.waitpid(pid, 0)
    status, down = json.loads(os.read(read_end, 4096))
    os.close(read_end)
    assert status == "node1"
    assert "root" in down
    assert node.status()


def test_private_daemons_end_with_the_last_lease_and_job(node):
    node.up(private=True)
    with ControlClient(node.paths) as client:
        client.request("lease")
        task = node.task("a")
        assert task.error == 0
    assert node.status()["private"]
    task.ask("leave")
    eventually(lambda: node.scheduler_pid is None, "their end")
    with pytest.raises(NoDaemon):
        node.status()
    eventually(lambda: node.remains() == [], "nothing to remain")


def test_private_daemons_started_at_once_become_one_pair(node):
    """Two jobs that begin together on a node without daemons: both are coscheduled."""
    with ThreadPoolExecutor() as threads:
        starts = [threads.submit(node.up, private=True, by=spawn) for _ in range(3)]
        said = sorted(start.result() for start in starts)
    pid = node.scheduler_pid
    assert said.count(f"node node1: its daemons are up already (pid {pid})") == 2
    assert node.status()["private"]
    with ControlClient(node.paths) as client:
        client.request("lease")
        with pytest.raises(CoschedError, match="are up already"):
            node.up()


def test_unused_private_daemons_end_for_others(node):
    node.up(private=True)
    private = node.scheduler_pid
    with ControlClient(node.paths) as client:
        client.request("lease")
        node.task("a").ask("leave")
    # A job that has just ended leaves a pair of daemons for a moment.
    eventually(lambda: not node.status()["jobs"], "the job to be forgotten")
    node.up()
    assert node.scheduler_pid != private
    assert not node.status()["private"]
    with pytest.raises(CoschedError, match="are up already"):
        node.up()
