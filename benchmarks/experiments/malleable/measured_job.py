"""Runs a malleable program in a domain on nodes of a lab, and changes its size by order.

The domain is real: its queue, its agents, their MPI. A change is returned with the phases
that the domain has recorded. Beside it there are an mpiexec, which starts ranks of the same
program on nodes of the lab, and a rigid job, which is restarted from a checkpoint.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks.commands import output_of
from benchmarks.mpi import PROGRAMS, build_malleable
from cosched import Client, Job
from cosched.cluster.answers import ChangeInfo, JobInfo, PhasesInfo
from cosched.core.errors import CoschedError
from cosched.core.units import NS_PER_S
from cosched.lab.lab import Lab
from cosched.launch.command import Layout, Site, job_command, own_environment
from cosched.launch.family import Mpi

LANGUAGES = ("python", "c")
#: The phases of a change, in their order; phases that overlap others are left out.
PHASES = ("prepare", "agree", "spawn", "connect", "start", "move", "resume", "empty")
#: A start or a change takes no longer than this.
WITHIN_S = 120.0
_POLL_S = 0.01
_JOB_S = 3600.0
#: The job sleeps so long in each iteration.
_PAUSE_S = 0.02


@dataclass(frozen=True, slots=True)
class Program:
    """A program of ``benchmarks/programs`` for an MPI."""

    mpi: Mpi  #: starts it
    language: str  #: one of LANGUAGES
    name: str = "holding"  #: of its source

    @property
    def title(self) -> str:
        """The name and version of the MPI."""
        return f"{self.mpi.family.title} {self.mpi.version}"

    def words(self, *options: str | Path | int) -> list[str]:
        """Returns its command line. Raises CoschedError if it cannot be compiled."""
        if self.language == "python":
            python = self.mpi.mpiexec.parent / "python"
            front = [python, PROGRAMS / f"{self.name}.py"]
        elif self.mpi.mpicc is None:
            raise CoschedError(f"{self.mpi.mpiexec}: no mpicc beside it for {self.name}.c")
        else:
            front = [build_malleable(PROGRAMS / f"{self.name}.c", self.mpi.mpicc)]
        return [*map(str, front), *map(str, options)]


@dataclass(frozen=True, slots=True)
class Change:
    """A change of the size, or several that together are one for their user. In ms."""

    phases: dict[str, float]  #: how long each of PHASES took
    stood: float  #: how long the job stood still
    all: float  #: from the queue's order until it was done and the nodes that left free
    moved_bytes: int  #: the data that went from one process to another

    @property
    def rest(self) -> float:
        """The time in no phase: messages, and the iteration that ran at the order."""
        return self.all - sum(self.phases.values())


class Scene:
    """A program in a domain that is up. folder: for files."""

    def __init__(self, lab: Lab, program: Program, folder: Path) -> None:
        self.program = program
        self.folder = folder
        self.client = Client.connect(lab.run_dir, lab.nodes[0].name)
        self._lab = lab
        kept = {k: v for k, v in os.environ.items() if not k.startswith("COSCHED_")}
        self._environ = {**kept, "PYTHONPATH": str(PROGRAMS.parents[1])}

    def mpiexec_s(self, ranks: int) -> float:
        """Returns the time in which mpiexec starts ranks, one a node, until all have come
        to their first barrier."""
        nodes, mpi = self._lab.nodes[-ranks:], self.program.mpi
        site = Site(
            names=tuple(node.name for node in nodes),
            addresses=tuple(node.address for node in nodes),
            agent=self._lab.agent,
            enter=tuple(self._lab.enter_argv(nodes[0].name, "/")),
            network=self._lab.network,
        )
        mark = self.folder / "mpiexec.mark"
        command = job_command(
            *(mpi, site, Layout(ranks, 1), own_environment(site, mpi)),
            *(self.program.words("--mark", mark), self._environ),
            root=True,
        )
        began_ns = time.monotonic_ns()
        output_of(
            command.argv,
            f"mpiexec of {ranks} ranks",
            {**self._environ, **command.environ},
            within_s=WITHIN_S,
        )
        return (int(mark.read_text()) - began_ns) / NS_PER_S

    def boundaries_ns(self, rounds: int) -> list[float]:
        """Returns the time of a boundary without a change in each round, in ns."""
        program = replace(self.program, name="boundaries")
        output = self.folder / "boundaries"
        output.unlink(missing_ok=True)  # a job's output is added to what is there
        self.finish(self.submit(program.words(rounds), 1, output=str(output)))
        return [float(line) for line in output.read_text().split()]

    def submit(
        self,
        words: Sequence[str],
        nodes: int,
        *,
        rigid: bool = False,
        output: str = os.devnull,
    ) -> int:
        """Submits a job of this number of nodes; returns the job's number."""
        job = Job(
            words,
            ppn=1,
            time_s=_JOB_S,
            output=output,
            environ=self._environ,
            mpi=str(self.program.mpi.mpiexec),
            shim=False,
            cwd="/",
            nodes=nodes if rigid else 0,
            minimum=0 if rigid else nodes,
            ideal=0 if rigid else nodes,
        )
        return self.client.submit(job)

    def finish(self, number: int) -> JobInfo:
        """Waits for the end of a job. Raises CoschedError if it failed."""
        job = self.client.wait(number)
        if job["state"] != "done":
            raise CoschedError(f"job {number} {job['state']}: {job['reason']}")
        return job

    def until(self, found: Callable[[], bool], number: int) -> None:
        """Waits until something about a running job is so. Raises CoschedError."""
        deadline = time.monotonic() + WITHIN_S
        while not found():
            job = self.client.job(number)
            if job["ended_ns"] is not None or time.monotonic() > deadline:
                raise CoschedError(f"job {number} {job['state']}: {job['reason']}")
            time.sleep(_POLL_S)

    @contextmanager
    def job(self, megabytes: int, nodes: int) -> Iterator[MeasuredJob]:
        """Runs a job that holds this much data, and that has begun on these nodes."""
        with tempfile.TemporaryDirectory(dir=self.folder) as name:
            job = MeasuredJob(self, megabytes, Path(name))
            job.begin(nodes)
            yield job
            job.end()


