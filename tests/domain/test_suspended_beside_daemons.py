"""A queue suspends a job on nodes whose scheduler daemons share the CPUs: the lab with its
daemons, the domain, the tasks and both MPIs are real."""

from __future__ import annotations

import json
import os
import re
import signal
import time

import pytest

from benchmarks.mpi import PROGRAMS
from cosched.config.domain import DomainConfig, write_config
from cosched.config.queue import ChangeSettings, QueueSettings
from cosched.core.units import NS_PER_S
from cosched.linux import proc
from tests.tools.malleable_agents import compiled, run_without_agents
from tests.tools.waiting import pauses

pytestmark = [
    pytest.mark.mpi_job,
    pytest.mark.skipif(os.geteuid() != 0, reason="the lab needs root"),
]

STEN = PROGRAMS / "sten.c"
WITHIN_S = 60.0
#: More iterations than a task makes before it is stopped again.
ITERATIONS = 25
QUEUE = QueueSettings(
    "fcfs",
    grace_ns=NS_PER_S,
    size="malleable",
    changes=ChangeSettings(suspend_ns=60 * NS_PER_S),
)
#: ``cosched cluster up --lab`` puts the lab's nodes into it.
CONFIG = DomainConfig("lab", "127.0.0.1:1", {"lab1": "127.0.0.1:2"}, queue=QUEUE)


class Site:
    """A lab with a domain that suspends jobs. Both jobs want all of its nodes.

    run: runs a command of cosched.
    """

    def __init__(self, run, nodes, folder, bin_folder):
        self.run = run
        self.nodes = nodes
        self.folder = folder
        self.bin_folder = bin_folder
        self.numbers = {}

    def ask(self, *words):
        return json.loads(self.run(*words, "--json"))

    def submit(self, name, time_s):
        """Submits STEN; it goes on until ``end`` is called."""
        options = ["--nodes", str(self.nodes), "--ppn", "1", "--time", f"{time_s}s"]
        options += ["--name", name, "--mpi", self.bin_folder / "mpiexec"]
        options += ["--output", self.folder / f"{name}.out", "--json"]
        program = [compiled(STEN, self.bin_folder), "--size", "24", "--pause", "0.02"]
        program += ["--until", self.folder / name]
        answer = self.run("submit", *options, *program)
        self.numbers[name] = json.loads(answer)["job"]

    def job(self, name):
        queue = self.ask("queue")["jobs"]
        found = [job for job in queue if job["job"] == self.numbers[name]]
        return found[0] if found else None

    def on_nodes(self, name):
        """Returns what the daemon of each node shows of a job."""
        nodes, label = self.ask("status")["nodes"], f"{name}-{self.numbers[name]}"
        return [job for node in nodes for job in node["jobs"] if job["name"] == label]

    def until(self, check, problem):
        """Returns what ``check`` returns, once that is true."""
        deadline = time.monotonic() + WITHIN_S
        between = pauses()
        while not (found := check()):
            assert time.monotonic() < deadline, f"{problem}: {self.ask('status')}"
            time.sleep(next(between))
        return found

    def until_mode(self, name, mode, *, scheduled):
        """Waits until all daemons have a job in a mode; returns what they show of it."""

        def found():
            jobs = self.on_nodes(name)
            wanted = [(mode, scheduled)] * self.nodes
            same = [(job["mode"], job["scheduled"]) for job in jobs] == wanted
            return jobs if same else None

        return self.until(found, f"{name} is not {mode}")

    def end(self, name):
        """Lets a job end, and compares its answer with that of a rigid run."""
        (self.folder / name).touch()
        self.until(lambda: self.job(name) is None, f"{name} does not end")
        # Before the answer there may be a line about a daemon that does not answer.
        output = (self.folder / f"{name}.out").read_text().splitlines()[-1] + "\n"
        iterations = re.search(r"iterations (\d+)", output)[1]
        # A job may be stopped before its first iteration.
        length = ["--iterations", iterations] if int(iterations) else ["--until", "/"]
        words = [compiled(STEN, self.bin_folder), "--size", "24", *length]
        done = run_without_agents(self.bin_folder, self.nodes, *words)
        done.check_returncode()
        assert output == done.stdout


