"""Commands start a killed member of a private domain again, and ``cluster down`` the
controller of each domain of this machine."""

import json
import os
import re
import select
import signal
import subprocess
import time
from pathlib import Path

import pytest

from cosched.cluster.keys import CONTROLLER
from cosched.cluster.paths import DomainPaths
from tests.domain.rig import ENVIRON, WITHIN_S
from tests.domain.user import BIN

NODE = os.uname().nodename
AGAIN = "the {} of the private domain was killed; starting it again\n"


class Private:
    """A user's commands with a private domain in ``folder``."""

    def __init__(self, folder):
        self.paths = DomainPaths(folder / "run")
        self.folder = folder

    def run(self, *words, timeout=WITHIN_S):
        """Runs a command; returns its status and both outputs."""
        done = subprocess.run(
            [BIN / "cosched", *words],
            env={**ENVIRON, "COSCHED_RUN_DIR": str(self.paths.run_dir)},
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
        return done.returncode, done.stdout, done.stderr

    def pid(self, what):
        return int(self.lock(what).read_text())

    def lock(self, what):
        return (
            self.paths.agent_lock(NODE) if what == "agent" else self.paths.controller_lock
        )

    def kill(self, what):
        """Kills a member and waits until it is gone; returns its pid."""
        pid = self.pid(what)
        pidfd = os.pidfd_open(pid)
        os.kill(pid, signal.SIGKILL)
        wait_ended(pidfd)
        return pid

    def start_job(self):
        """Starts a job that runs until the file ``go`` is there; returns its number."""
        wait = "touch runs; while [ ! -e go ]; do sleep 0.05; done"
        status, out, _ = self.run("submit", "sh", "-c", wait)
        assert status == 0
        until((self.folder / "runs").exists)
        return re.search(r"job (\d+)", out)[1]

    def jobs(self, *options):
        return json.loads(self.run("queue", *options, "--json")[1])["jobs"]

    def members(self):
        """Returns the pids of the members that live."""
        found = set()
        for place in Path("/proc").glob("[0-9]*"):
            try:
                words = (place / "cmdline").read_text().split("\0")
            except OSError:  # it has ended
                continue
            if str(self.paths.run_dir) in words and "-m" in words:
                found.add(int(place.name))
        return found


def wait_ended(pidfd):
    with os.fdopen(pidfd):
        assert select.select([pidfd], [], [], WITHIN_S)[0]


def until(check):
    deadline = time.monotonic() + WITHIN_S
    while not check():
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.fixture
def private(tmp_path):
    found = Private(tmp_path)
    yield found
    (tmp_path / "go").touch()
    found.run("cluster", "down", "--end-jobs")
    until(lambda: not found.members())


@pytest.mark.parametrize("what", ["controller", "agent"])
def test_submit_starts_a_killed_member_of_a_private_domain_again(private, what):
    assert private.run("submit", "--wait", "echo", "one") == (0, "one\n", "")
    killed = private.kill(what)
    line = f"cosched submit: {AGAIN.format(what)}"
    assert private.run("submit", "--wait", "echo", "two") == (0, "two\n", line)
    assert private.pid(what) != killed
    assert sorted(job["job"] for job in private.jobs("--all")) == [1, 2]


def test_a_job_runs_on_while_the_controller_is_killed_and_started_again(private):
    private.start_job()
    private.kill("controller")
    status, out, err = private.run("queue", "--json")
    assert (status, err) == (0, f"cosched: {AGAIN.format('controller')}")
    (job,) = json.loads(out)["jobs"]
    assert (job["state"], job["starts"]) == ("running", 1)
    (private.folder / "go").touch()
    until(lambda: private.jobs() == [])
    assert [job["state"] for job in private.jobs("--all")] == ["done"]


def test_a_waiting_submit_goes_on_after_the_controller_was_killed(private):
    command = [BIN / "cosched", "submit", "--wait", "sh", "-c"]
    script = "echo begins; while [ ! -e go ]; do sleep 0.05; done; echo ends"
    with subprocess.Popen(
        [*command, script],
        env={**ENVIRON, "COSCHED_RUN_DIR": str(private.paths.run_dir)},
        cwd=private.folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout.readline() == "begins\n"
        private.kill("controller")
        (private.folder / "go").touch()
        out, err = process.communicate(timeout=WITHIN_S)
    assert (process.returncode, out) == (0, "ends\n")
    assert AGAIN.format("controller") in err


def test_two_commands_start_a_killed_member_once(private):
    private.start_job()
    private.kill("controller")
    commands = [
        subprocess.Popen(
            [BIN / "cosched", "queue", "--json"],
            env={**ENVIRON, "COSCHED_RUN_DIR": str(private.paths.run_dir)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(4)
    ]
    ends = [command.communicate(timeout=WITHIN_S) for command in commands]
    assert [command.returncode for command in commands] == [0] * 4, ends
    assert "".join(err for _, err in ends).count(AGAIN.format("controller")) == 1


def test_down_ends_a_domain_whose_controller_was_killed(private):
    number = private.start_job()
    private.kill("controller")
    status, _, err = private.run("cluster", "down")
    assert (status, "1 jobs run" in err) == (1, True)
    private.kill("controller")
    status, out, err = private.run("cluster", "down", "--end-jobs")
    assert (status, out, err) == (0, f"ended jobs {number}\n", "")
    until(lambda: not private.members())


def test_up_refuses_where_only_the_controller_was_killed(private):
    private.start_job()
    before = private.paths.config.read_bytes()
    private.kill("controller")
    status, _, err = private.run("cluster", "up")
    assert (status, "a domain is up already in" in err) == (1, True)
    assert private.paths.config.read_bytes() == before


@pytest.mark.parametrize("lost", [(), ("n2",)], ids=["all agents", "one agent killed"])
def test_down_ends_all_agents_of_a_domain_of_this_machine(make_rig, lost):
    rig = make_rig(2)
    rig.start()
    rig.until_up()
    for name in (CONTROLLER, *lost):
        rig.kill(name)
    done = subprocess.run(
        [BIN / "cosched", "cluster", "down", "--run-dir", rig.paths.run_dir],
        env={**ENVIRON, "COSCHED_NODE": "n1"},
        capture_output=True,
        text=True,
        timeout=WITHIN_S,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert rig.members["n1"].wait(WITHIN_S) == 0
    if not lost:
        assert rig.members["n2"].wait(WITHIN_S) == 0
    assert not rig.paths.controller_socket.exists()