class MeasuredJob:
    """A job in a scene. folder: for its files."""

    def __init__(self, scene: Scene, megabytes: int, folder: Path) -> None:
        self._scene = scene
        self._saved = folder / "saved"
        self._saved.mkdir()
        self._until, self._mark = folder / "until", folder / "mark"
        self._options = ["--megabytes", megabytes, "--pause", _PAUSE_S]
        self._number = 0
        self._seen = 0  # changes

    def begin(self, nodes: int) -> None:
        """Begins the malleable job."""
        words = self._words("--save", self._saved)
        self._number = self._scene.submit(words, nodes)
        self._scene.until(self._mark.exists, self._number)

    def _words(self, *more: str | Path) -> list[str]:
        ends = ("--until", self._until, "--mark", self._mark)
        return self._scene.program.words(*map(str, self._options), *ends, *more)

    def resize(self, nodes: int) -> Change:
        """Lets the job have this number of nodes; returns the change."""
        self._scene.client.resize(self._number, nodes, nodes)
        return self._await_changes(1)

    def migrate(self) -> Change:
        """Takes a node from the job, which gets another one. Two changes of its size follow
        each other, since the queue orders no change with both."""
        client = self._scene.client
        hosts = client.job(self._number)["hosts"]
        client.resize(self._number, len(hosts) - 1, len(hosts))
        client.drain([hosts[-1]], "measured")
        found = self._await_changes(2)
        client.resize(self._number, len(hosts), len(hosts))
        client.undrain([hosts[-1]])
        return found

    def _await_changes(self, count: int) -> Change:
        fresh: list[ChangeInfo] = []

        def ended() -> bool:
            changes = self._scene.client.job(self._number)["changes"]
            fresh[:] = changes[self._seen :]
            return len(fresh) == count and all(each["ended_ns"] for each in fresh)

        self._scene.until(ended, self._number)
        self._seen += count
        return change_of(fresh)

    def restart_s(self, nodes: int) -> float:
        """Ends the job, which saves its data, and starts a rigid one on this number of
        nodes. Returns the time until all ranks of that one have read their data."""
        scene = self._scene
        self._mark.unlink()
        began_ns = time.monotonic_ns()
        self.end()
        self._until.unlink()
        words = self._words("--load", self._saved)
        self._number = scene.submit(words, nodes, rigid=True)
        scene.until(self._mark.exists, self._number)
        return (int(self._mark.read_text()) - began_ns) / NS_PER_S

    def end(self) -> None:
        """Lets the job end."""
        self._until.touch()
        self._scene.finish(self._number)


def change_of(changes: Sequence[ChangeInfo]) -> Change:
    """Returns changes that followed each other as one. Raises CoschedError if one was
    refused."""
    phases: list[PhasesInfo] = []
    for each in changes:
        if each["phases"] is None:
            raise CoschedError(f"a change was refused: {each['refused']}")
        phases.append(each["phases"])
    all_ns = (changes[-1]["ended_ns"] or 0) - changes[0]["ordered_ns"]
    seconds = [{name: float(each[f"{name}_s"]) for name in PHASES} for each in phases]  # type: ignore[literal-required]
    return Change(
        {name: sum(each[name] for each in seconds) * 1e3 for name in PHASES},
        sum(each["stood_s"] for each in changes) * 1e3,
        all_ns / 1e6,
        sum(each["moved_bytes"] for each in phases),
    )
