"""Memory before slicing on a live node with a configured capacity."""

from __future__ import annotations

import errno
import os
import select
import signal
import subprocess

import pytest

from cosched.core.errors import CoschedError
from cosched.rundir.paths import job_key
from cosched.shm.region import JobRegion
from tests.live.conftest import eventually
from tests.live.test_docs_live import BIN
from tests.live.test_docs_live import folder as folder  # noqa: PLC0414
from tests.live.test_docs_live import folder_with_app as folder_with_app  # noqa: PLC0414
from tests.live.test_owners_live import cosched

pytestmark = pytest.mark.live

MIB = 1 << 20
#: Of which 600 MiB fit once; the tasks themselves have some 20.
CAPACITY = {"memory": "1G"}


def waiting(node):
    return [job["name"] for job in node.status()["waiting"]]


def silent(task):
    return not select.select([task.process.stdout], [], [], 0)[0]


def test_job_waits_for_memory_and_shows_the_reason(node):
    node.up(options=CAPACITY)
    first = node.task("a", memory=600 * MIB)
    assert first.error == 0
    ranks = [node.task("b", n, memory=600 * MIB, answered=False) for n in range(2)]
    eventually(lambda: waiting(node) == ["b"], "the job to wait")
    eventually(lambda: node.status()["waiting"][0]["tasks"] == 2, "both its tasks")
    (line,) = node.status()["waiting"]
    assert line["reason"].startswith("job b waits on node node1: memory: needs 600.0 MiB")
    assert line["need_bytes"] == 600 * MIB
    text = cosched(node, "status")
    assert "job b waits on node node1: memory" in text
    assert max(map(len, text.splitlines())) <= 80
    assert "waits on node node1" in cosched(node, "suspend", "b", status=1)
    assert all(silent(task) for task in ranks)
    first.ask("leave")
    assert [task.await_answer() for task in ranks] == [0, 0]
    assert node.status()["waiting"] == []
    assert node.job("b")["memory"]["declared_bytes"] == 600 * MIB


def test_waiting_jobs_start_in_order(node):
    node.up(options=CAPACITY)
    first = node.task("a", memory=900 * MIB)
    large = node.task("large", memory=800 * MIB, answered=False)
    eventually(lambda: waiting(node) == ["large"], "the large one")
    small = node.task("small", memory=MIB, answered=False)
    eventually(lambda: waiting(node) == ["large", "small"], "both")
    first.ask("leave")
    assert large.await_answer() == 0
    assert small.await_answer() == 0


def test_need_above_the_node_is_refused_at_once(node):
    node.up(options=CAPACITY)
    task = node.task("huge", memory=2048 * MIB)
    assert task.error == -errno.ENOMEM
    assert task.reason == (
        "job huge is not coscheduled on node node1: memory: needs 2.0 GiB, "
        "this node has 1.0 GiB"
    )
    assert node.task("a", memory=600 * MIB).error == 0


def test_task_that_leaves_the_queue_admits_the_next(node):
    node.up(options=CAPACITY)
    node.task("a", memory=600 * MIB)
    large = node.task("large", memory=800 * MIB, answered=False)
    eventually(lambda: waiting(node) == ["large"], "the large one")
    small = node.task("small", memory=100 * MIB, answered=False)
    eventually(lambda: waiting(node) == ["large", "small"], "both")
    large.kill()
    assert small.await_answer() == 0


def test_waiting_task_runs_when_the_daemon_dies(node):
    node.up(options=CAPACITY)
    node.task("a", memory=600 * MIB)
    task = node.task("b", memory=600 * MIB, answered=False)
    eventually(lambda: waiting(node) == ["b"], "the job to wait")
    os.kill(node.scheduler_pid, signal.SIGKILL)
    assert task.await_answer() != 0


