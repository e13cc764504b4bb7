"""The daemons of one node: registration, switching, settings, death and takeover."""

from __future__ import annotations

import json
import os
import re
import select
import signal
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
from cosched.node.lifetime.start import restart_node
from cosched.node.sockets.client import ControlClient, request
from cosched.rundir.lock import lock_holder
from cosched.rundir.paths import job_key
from cosched.shm.region import JobRegion
from tests.live.conftest import eventually
from tests.places import ROOT
from tests.tools.commands import run_command

pytestmark = pytest.mark.live

#: How much later than it was a job counts as submitted, in ns.
DATES = {"zeta": -2 * NS_PER_S, "alpha": 2 * NS_PER_S}


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


def test_killed_scheduler_daemon_leaves_free_jobs_and_no_files(node):
    node.up()
    tasks = [node.task(name) for name in "abc"]
    os.kill(node.scheduler_pid, signal.SIGKILL)
    eventually(lambda: all(task.scheduled for task in tasks), "everyone running", 1.0)
    eventually(lambda: len(set(weights(node).values())) == 1, "equal weights", 1.0)
    for task in tasks:
        assert float(task.ask("spin 0.05")) > 0
        assert task.ask("leave") == "bye"
        task.process.wait()
    eventually(lambda: node.timer_pid is None, "the guardian's end")
    assert node.remains() == []


@pytest.mark.parametrize("by", ["SIGUSR1", "cosched up --restart"])
def test_restart_keeps_jobs_coscheduled(node, by):
    node.up()
    tasks = [node.task(name) for name in "ab"]
    before = node.scheduler_pid
    if by == "SIGUSR1":
        os.kill(before, signal.SIGUSR1)
        eventually(lambda: node.scheduler_pid is None, "the daemon's end")
        eventually(lambda: all(task.scheduled for task in tasks), "both running", 5.0)
        node.up()
    else:
        node.up(start=restart_node)
    assert node.scheduler_pid != before
    eventually(
        lambda: sorted(task.scheduled for task in tasks) == [False, True], "one scheduled"
    )
    assert len(set(weights(node).values())) == 2
    assert {job["name"]: len(job["tasks"]) for job in node.status()["jobs"]} == {
        "a": 1,
        "b": 1,
    }
    # A trapped message counts as before.
    waiting = next(task for task in tasks if not task.scheduled)
    assert waiting.ask("arrive 1") == "1"
    eventually(lambda: waiting.scheduled, "the switch")
    for task in tasks:
        assert task.ask("leave") == "bye"
    assert node.down()
    assert node.remains() == []
    log = node.paths.log.read_text()
    assert "2 jobs are left to the next daemon" in log
    assert "Traceback" not in log


def test_daemon_without_jobs_hands_nothing_over(node):
    node.up()
    os.kill(node.scheduler_pid, signal.SIGUSR1)
    eventually(lambda: node.scheduler_pid is None, "the daemon's end")
    eventually(lambda: node.timer_pid is None, "the timer daemon's end")
    assert node.remains() == []
    assert not node.paths.control_socket.exists()


@pytest.mark.parametrize(
    "order", ["timer, scheduler", "scheduler, timer", "timer, new timer, scheduler"]
)
@pytest.mark.parametrize("delay_s", [0, 0.05, 0.2])
def test_shares_are_restored_whatever_daemons_die(node, order, delay_s):
    """Also while a timer daemon starts; so the delays are times, not waits for an event.

    For the same reason the programs start as they do for users."""
    node.up(by=spawn)
    tasks = [node.task(name) for name in "ab"]
    first = node.timer_pid
    pids = {"scheduler": node.scheduler_pid, "timer": first}
    for what in order.split(", "):
        if what == "new timer":
            eventually(lambda: node.timer_pid not in (None, first), "another timer daemon")
            pids[what] = node.timer_pid
        os.kill(pids[what], signal.SIGKILL)
        time.sleep(delay_s)
    eventually(lambda: len(set(weights(node).values())) == 1, "equal weights", 5.0)
    eventually(lambda: all(task.scheduled for task in tasks), "all running", 5.0)
    node.up()
    eventually(
        lambda: sorted(task.scheduled for task in tasks) == [False, True], "one scheduled"
    )
    assert len(set(weights(node).values())) == 2
    for task in tasks:
        task.kill()
    eventually(lambda: not node.status()["jobs"], "both gone")
    assert node.down()
    assert node.remains() == []
    assert lock_holder(node.paths.spare_lock) is None