@pytest.fixture
def site(lab_command, lab_size, tmp_path, bin_folder):
    config = tmp_path / "domain.toml"
    config.write_text(write_config(CONFIG))
    lab_command("lab", "up", *lab_size.words)
    try:
        lab_command("cluster", "up", "--lab", "--config", str(config))
        yield Site(lab_command, lab_size.nodes, tmp_path, bin_folder)
        lab_command("cluster", "down", "--end-jobs")
    finally:
        lab_command("lab", "down")


@pytest.fixture
def lent(site):
    """A job that is suspended, beside one that has its nodes."""
    site.submit("long", 600)
    site.until_mode("long", "coscheduled", scheduled=True)
    site.submit("short", 30)
    site.until_mode("long", "suspended", scheduled=False)
    site.until_mode("short", "coscheduled", scheduled=True)
    return site


def test_daemons_give_a_suspended_job_no_turns_until_it_continues(lent):
    assert lent.job("long")["suspended_for"] == lent.numbers["short"]
    before, short_before = lent.on_nodes("long"), lent.on_nodes("short")

    def short_has_run():
        pairs = zip(short_before, lent.on_nodes("short"), strict=True)
        return all(now["scheduled_s"] - then["scheduled_s"] > 0.5 for then, now in pairs)

    lent.until(short_has_run, "the other job has no turns")
    for then, now in zip(before, lent.on_nodes("long"), strict=True):
        for column in ("scheduled_s", "switches", "cpu_s"):
            assert now[column] == then[column]
    lent.end("short")
    lent.until_mode("long", "coscheduled", scheduled=True)
    assert lent.job("long")["suspended_for"] is None
    lent.end("long")


def waits_of(pids):
    """Returns how often each process has waited. STEN waits in each iteration."""
    texts = [proc.read_of(pid, "status") for pid in pids]
    return [
        int(re.search(r"^voluntary_ctxt_switches:\s*(\d+)", text, re.M)[1])
        for text in texts
    ]


@pytest.fixture
def orphaned(lent):
    """The same jobs, and the nodes' names. The scheduler daemon of each was killed: if one
    were left, the ranks elsewhere would wait for those that it stops."""
    nodes = lent.ask("status")["nodes"]
    pids = {"long": [], "short": []}
    for node in nodes:
        for job in node["jobs"]:
            pids[job["name"].partition("-")[0]] += [task["pid"] for task in job["tasks"]]
    for node in nodes:
        os.kill(node["pid"], signal.SIGKILL)
    return lent, [node["node"] for node in nodes], pids


@pytest.mark.one_mpi
def test_job_stays_suspended_while_its_nodes_have_no_daemon(orphaned):
    """The guardian continues the tasks, and their steward stops them again."""
    site, _, pids = orphaned
    before = {name: waits_of(each) for name, each in pids.items()}

    def grown(name):
        now = zip(before[name], waits_of(pids[name]), strict=True)
        return [waits - then for then, waits in now]

    site.until(lambda: min(grown("short")) > 4 * ITERATIONS, "the other job stands still")
    assert max(grown("long")) < ITERATIONS
    assert site.job("long")["suspended_for"] == site.numbers["short"]
    site.end("short")
    site.until(lambda: site.job("long")["suspended_for"] is None, "it does not continue")
    site.end("long")


@pytest.mark.one_mpi
def test_new_daemon_lets_a_job_run_that_continued_before(orphaned):
    """The region of the job has its mode, which the steward changed meanwhile."""
    site, nodes, _ = orphaned
    site.end("short")
    site.until(lambda: site.job("long")["suspended_for"] is None, "it does not continue")
    for node in nodes:
        site.run("lab", "exec", node, site.bin_folder / "cosched", "up")
    site.until_mode("long", "coscheduled", scheduled=True)
    site.end("long")
