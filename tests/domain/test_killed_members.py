"""Commands start a killed member of a private domain again, and ``cluster down`` the
controller of each domain of this machine. Commands that read about jobs start an ended
private domain again. ``up`` ends one in which no job runs."""

import contextlib
import json
import os
import re
import select
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest

from cosched.cluster.paths import DomainPaths
from cosched.cluster.up.members import AGENT_MODULE, CONTROLLER_MODULE
from cosched.core.names import CONTROLLER
from cosched.node.sockets.client import request
from cosched.rundir.lock import is_held
from cosched.rundir.paths import NodePaths
from tests.domain.rig import ENVIRON, QUICK, WITHIN_S
from tests.domain.user import BIN
from tests.tools.commands import run_command
from tests.tools.waiting import pauses

NODE = os.uname().nodename
WAIT = "touch runs; while [ ! -e go ]; do sleep 0.05; done"
_MEMBERS = frozenset((CONTROLLER_MODULE, AGENT_MODULE))
AGAIN = "the {} of the private domain was killed; starting it again\n"


class Private:
    """A user's commands with a private domain in ``folder``."""

    def __init__(self, folder):
        self.paths = DomainPaths(folder / "run")
        self.folder = folder

    def environ(self, more):
        return {**ENVIRON, "COSCHED_RUN_DIR": str(self.paths.run_dir), **more}

    def start(self, *words, **environ):
        """Starts a command."""
        return subprocess.Popen(
            [BIN / "cosched", *words],
            env=self.environ(environ),
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *words, **environ):
        """Runs a command; returns its status and both outputs."""
        done = run_command(*words, cwd=self.folder, env=self.environ(environ))
        return done.returncode, done.stdout, without_notes(done.stderr)

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
        status, out, _ = self.run("submit", "sh", "-c", WAIT)
        assert status == 0
        until((self.folder / "runs").exists)
        return re.search(r"job (\d+)", out)[1]

    def jobs(self, *options):
        return json.loads(self.run("queue", *options, "--json")[1])["jobs"]

    def members(self):
        """Returns the pids of the members that live."""
        run_dir = str(self.paths.run_dir)
        return pids(lambda words: run_dir in words and not _MEMBERS.isdisjoint(words))

    def strays(self):
        """Returns the pids of the job of ``start_job``."""
        return pids(lambda words: WAIT in words)


def ended(process):
    """Returns the status and the outputs of a command once it has ended."""
    try:
        out, err = process.communicate(timeout=WITHIN_S)
    finally:
        process.kill()
        process.wait()
    return process.returncode, out, without_notes(err)


def without_notes(err):
    """Returns errors without the line that a slow machine may add."""
    lines = err.splitlines(keepends=True)
    return "".join(line for line in lines if "not answered" not in line)


def wait_ended(pidfd):
    with os.fdopen(pidfd):
        assert select.select([pidfd], [], [], WITHIN_S)[0]


def pids(condition):
    """Returns the processes whose words fulfil a condition."""
    found = set()
    for place in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it has ended
            if condition((place / "cmdline").read_text(errors="replace").split("\0")):
                found.add(int(place.name))
    return found


def until(check):
    deadline = time.monotonic() + WITHIN_S
    between = pauses()
    while not check():
        assert time.monotonic() < deadline
        time.sleep(next(between))


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


#: Root prefers the controller, others the agent, as does a command that names its node.
@pytest.mark.parametrize("environ", [{}, {"COSCHED_NODE": NODE}], ids=["root", "others"])
def test_a_waiting_submit_goes_on_after_the_controller_was_killed(private, environ):
    script = "echo begins; while [ ! -e go ]; do sleep 0.05; done; echo ends"
    process = private.start("submit", "--wait", "sh", "-c", script, **environ)
    assert process.stdout.readline() == "begins\n"
    private.kill("controller")
    (private.folder / "go").touch()
    status, out, err = ended(process)
    assert (status, out) == (0, "ends\n")
    assert AGAIN.format("controller") in err


def test_several_commands_start_a_killed_member_once(private):
    private.start_job()
    private.kill("controller")
    commands = [private.start("queue", "--json") for _ in range(4)]
    ends = [ended(command) for command in commands]
    assert [status for status, _, _ in ends] == [0] * 4, ends
    assert "".join(err for _, _, err in ends).count(AGAIN.format("controller")) == 1