def test_removed_files_of_a_daemon_are_made_again(node):
    node.up()
    task = node.task("a")
    daemon = node.scheduler_pid
    for path in (
        node.paths.scheduler_lock,
        node.paths.control_socket,
        node.paths.register_socket,
    ):
        path.unlink()
    eventually(lambda: node.scheduler_pid == daemon, "its lock", 5.0)
    eventually(node.paths.register_socket.exists, "its sockets", 5.0)
    assert node.task("b").error == 0
    assert node.status()["pid"] == daemon
    assert task.ask("leave") == "bye"
    assert node.down()
    assert node.remains() == []


def test_up_beside_a_daemon_without_its_lock_file_is_an_error(node):
    node.up()
    daemon = node.scheduler_pid
    for _ in range(3):
        node.paths.scheduler_lock.unlink()
        with pytest.raises(CoschedError, match=f"up already.*{daemon}"):
            node.up()
        eventually(lambda: node.scheduler_pid == daemon, "its lock", 5.0)
    node.paths.scheduler_lock.unlink()
    assert node.down()
    assert node.remains() == []


def test_daemon_whose_names_another_has_leaves_all_to_it(node):
    """The files are removed, and the other starts, between two beats."""
    node.up()
    tasks = [node.task(name) for name in "ab"]
    old = node.scheduler_pid
    held = os.pidfd_open(old)
    os.kill(old, signal.SIGSTOP)
    for path in (node.paths.scheduler_lock, node.paths.control_socket):
        path.unlink()
    node.up()
    new = node.scheduler_pid
    os.kill(old, signal.SIGCONT)
    assert select.select([held], [], [], 60)[0]
    os.close(held)
    assert node.status()["pid"] == new != old
    assert {job["name"] for job in node.status()["jobs"]} == {"a", "b"}
    eventually(
        lambda: sorted(task.scheduled for task in tasks) == [False, True], "one scheduled"
    )
    eventually(lambda: node.timer_pid is not None, "its timer daemon")
    assert "another daemon has this node" in node.paths.log.read_text()
    assert node.task("c").error == 0


def test_down_cleans_up_after_both_daemons_were_killed(node):
    node.up()
    tasks = [node.task(name) for name in "ab"]
    node.kill_all()
    eventually(
        lambda: all(task.ask("pause") == "0" for task in tasks), "no task to pause", 2.0
    )
    for task in tasks:
        task.kill()
    assert node.down()
    assert node.remains() == []


def test_killed_timer_daemon_is_replaced(node):
    node.up(slice="100ms")
    tasks = [node.task(name) for name in "ab"]
    old = node.timer_pid
    os.kill(old, signal.SIGKILL)
    eventually(lambda: node.timer_pid not in (None, old), "another timer daemon")
    for task in [*tasks, *tasks]:
        eventually(lambda t=task: t.scheduled, "its turn")
    assert node.status()["timer"]["restarts"] == 1


def test_up_after_a_crash_takes_over_running_jobs(node):
    node.up()
    tasks = {name: node.task(name) for name in "ab"}
    os.kill(node.scheduler_pid, signal.SIGKILL)
    eventually(lambda: all(task.scheduled for task in tasks.values()), "the guardian")
    node.up()
    assert {job["name"] for job in node.status()["jobs"]} == {"a", "b"}
    eventually(
        lambda: sorted(t.scheduled for t in tasks.values()) == [False, True],
        "one scheduled",
    )
    waiting = next(t for t in tasks.values() if not t.scheduled)
    assert waiting.ask("arrive 1") == "1"  # the old bell still rings
    eventually(lambda: waiting.scheduled, "the switch")
    for task in tasks.values():
        task.ask("leave")
    eventually(lambda: not node.status()["jobs"], "both gone")


