"""A queue changes the sizes of running MPI jobs: the controller, the agents, the tasks and
the MPI are real.

Most jobs are programs in C, whose ranks start in a tenth of the time of Python's. Programs
in Python are in test_size_changes.py, and the last one here."""

import re
from dataclasses import replace

import pytest

from benchmarks.mpi import PROGRAMS
from cosched import Client, Job
from cosched.config.queue import ChangeSettings, QueueSettings
from cosched.core.units import NS_PER_S
from tests.domain.rig import LESS_QUICK, PATIENT
from tests.places import ROOT
from tests.tools.malleable_agents import compiled, mpi_environment, run_without_agents
from tests.tools.ports import free_ports
from tests.tools.resting import resting_library

pytestmark = pytest.mark.mpi_job

STEN = PROGRAMS / "sten.c"
#: In each iteration all ranks sleep so long.
PAUSE_S = 0.02
QUEUE = QueueSettings(
    grace_ns=NS_PER_S,
    size="malleable",
    changes=ChangeSettings(harvest="even", spared_ns=NS_PER_S),
)


@pytest.fixture
def domain(make_rig, bin_folder):
    return start_domain(make_rig, bin_folder)


def start_domain(make_rig, bin_folder, life=PATIENT, policy="fcfs"):
    rig = make_rig(4, queue=replace(QUEUE, policy=policy), life=life)
    rig.start()
    rig.until_up()
    return Domain(rig, bin_folder)


class Domain:
    """Four nodes, and jobs that run STEN until the test stops them."""

    def __init__(self, rig, bin_folder):
        self.rig = rig
        self.bin_folder = bin_folder
        self._submitted = 0

    def submit(self, *program, **more):
        """Submits a job, of STEN or another program, which gets the file that stops it.
        Returns its number and this file."""
        self._submitted += 1
        stop = self.rig.folder / f"stop-{self._submitted}"
        mine = {k: v for k, v in mpi_environment().items() if not k.startswith("COSCHED_")}
        path = f"{self.bin_folder}:{mine['PATH']}"
        environ = {**mine, "PATH": path, **self.rig.mark}
        environ["LD_PRELOAD"] = str(resting_library())
        options = ("--size", 24, "--until", stop, "--pause", PAUSE_S)
        words = [compiled(STEN, self.bin_folder), *options]
        if program:
            words = [self.bin_folder / "python", *program, stop]
        job = Job(
            [str(word) for word in words],
            environ=environ,
            cwd=str(self.rig.work),
            **more,
        )
        with Client.connect(self.rig.paths.run_dir, "n1") as client:
            return client.submit(job), stop

    def job(self, number):
        with Client.connect(self.rig.paths.run_dir, "n1") as client:
            return client.job(number)

    def until_nodes(self, sizes):
        """Waits until jobs that run or wait have these numbers of nodes."""

        def found():
            jobs = {number: self.job(number) for number in sizes}
            states = ("running", "queued")
            return {n: len(j["hosts"]) for n, j in jobs.items() if j["state"] in states}

        self.rig.until(lambda: found() == sizes, f"want {sizes}, there are {found()}", 60)

    def end(self, number, stop):
        """Lets a job end, and compares its answer with that of a rigid run."""
        stop.touch()
        job = self.rig.wait(number)
        assert (job["state"], job["status"]) == ("done", 0), (job, self.rig.logs())
        output = self.rig.output(job)
        iterations = re.search(r"iterations (\d+)", output)[1]
        assert output == rigid(self.bin_folder, iterations)

    def nothing_is_left(self):
        spools = [self.rig.paths.spool(name) for name in self.rig.config.nodes]

        def left():
            return [*(each for spool in spools for each in spool.glob("*"))]

        self.rig.until(lambda: not left() and not self.rig.strays(""), f"left: {left()}")


def rigid(bin_folder, iterations):
    # A job may be stopped before its first iteration.
    length = ["--iterations", iterations] if int(iterations) else ["--until", "/"]
    words = [compiled(STEN, bin_folder), "--size", "24", *length]
    done = run_without_agents(bin_folder, 2, *words)
    done.check_returncode()
    return done.stdout


def test_two_malleable_jobs_and_a_rigid_one_share_four_nodes(domain):
    first, stop_first = domain.submit(minimum=1, ideal=4)
    domain.until_nodes({first: 4})
    second, stop_second = domain.submit(minimum=1, ideal=4)
    domain.until_nodes({first: 3, second: 1})
    third, stop_third = domain.submit(nodes=2, ppn=1)
    domain.until_nodes({first: 1, second: 1, third: 2})
    domain.end(third, stop_third)
    domain.until_nodes({first: 2, second: 2})
    domain.end(first, stop_first)
    domain.until_nodes({second: 4})
    domain.end(second, stop_second)
    domain.nothing_is_left()