def test_a_command_of_a_job_starts_no_member(private):
    private.start_job()
    private.kill("controller")
    inside = private.start("queue", "--json", COSCHED_DOMAIN_JOB="1")
    with pytest.raises(subprocess.TimeoutExpired):
        inside.wait(2)
    assert not is_held(private.lock("controller"))
    assert AGAIN.format("controller") in private.run("queue", "--json")[2]
    assert ended(inside)[0] == 0


def test_a_member_that_cannot_be_started_hinders_no_command(private):
    assert private.run("submit", "--wait", "true")[0] == 0
    private.kill("agent")
    log = private.paths.agent_log(NODE)
    log.unlink()
    log.mkdir()
    status, out, err = private.run("queue", "--all", "--json")
    assert (status, len(json.loads(out)["jobs"])) == (0, 1)
    assert err.startswith(f"cosched: {AGAIN.format('agent')}cosched: it cannot be started")
    log.rmdir()


def test_down_ends_a_domain_whose_controller_was_killed(private):
    number = private.start_job()
    status, out, _ = private.run("submit", "--exclusive", "touch", "waited")
    waiting = re.search(r"job (\d+)", out)[1]
    private.kill("controller")
    for _ in range(2):
        status, _, err = private.run("cluster", "down")
        assert (status, "1 job runs" in err) == (1, True)
        assert not is_held(private.lock("controller"))
    status, out, err = private.run("cluster", "down", "--end-jobs")
    assert (status, out, err) == (0, f"ended job {number}; the domain is down\n", "")
    until(lambda: not private.members())
    with contextlib.closing(sqlite3.connect(private.paths.store)) as store:
        (state,) = store.execute("select state from jobs where number = ?", (waiting,))
    assert state == ("queued",)


@pytest.mark.parametrize("what", ["controller", "agent"])
def test_up_starts_a_killed_member_of_an_operators_domain_again(private, what):
    assert private.run("cluster", "up")[0] == 0
    private.start_job()
    private.kill(what)
    started = NODE if what == "agent" else CONTROLLER
    expected = f"the domain goes on; started again: {started}\n"
    assert private.run("cluster", "up") == (0, expected, "")
    (private.folder / "go").touch()
    # The job of a killed agent ends with it; that of a killed controller runs on.
    ends = {"controller": "done", "agent": "node lost"}
    words = ("queue", "--all", "--format", "state")
    until(lambda: private.run(*words)[1] == f"state\n{ends[what]}\n")
    assert private.run("submit", "--wait", "true")[0] == 0
    assert "is up already" in private.run("cluster", "up")[2]
    assert private.run("cluster", "down")[0] == 0


def test_up_keeps_a_copy_of_other_settings(private):
    assert private.run("cluster", "up", "--slots", "3")[0] == 0
    assert private.run("cluster", "down")[0] == 0
    before = private.paths.config.read_text()
    status, _, err = private.run("cluster", "up")
    kept = private.paths.former_config
    assert (status, err) == (0, f"the settings of before are in {kept}\n")
    assert kept.read_text() == before
    assert private.run("cluster", "down")[0] == 0


def test_up_that_fails_changes_neither_settings_nor_keys(private):
    assert private.run("cluster", "up", "--slots", "3")[0] == 0
    assert private.run("cluster", "down")[0] == 0
    before = private.paths.config.read_text()
    keys = sorted(private.paths.keys.iterdir())
    failing = ("--hosts", "nosuch", "--shell", "false")
    assert private.run("cluster", "up", *failing)[0] == 1
    assert private.paths.config.read_text() == before
    assert sorted(private.paths.keys.iterdir()) == keys


def test_up_refuses_the_directory_of_a_domain_on_slurm(private):
    private.paths.directory.mkdir(parents=True)
    text = 'name = "a"\nengine = "slurm"\n[coupling]\n'
    private.paths.config.write_text(text)
    status, out, err = private.run("cluster", "up")
    assert (status, out) == (1, "")
    assert "cosched cluster couple --config FILE" in err
    assert private.paths.config.read_text() == text