def test_waiting_task_runs_when_the_daemon_hangs(node):
    node.up(options=CAPACITY)
    node.task("a", memory=600 * MIB)
    task = node.task("b", memory=600 * MIB, answered=False)
    eventually(lambda: waiting(node) == ["b"], "the job to wait")
    os.kill(node.scheduler_pid, signal.SIGSTOP)
    assert task.await_answer() == -errno.ETIMEDOUT
    os.kill(node.scheduler_pid, signal.SIGCONT)
    eventually(lambda: waiting(node) == [], "the daemon to notice")


def test_wait_ends_at_the_configured_time(node):
    node.up(options={**CAPACITY, "memory_wait": "1s"})
    node.task("a", memory=600 * MIB)
    task = node.task("b", memory=600 * MIB, answered=False)
    assert task.await_answer() == 0
    assert "job 0.b begins: memory" in node.paths.log.read_text()


def test_restarted_daemon_keeps_declared_memory(node):
    node.up(options=CAPACITY)
    node.task("a", memory=600 * MIB)
    os.kill(node.scheduler_pid, signal.SIGKILL)
    eventually(lambda: node.scheduler_pid is None, "the daemon's end")
    node.up(options=CAPACITY)
    node.task("b", memory=600 * MIB, answered=False)
    eventually(lambda: waiting(node) == ["b"], "the job to wait")


def test_memory_written_into_a_region_blocks_no_job(node):
    node.up(options=CAPACITY)
    node.task("a", memory=600 * MIB)
    region = JobRegion.attach(node.paths.job_region(job_key(os.geteuid(), "a")))
    region.declare_memory(1 << 63)
    region.close()
    assert node.task("b", memory=200 * MIB).error == 0
    assert node.job("a")["memory"]["declared_bytes"] == 600 * MIB


def test_without_a_memory_limit_no_job_waits(node):
    node.up(options={"memory": "off"})
    tasks = [node.task(job, memory=1 << 50) for job in "ab"]
    assert [task.error for task in tasks] == [0, 0]
    assert not node.status()["memory"]["guarded"]


def test_bad_memory_capacity_gets_one_line(node):
    with pytest.raises(CoschedError, match="'plenty' is not a size"):
        node.up(options={"memory": "plenty"})


def test_private_daemons_stay_for_a_waiting_job(node):
    node.up(private=True, options=CAPACITY)
    first = node.task("a", memory=600 * MIB)
    task = node.task("b", memory=600 * MIB, answered=False)
    eventually(lambda: waiting(node) == ["b"], "the job to wait")
    first.ask("leave")
    assert task.await_answer() == 0
    assert task.ask("leave") == "bye"
    eventually(lambda: node.scheduler_pid is None, "the daemons' end")


@pytest.mark.mpi_job
def test_mpi_job_waits_in_mpi_init_and_prints_the_reason(node, folder_with_app):
    node.up(options=CAPACITY)
    first = node.task("a", memory=600 * MIB)
    command = [BIN / "cosched-run", "--run-dir", str(node.paths.run_dir), "-n", "2"]
    environment = {
        **os.environ,
        "PATH": f"{BIN}:{os.environ['PATH']}",
        "COSCHED_NODE": node.paths.node,
    }
    with subprocess.Popen(
        [*command, "--job", "b", "--memory", "600M", "./app", "--preset", "short"],
        cwd=folder_with_app,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as job:
        eventually(lambda: waiting(node) == ["b"], "the job to wait", within_s=60)
        assert job.poll() is None
        first.ask("leave")
        out, err = job.communicate(timeout=120)
    assert job.returncode == 0, err
    assert "verification: success" in out
    assert err.count("job b waits on node node1: memory: needs 600.0 MiB") == 1
    large = subprocess.run(
        [*command, "--memory", "2G", "./app"],
        cwd=folder_with_app,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert large.returncode == 1
    assert large.stderr.startswith("cosched-run: the job needs 2.0 GiB, node node1 has 1.0")
    assert large.stderr.count("\n") == 1