@pytest.mark.one_mpi
def test_two_jobs_have_what_they_prefer(domain):
    """Without preferred sizes the second one would get its minimum, as above."""
    sizes = {"minimum": 1, "preferred": 2, "ideal": 4}
    first, stop_first = domain.submit(**sizes)
    domain.until_nodes({first: 4})
    second, stop_second = domain.submit(**sizes)
    domain.until_nodes({first: 2, second: 2})
    domain.rig.until(lambda: domain.job(first)["changes"][-1]["ended_ns"], "it is open")
    cause = f"gave 1 node to job {second}: it prefers 2, 1 were free"
    assert domain.job(first)["changes"][-1]["reason"].endswith(cause)
    with Client.connect(domain.rig.paths.run_dir, "n1") as client:
        assert client.resize(second, preferred=1) == (1, 4, 1)
    third, stop_third = domain.submit(**sizes)
    domain.until_nodes({first: 2, second: 1, third: 1})
    domain.end(first, stop_first)
    domain.end(second, stop_second)
    domain.end(third, stop_third)
    domain.nothing_is_left()


def test_easy_starts_a_short_job_by_a_harvest_and_keeps_the_reservation(make_rig):
    """The third job waits for two of the first one's nodes, and for one of the second."""
    domain = start_domain(make_rig, ROOT / ".venv/bin", policy="easy")
    first, stop_first = domain.submit(nodes=2, ppn=1, time_s=600)
    domain.until_nodes({first: 2})
    second, stop_second = domain.submit(minimum=1, ideal=2, time_s=3000)
    domain.until_nodes({first: 2, second: 2})
    third, stop_third = domain.submit(nodes=3, ppn=1, time_s=600)
    short, stop_short = domain.submit(nodes=1, ppn=1, time_s=60)
    domain.until_nodes({first: 2, second: 1, third: 0, short: 1})
    domain.end(short, stop_short)
    domain.until_nodes({first: 2, second: 2, third: 0})
    domain.end(first, stop_first)
    domain.until_nodes({second: 1, third: 3})
    domain.end(third, stop_third)
    domain.end(second, stop_second)
    domain.nothing_is_left()


def wait_for_changes(domain, number, count):
    """Waits until a job has had so many changes of its size."""

    def had():
        changes = domain.job(number)["changes"]
        return [each for each in changes if each["ended_ns"] is not None]

    domain.rig.until(lambda: len(had()) >= count, f"job {number}: {had()}", 60)


@pytest.mark.one_mpi
@pytest.mark.parametrize("killed_after", [0, 1, 2])
def test_killed_controller_goes_on_with_a_change(domain, killed_after):
    """It is killed when a job was submitted that needs nodes, or a little later."""
    first, stop_first = domain.submit(minimum=1, ideal=4)
    domain.until_nodes({first: 4})
    second, stop_second = domain.submit(nodes=2, ppn=1)
    domain.rig.until(
        lambda: len(domain.job(first)["changes"]) >= min(1, killed_after), "no change"
    )
    if killed_after == 2:
        wait_for_changes(domain, first, 1)
    domain.rig.kill("controller")
    domain.rig.start("controller")
    domain.until_nodes({first: 2, second: 2})
    domain.end(second, stop_second)
    domain.until_nodes({first: 4})
    domain.end(first, stop_first)
    domain.nothing_is_left()


def test_killed_agent_ends_the_jobs_on_it_alone(make_rig, bin_folder):
    domain = start_domain(make_rig, bin_folder, LESS_QUICK)
    first, stop_first = domain.submit(minimum=1, ideal=2)
    second, _ = domain.submit(minimum=1, ideal=2)
    domain.until_nodes({first: 2, second: 2})
    lost = domain.job(second)["hosts"][1]
    domain.rig.kill(lost)
    assert domain.rig.wait(second)["state"] == "node lost"
    domain.rig.start(lost)
    domain.rig.until_up()
    domain.end(first, stop_first)
    domain.nothing_is_left()


def test_malleable_job_takes_a_new_node_and_gives_a_removed_one_back(domain):
    rig = domain.rig
    number, stop = domain.submit(minimum=1, ideal=4)
    domain.until_nodes({number: 4})
    with rig.client() as client:
        assert client.remove(["n3"], wait=True) == [number]
        assert rig.members["n3"].wait(20) == 0
        domain.until_nodes({number: 3})
        assert "n3" not in client.job(number)["hosts"]
        address = f"127.0.0.1:{free_ports(1)}"
        client.add({"n5": address})
    rig.config = replace(rig.config, nodes={**rig.config.nodes, "n5": address})
    rig.start("n5")
    domain.until_nodes({number: 4})
    assert "n5" in domain.job(number)["hosts"]
    domain.end(number, stop)
    domain.nothing_is_left()


ASKS = """
import sys, time
from pathlib import Path
import numpy as np
from cosched import malleable

with malleable.Job(minimum=1, ideal=4) as job:
    block = job.scatter(np.zeros((8, 1)) if job.rank == 0 else None)
    for step in job.steps():
        if job.resized:
            block = job.redistribute(block)
        if step == 5:
            job.ask(2)
        time.sleep(0.02)
        if job.comm.bcast(Path(sys.argv[1]).exists()):
            break
"""


@pytest.mark.one_mpi
def test_program_asks_for_fewer_nodes(domain):
    program = domain.rig.work / "asks.py"
    program.write_text(ASKS)
    number, stop = domain.submit(program, minimum=1, ideal=4)
    domain.until_nodes({number: 2})
    (change,) = domain.job(number)["changes"]
    assert (change["before"], change["after"]) == (4, 2)
    assert change["reason"] == "gave 2 nodes: it wants 2 at most"
    stop.touch()
    assert domain.rig.wait(number)["state"] == "done"
    domain.nothing_is_left()