@pytest.mark.parametrize("name", ["", "domain.toml", "keys"])
def test_settings_and_keys_that_others_can_change_are_refused(private, name):
    assert private.run("cluster", "up")[0] == 0
    assert private.run("cluster", "down")[0] == 0
    place = private.paths.directory / name
    place.chmod(place.stat().st_mode | 0o022)
    words = ("-m", CONTROLLER_MODULE, "--run-dir", str(private.paths.run_dir))
    done = subprocess.run(
        [sys.executable, *words], capture_output=True, text=True, check=False
    )
    refused = f"cosched-controller: {place}: other users can change it; chmod go-w it\n"
    assert (done.returncode, done.stderr) == (1, refused)


def test_jobs_of_an_ended_private_domain_can_be_read(private):
    private.run("submit", "--wait", "--output", "kept", "echo", "one")
    again = "cosched: the private domain has ended; starting it again to read its jobs\n"
    for words, expected in [
        (("queue", "--all", "--format", "job,state"), "job state\n  1 done\n"),
        (("output", "1"), "one\n"),
        (("why", "1"), "job 1: ended with status 0\n"),
    ]:
        assert private.run("cluster", "down")[0] == 0
        until(lambda: not private.members())
        assert private.run("queue") == (0, "no jobs\n", "")
        assert not private.members()
        assert private.run(*words) == (0, expected, again)


def test_a_command_that_reads_starts_no_domain_in_which_jobs_wait(private):
    private.run("submit", "--hold", "true")
    assert private.run("cluster", "down")[0] == 0
    until(lambda: not private.members())
    for words in [("queue",), ("queue", "--all"), ("output", "1")]:
        status, out, err = private.run(*words)
        assert (status, out) == (1, "")
        assert "no domain answers" in err
    assert not private.members()


def test_down_starts_no_job_that_waits(private):
    private.start_job()
    private.run("submit", "--exclusive", "touch", "waited")
    private.kill("controller")
    (private.folder / "go").touch()
    until(lambda: private.strays() == set())
    status, out, err = private.run("cluster", "down")
    assert (status, out, err) == (0, "the domain is down\n", "")
    assert not (private.folder / "waited").exists()


def test_up_refuses_where_only_the_controller_was_killed(private):
    private.start_job()
    before = private.paths.config.read_bytes()
    private.kill("controller")
    status, _, err = private.run("cluster", "up")
    assert (status, "the private domain in" in err, "1 job runs" in err) == (1, True, True)
    assert private.paths.config.read_bytes() == before


def test_up_ends_a_private_domain_in_which_no_job_runs(private):
    assert private.run("submit", "--wait", "true")[0] == 0
    private.run("submit", "--hold", "true")
    paths = NodePaths(private.paths.run_dir, NODE)
    assert request(paths, "status")["private"]
    status, out, err = private.run("up")
    try:
        assert (status, out[: len(f"node {NODE}: ")], err) == (0, f"node {NODE}: ", "")
        assert not private.members()
        assert not request(paths, "status")["private"]
        assert private.run("submit", "--wait", "true")[0] == 0
        status, _, err = private.run("up")
        assert (status, "its daemons are up already" in err) == (1, True)
        assert private.members()
        assert [job["state"] for job in private.jobs()] == ["held"]
    finally:
        private.run("down")


def test_up_takes_the_daemons_of_a_private_domain_over_if_jobs_run(private):
    number = private.start_job()
    paths = NodePaths(private.paths.run_dir, NODE)
    status, _, err = private.run("up")
    assert (status, err.count("\n"), "1 job runs" in err) == (1, 1, True)
    assert err.endswith("to take its daemons over: cosched up --restart\n")
    assert private.run("up", "--restart")[0] == 0
    try:
        assert not request(paths, "status")["private"]
        (private.folder / "go").touch()
        until(lambda: not private.jobs())
        assert private.run("why", number)[1] == f"job {number}: ended with status 0\n"
    finally:
        private.run("down")


@pytest.mark.parametrize("lost", [(), ("n2",)], ids=["all agents", "one agent killed"])
def test_down_ends_all_agents_of_a_domain_of_this_machine(make_rig, lost):
    rig = make_rig(2, life=QUICK)
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
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "the domain is down\n"
    assert rig.members["n1"].wait(WITHIN_S) == 0
    if not lost:
        assert rig.members["n2"].wait(WITHIN_S) == 0
    assert not rig.paths.controller_socket.exists()
