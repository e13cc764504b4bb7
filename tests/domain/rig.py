"""Runs a whole domain on this machine: each node is an agent at a loopback address."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

from cosched.cluster.client import Client, NoDomain
from cosched.cluster.keys import make_keys
from cosched.cluster.paths import DomainPaths
from cosched.cluster.submission import make_submission
from cosched.config.domain import DomainConfig, LifeSettings, write_config
from cosched.config.queue import QueueSettings
from cosched.core.names import CONTROLLER
from cosched.core.units import NS_PER_S
from tests.tools.commands import Daemon
from tests.tools.ports import free_ports
from tests.tools.waiting import pauses

WITHIN_S = 30.0
MODULES = {True: "cosched_daemons.controller", False: "cosched_daemons.agent"}
ENVIRON = {"PATH": os.environ["PATH"]}
#: No member is lost because the machine is busy.
PATIENT = LifeSettings(NS_PER_S // 10, 60 * NS_PER_S, 60 * NS_PER_S)
#: A killed member is soon lost, for tests that wait for that. So is one that gets no CPU
#: for a second.
QUICK = LifeSettings(NS_PER_S // 10, NS_PER_S, 10 * NS_PER_S)
#: The same where the tasks of the test take the CPUs.
LESS_QUICK = replace(PATIENT, lost_after_ns=5 * NS_PER_S)
#: A variable that only tasks of jobs have.
IN_JOBS = "COSCHED_DOMAIN_JOB="


class Rig:
    """A domain of ``nodes`` nodes, n1, n2, ..., in ``folder``. Members are started one by
    one or all at once. wires: the networks of its members, if they have their own. forks:
    members are forks of this process, which cost little; their memory says nothing."""

    def __init__(
        self,
        folder: Path,
        nodes: int,
        *,
        slots=4,
        queue=None,
        life=PATIENT,
        wires=None,
        forks=False,
        **more,
    ):
        self._forks = forks
        self.folder = folder
        self.paths = DomainPaths(folder / "run")
        self.work = folder / "work"
        self.work.mkdir()
        self._wires = wires
        hosts = {} if wires is None else wires.hosts
        addresses = {
            name: f"{hosts.get(name, '127.0.0.1')}:{free_ports(2)}"
            for name in (CONTROLLER, *(f"n{i}" for i in range(1, nodes + 1)))
        }
        self.config = DomainConfig(
            "test",
            addresses.pop(CONTROLLER),
            addresses,
            slots,
            queue=queue or QueueSettings(grace_ns=NS_PER_S),
            life=life,
            **more,
        )
        self.paths.directory.mkdir(parents=True)
        self.write_config(self.config)
        make_keys(self.paths.keys, self.config.members)
        self.mark = {"TEST_RIG": str(folder)}  # in the environment of its jobs
        self.environ = {**ENVIRON, **self.mark}
        self.members = {}
        self.launched = []

    def write_config(self, config):
        self.paths.config.write_text(write_config(config))

    def start(self, *names, wrapper=(), alter=None):
        """Starts members, by default all, and waits until they listen. wrapper: words in
        place of ``-m MODULE``, which then are its arguments. alter: called first in a
        member that is a fork."""
        started = {
            name: self.launch(name, wrapper, alter) for name in names or self.config.members
        }
        for name, process in started.items():
            line = process.stdout.readline()
            assert line == b"ready\n" or wrapper or alter, self.log(name)

    def launch(self, name, wrapper=(), alter=None):
        module = MODULES[name == CONTROLLER]
        options = ["--run-dir", str(self.paths.run_dir)]
        if name != CONTROLLER:
            options += ["--node", name]
        within = [] if self._wires is None else self._wires.within(name)
        with (self.folder / f"{name}.log").open("ab") as log:
            if self._forks and not within and not wrapper:
                process = Daemon(module, *options, log=log, cwd="/", alter=alter)
            else:
                assert alter is None, "only a fork can be altered"
                words = [*wrapper, module] if wrapper else ["-m", module]
                process = subprocess.Popen(
                    [*within, sys.executable, *words, *options],
                    stdout=subprocess.PIPE,
                    stderr=log,
                    cwd="/",
                )
        self.members[name] = process
        self.launched.append(process)
        return process

    def log(self, name):
        return (self.folder / f"{name}.log").read_text()

    def kill(self, name, number=signal.SIGKILL):
        """Kills a member and waits until it is gone."""
        process = self.members.pop(name)
        process.send_signal(number)
        process.wait()
        process.stdout.close()

    def client(self, node="n1"):
        """Returns a client once the domain answers."""
        return self.until(lambda: self.try_client(node), "no domain answers")

    def try_client(self, node="n1"):
        with contextlib.suppress(NoDomain):
            return Client.connect(self.paths.run_dir, node)
        return None

    def until_up(self, *names):
        """Waits until these nodes, by default all, have joined."""
        wanted = set(names or self.config.nodes)

        def up():
            with contextlib.suppress(NoDomain), self.client() as client:
                return wanted <= {n["node"] for n in client.nodes() if n["state"] == "up"}
            return False

        self.until(up, f"{wanted} are not up")

    def until(self, check, problem, within_s=WITHIN_S):
        """Returns what ``check`` returns, once that is true."""
        deadline = time.monotonic() + within_s
        between = pauses()
        while not (found := check()):
            assert time.monotonic() < deadline, f"{problem}\n{self.logs()}"
            time.sleep(next(between))
        return found

    def logs(self):
        """Returns the logs of all members."""
        logs = self.folder.glob("*.log")
        return "\n".join(f"{path.name}:\n{path.read_text()}" for path in sorted(logs))

    def submit(self, *argv, by="n1", **more):
        """Submits a job that writes into the work folder; returns its number. by: the node
        whose agent passes it on."""
        more["environ"] = {**more.get("environ", ENVIRON), **self.mark}
        more.setdefault("cwd", str(self.work))
        with self.client(by) as client:
            return client.submit(make_submission(argv, **more))

    def shell(self, script, **more):
        """Submits a job of the shell; returns its number."""
        return self.submit("/bin/sh", "-c", script, **more)

    def wait(self, number):
        """Returns a job once it has ended, also if the controller restarts meanwhile."""

        def ended():
            try:
                with self.client() as client:
                    job = client.job(number)
            except NoDomain:
                return None
            return job if job["ended_ns"] else None

        return self.until(ended, f"job {number} has not ended")

    def state(self, number):
        with self.client() as client:
            return client.job(number)["state"]

    def until_state(self, number, state):
        self.until(lambda: self.state(number) == state, f"job {number} is not {state}")

    def output(self, job):
        path = self.work / job["output"]
        return path.read_text() if path.exists() else ""

    def strays(self, mark):
        """Returns the processes of this domain's jobs with ``mark`` in the command."""
        found = []
        for place in Path("/proc").iterdir():
            if place.name.isdecimal():
                with contextlib.suppress(OSError):
                    line = (place / "cmdline").read_text(errors="replace")
                    if mark in line and self._is_task(place):
                        found.append(int(place.name))
        return found

    def _is_task(self, place):
        """Whether a process is of a job of this domain, not of a user's command."""
        environ = (place / "environ").read_text(errors="replace").split("\0")
        is_in_job = any(each.startswith(IN_JOBS) for each in environ)
        return is_in_job and all(f"{k}={v}" in environ for k, v in self.mark.items())

    def close(self):
        """Ends all members that were ever launched."""
        for process in self.launched:
            if process.poll() is None:
                process.terminate()
        for process in self.launched:
            try:
                process.wait(WITHIN_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            process.stdout.close()
        self.launched.clear()
        self.members.clear()
