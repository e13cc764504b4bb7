"""A steward stops all processes of a job, and lets them run again."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from contextlib import closing

import pytest

from cosched.cluster.agent.steward import stopping
from cosched.core.node.messages import Mode
from cosched.linux import proc
from cosched.linux.waiting import comes_true
from cosched.rundir.paths import NodePaths, job_key
from cosched.shm.region import JobRegion

#: Runs in a process of its own: its descendants are those of no other test.
DRIVER = """
import os, signal, subprocess, sys
from cosched.cluster.agent.steward.stopping import Stopper, _descendants
from cosched.linux import proc
from cosched.linux.prctl import adopt_orphans

def states():
    return sorted({proc.state(pid) for pid in _descendants()} - {"Z", None})

adopt_orphans()
job = subprocess.Popen(["/bin/bash", "-c", sys.argv[1]], stdout=subprocess.PIPE)
job.stdout.readline()
stopper = Stopper({}, print)
for line in sys.stdin:
    if line == "stop\\n":
        print(stopper.stop() or "stopped", flush=True)
    elif line == "resume\\n":
        stopper.resume()
        print("resumed", flush=True)
    elif line == "continue\\n":
        for pid in _descendants():
            os.kill(pid, signal.SIGCONT)
        print("continued", flush=True)
    elif line == "stop again\\n":
        print(stopper.stop_again() or "done", flush=True)
    elif line == "states\\n":
        print(*states(), flush=True)
"""


class Driver:
    """A process with a job below it."""

    def __init__(self, script):
        self._process = subprocess.Popen(
            [sys.executable, "-c", DRIVER, script],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def ask(self, word):
        self._process.stdin.write(f"{word}\n")
        self._process.stdin.flush()
        return self._process.stdout.readline().strip()

    def reaches(self, states):
        assert comes_true(lambda: self.ask("states") in states, 10.0, 0.01)

    def close(self):
        left = [self._process.pid]
        for pid in left:
            left += proc.children(pid)
        for pid in reversed(left):
            os.kill(pid, signal.SIGKILL)
        self._process.wait()
        self._process.stdin.close()
        self._process.stdout.close()


def test_all_descendants_stop_and_run_again():
    script = "(setsid sleep 1000 & sleep 1000) & echo; sleep 1000"
    with closing(Driver(script)) as driver:
        driver.reaches({"S"})
        assert driver.ask("stop") == "stopped"
        driver.reaches({"T"})
        assert driver.ask("stop") == "stopped"  # the order is repeated
        assert driver.ask("resume") == "resumed"
        driver.reaches({"S"})
        assert driver.ask("resume") == "resumed"


def test_job_that_forks_all_the_time_stops():
    script = "echo; while :; do (:); done"
    with closing(Driver(script)) as driver:
        assert driver.ask("stop") == "stopped"
        driver.reaches({"T"})


def test_process_that_its_user_has_stopped_stays_so():
    script = "sleep 1000 & kill -STOP $!; sleep 1000 & echo; wait"
    with closing(Driver(script)) as driver:
        driver.reaches({"S T"})
        assert driver.ask("stop") == "stopped"
        driver.reaches({"T"})
        assert driver.ask("resume") == "resumed"
        driver.reaches({"S T"})


def test_processes_that_another_program_continues_stop_again():
    script = "sleep 1000 & echo; sleep 1000"
    with closing(Driver(script)) as driver:
        driver.reaches({"S"})
        assert driver.ask("stop") == "stopped"
        driver.reaches({"T"})
        assert driver.ask("continue") == "continued"
        driver.reaches({"S"})
        assert driver.ask("stop again") == "done"
        driver.reaches({"T"})


def test_processes_that_were_let_run_do_not_stop_again():
    with closing(Driver("echo; sleep 1000")) as driver:
        assert driver.ask("stop") == "stopped"
        driver.reaches({"T"})
        assert driver.ask("resume") == "resumed"
        driver.reaches({"S"})
        assert driver.ask("stop again") == "done"
        assert driver.ask("states") == "S"


# --- the scheduler daemon -----------------------------------------------------------------


@pytest.fixture
def daemon(tmp_path):
    """Returns the requests to a played scheduler daemon, and the variables of a job."""
    directory = tmp_path / "n1"
    directory.mkdir()
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(directory / "control.sock"))
    listener.listen()
    requests, before = [], ["coscheduled"]

    def serve():
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with connection, connection.makefile("rw") as lines:
                requests.append(json.loads(lines.readline()))
                mode = {"suspend": "suspended"}.get(requests[-1]["op"], "coscheduled")
                lines.write(json.dumps({"before": before[0], "mode": mode}) + "\n")

    thread = threading.Thread(target=serve)
    thread.start()
    environ = {
        "COSCHED_RUN_DIR": str(tmp_path),
        "COSCHED_NODE": "n1",
        "COSCHED_JOB": "sten-7",
    }
    yield requests, environ, before
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()
    thread.join()


@pytest.fixture
def no_processes(monkeypatch):
    monkeypatch.setattr(stopping, "_descendants", set)


def test_daemon_takes_the_job_out_of_its_class(daemon, no_processes):
    requests, environ, _ = daemon
    stopper = stopping.Stopper(environ, pytest.fail)
    assert stopper.stop() == ""
    stopper.resume()
    key = f"{os.geteuid()}.sten-7"
    assert requests == [{"op": "suspend", "job": key}, {"op": "resume", "job": key}]


def test_job_that_its_owner_has_suspended_stays_so(daemon, no_processes):
    requests, environ, before = daemon
    before[:] = ["suspended"]
    stopper = stopping.Stopper(environ, pytest.fail)
    stopper.stop()
    stopper.resume()
    assert [each["op"] for each in requests] == ["suspend"]


@pytest.mark.parametrize("without", ["COSCHED_JOB", "COSCHED_NODE"])
def test_job_without_a_daemon_is_stopped_all_the_same(daemon, no_processes, without):
    requests, environ, _ = daemon
    del environ[without]
    stopper = stopping.Stopper(environ, pytest.fail)
    assert stopper.stop() == ""
    stopper.resume()
    assert requests == []


@pytest.fixture
def region(tmp_path):
    """The region of the job, which a daemon in ``tmp_path`` has made."""
    paths = NodePaths(tmp_path, "n1")
    uid, gid = os.geteuid(), os.getegid()
    key = job_key(uid, "sten-7")
    made = JobRegion.create(paths.job_region(key), "sten-7", uid, gid)
    yield made
    made.unlink()
    made.close()


def test_region_has_the_mode_for_the_next_daemon(daemon, no_processes, region, tmp_path):
    _, environ, before = daemon
    stopper = stopping.Stopper(environ, pytest.fail)
    stopper.stop()
    assert region.mode is Mode.SUSPENDED
    before[:] = ["suspended"]
    stopper.stop()  # again
    (tmp_path / "n1" / "control.sock").unlink()  # as if no daemon were up
    stopper.resume()
    assert region.mode is Mode.COSCHEDULED


def test_region_keeps_what_its_owner_chose(daemon, no_processes, region):
    _, environ, before = daemon
    before[:] = ["suspended"]
    region.publish_mode(Mode.SUSPENDED)
    stopper = stopping.Stopper(environ, pytest.fail)
    stopper.stop()
    stopper.resume()
    assert region.mode is Mode.SUSPENDED