@pytest.mark.parametrize("killed", ["scheduler", "both"])
def test_unit_keeps_jobs_of_killed_daemons_for_the_next(node, killed):
    node.up()
    tasks = [node.task(name) for name in "ab"]
    if killed == "both":
        node.kill_all()
    else:
        os.kill(node.scheduler_pid, signal.SIGKILL)
    eventually(lambda: node.scheduler_pid is None, "the daemon's end")
    unit = (ROOT / "daemons/cosched.service").read_text()
    (command,) = re.findall(r"^ExecStopPost=-\S*/cosched (.*)$", unit, re.MULTILINE)
    words = [*command.split(), "--run-dir", node.paths.run_dir, "--node", node.paths.node]
    done = run_command(*words)
    assert (done.returncode, done.stderr) == (0, "")
    assert "run freely" in done.stdout
    eventually(lambda: all(task.scheduled for task in tasks), "everyone running", 1.0)
    eventually(lambda: len(set(weights(node).values())) <= 1, "equal weights", 1.0)
    node.up()
    assert {job["name"] for job in node.status()["jobs"]} == {"a", "b"}
    eventually(
        lambda: sorted(task.scheduled for task in tasks) == [False, True], "one scheduled"
    )
    assert "nothing to do" in run_command(*words).stderr  # it ends none that live
    assert len(node.status()["jobs"]) == 2
    for task in tasks:
        task.kill()
    eventually(lambda: not node.status()["jobs"], "both gone")
    assert node.down()
    done = run_command(*words)
    assert (done.returncode, bool(done.stdout)) == (0, True)


def test_restarted_daemon_keeps_the_order_of_jobs(node):
    node.up(slice="60s")
    first, later = node.task("zeta"), node.task("alpha")
    paths = {name: node.paths.job_region(job_key(os.geteuid(), name)) for name in DATES}
    regions = {name: JobRegion.attach(path) for name, path in paths.items()}
    assert all(region.submitted_ns > 0 for region in regions.values())
    for name, region in regions.items():
        region.record_submission(region.submitted_ns + DATES[name])
        region.close()
    os.kill(node.scheduler_pid, signal.SIGKILL)
    eventually(lambda: first.scheduled and later.scheduled, "the guardian")
    node.up(slice="60s")
    eventually(lambda: first.scheduled and not later.scheduled, "the order of submission")


def test_job_alone_after_a_restart_is_not_contended(node):
    node.up()
    tasks = [node.task(name) for name in "ab"]
    region = JobRegion.attach(node.paths.job_region(job_key(os.geteuid(), "a")))
    assert region.data.status.contended == 1
    os.kill(node.scheduler_pid, signal.SIGKILL)
    eventually(lambda: all(task.scheduled for task in tasks), "the guardian")
    assert region.data.status.contended == 0  # until another job comes
    region.publish_contention(True)
    tasks[1].kill()
    node.up()
    assert region.data.status.contended == 0
    region.close()


def test_jobs_without_a_daemon_are_not_contended(node):
    node.up()
    tasks = [node.task(name) for name in "ab"]
    region = JobRegion.attach(node.paths.job_region(job_key(os.geteuid(), "a")))
    assert region.data.status.contended == 1
    assert node.down()
    assert region.data.status.contended == 0
    assert all(task.scheduled for task in tasks)
    region.close()


def test_daemon_survives_the_end_of_its_starter(node):
    read_end, write_end = os.pipe()
    os.close(read_end)
    daemon = subprocess.Popen(
        [
            *(sys.executable, "-m", "cosched_daemons.scheduler"),
            *("--run-dir", str(node.paths.run_dir), "--node", node.paths.node),
            *("--ready-fd", str(write_end)),
        ],
        pass_fds=[write_end],
    )
    os.close(write_end)
    log = node.paths.log
    line = "no process reads that the daemon is ready"
    eventually(lambda: log.exists() and line in log.read_text(), "a line")
    assert node.task("a").error == 0
    assert node.status()["pid"] == daemon.pid
    assert node.down()
    assert daemon.wait() == 0


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
