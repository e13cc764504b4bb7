"""The daemons of one node end, are killed or are restarted: their shares are restored, and
the next daemons take over the jobs."""

from __future__ import annotations

import os
import re
import select
import signal
import subprocess
import sys
import time

import pytest

from cosched.core.errors import CoschedError
from cosched.core.units import NS_PER_S
from cosched.node.lifetime.spawn import spawn
from cosched.node.lifetime.start import restart_node
from cosched.node.tasks.life import TaskLife
from cosched.rundir.lock import lock_holder
from cosched.rundir.paths import job_key
from cosched.shm.region import JobRegion
from tests.live.conftest import eventually
from tests.live.test_daemons_live import weights
from tests.places import ROOT
from tests.tools.commands import run_command

pytestmark = pytest.mark.live

#: How much later than it was a job counts as submitted, in ns.
DATES = {"zeta": -2 * NS_PER_S, "alpha": 2 * NS_PER_S}


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
    first, waiting = node.task("a"), node.task("b")
    assert waiting.ask("arrive 1") == "1"
    eventually(lambda: waiting.scheduled, "the switch")
    os.kill(node.scheduler_pid, signal.SIGKILL)
    eventually(lambda: first.scheduled and waiting.scheduled, "the guardian")
    node.up()
    assert {job["name"] for job in node.status()["jobs"]} == {"a", "b"}
    eventually(lambda: first.scheduled and not waiting.scheduled, "one scheduled")
    assert waiting.ask("arrive 1") == "2"  # the old bell rings still, in a new epoch
    eventually(lambda: waiting.scheduled, "the switch")
    for task in (first, waiting):
        task.ask("leave")
    eventually(lambda: not node.status()["jobs"], "both gone")


def test_daemon_killed_at_its_takeover_leaves_free_jobs(node, monkeypatch):
    node.up()
    tasks = [node.task(name) for name in "ab"]
    adopt = TaskLife.adopt

    def adopt_and_die(members, known):
        adopt(members, known)
        os.kill(os.getpid(), signal.SIGKILL)

    monkeypatch.setattr(TaskLife, "adopt", adopt_and_die)
    with pytest.raises(CoschedError, match="the daemon died"):
        node.up(start=restart_node)
    eventually(lambda: all(task.scheduled for task in tasks), "everyone running")
    eventually(lambda: len(set(weights(node).values())) == 1, "equal weights")


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
