"""Plays the agents of a malleable job under a plain mpiexec. Each node has a real page; all
nodes are this machine. The agreement is the real one, its messages come in any order."""

from __future__ import annotations

import functools
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter, deque
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path

from benchmarks.mpi import build_malleable
from cosched.core.cluster.resizing.agreement import (
    Agreement,
    Event,
    Ordered,
    ReportDone,
    ReportLost,
    ReportRefused,
    Stage,
    Withdrawn,
)
from cosched.core.cluster.resizing.change import Arrival, Change
from cosched.core.cluster.resizing.node_part import NodePart, Order
from cosched.core.cluster.resizing.page_records import Result
from cosched.core.cluster.resizing.plan import Rank, Spot, plan
from cosched.core.errors import CoschedError
from cosched.shm.page import Page
from tests.places import ROOT
from tests.tools.resting import resting_library

PROGRAM = Path(__file__).with_name("malleable_rank.py")
PRELOADED = Path(__file__).with_name("played_page.c")
Report = ReportDone | ReportRefused

#: So long a change may take on a machine with much else to do.
CHANGE_S = 120
_POLL_S = 0.002


def mpi_environment() -> dict[str, str]:
    """Returns the variables with which any mpiexec starts many ranks here."""
    return {
        **os.environ,
        "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
        "PYTHONPATH": str(ROOT),
        "OPENBLAS_NUM_THREADS": "1",  # others would spin for a while beside other ranks
    }


@functools.cache  # asking a compiler for its libraries takes half a second
def compiled(source: Path, folder: Path) -> Path:
    """Returns a malleable program, compiled for the MPI of an environment's bin folder."""
    return build_malleable(source, folder / "mpicc")


def run_without_agents(
    folder: Path, ranks: int, *words: str | Path
) -> subprocess.CompletedProcess[str]:
    """Runs a program of fixed size under the mpiexec of an environment's bin folder."""
    return subprocess.run(
        [folder / "mpiexec", "-n", str(ranks), *words],
        env=mpi_environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=CHANGE_S,
        check=False,
    )


class PlayedAgents:
    """The agents of one job. folder: for pages and output. nodes: how many there are."""

    def __init__(self, folder: Path, nodes: int, seed: int = 0) -> None:
        self.folder = folder
        self.pages = [Page.create(folder / f"page-{n}", n, "") for n in range(nodes)]
        self.parts = [NodePart(place, page) for place, page in enumerate(self.pages)]
        self.hosts = dict.fromkeys(range(nodes), "")  # as MPI_Comm_spawn takes them
        self.chance = random.Random(seed)
        self.generation = 0
        self.ranks: list[Rank] = []
        self.results: list[Result] = []  # as rank 0 reported them, the last one at the end
        self.process: subprocess.Popen[bytes] | None = None
        self.agreement = Agreement(())
        self.output = folder / "output"

    def start(
        self, bin_folder: Path, nodes: Sequence[int], program: Path, *arguments: str | Path
    ) -> None:
        """Starts the program, in Python or compiled, with a rank on each of the named
        nodes."""
        if program.suffix == ".py":
            command = [bin_folder / "python", PROGRAM, self.folder, program]
        else:
            command = [program]
        self.ranks = [Rank(0, Spot(node, "")) for node in nodes]
        self.agreement = Agreement(nodes)
        self._write_nodes(0, [rank.spot for rank in self.ranks])
        with self.output.open("wb") as output:
            self.process = subprocess.Popen(
                [
                    *(*self.launcher(bin_folder), "-n", str(len(nodes))),
                    *(*command, *arguments),
                ],
                env=self._environment(program),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def _environment(self, program: Path) -> dict[str, str]:
        """Returns the variables with which ranks rest while they wait. Those of a compiled
        program find their page."""
        environ = mpi_environment()
        preloaded = [*environ.get("LD_PRELOAD", "").split(), *self.waiting()]
        if program.suffix != ".py":
            preloaded.append(self._page_finder())
            environ["COSCHED_PLAYED"] = str(self.folder)
        return {**environ, "LD_PRELOAD": " ".join(map(str, preloaded))}

    def _page_finder(self) -> Path:
        library = self.folder / "played_page.so"
        if not library.exists():
            flags = ("-shared", "-fPIC", "-O1")
            subprocess.run(["gcc", *flags, PRELOADED, "-o", library], check=True)
        return library

    def waiting(self) -> list[Path]:
        """Returns the libraries that decide how ranks wait."""
        return [resting_library()]

    def launcher(self, bin_folder: Path) -> list[str | Path]:
        """Returns the command that starts ranks, without their number."""
        return [bin_folder / "mpiexec"]

    @property
    def nodes(self) -> list[int]:
        return sorted({rank.spot.place for rank in self.ranks})

    def resize(
        self,
        leaving: Sequence[int] = (),
        arriving: Sequence[int] = (),
        withdraw: bool = False,
    ) -> Report:
        """Orders a change and returns its result once it is over. arriving: nodes, a rank
        for each time that one is named. withdraw: the queue withdraws the order at once."""
        self.generation += 1
        counts = sorted(Counter(arriving).items())
        arrivals = [Arrival(node, self.hosts[node], count) for node, count in counts]
        change = Change(self.generation, tuple(leaving), tuple(arrivals))
        ranks = self._expect(change)
        done = self._agree(change, withdraw)
        if isinstance(done, ReportDone):
            self.ranks = ranks
        return done

    def _expect(self, change: Change) -> list[Rank]:
        """Prepares the nodes for the new ranks of a change; returns the ranks after it."""
        try:
            expected = plan(self.ranks, change)
        except CoschedError:  # the job refuses it
            return self.ranks
        self._write_nodes(change.generation, expected.spawned)
        return list(expected.ranks)

    def resize_to(self, target: Collection[int], withdraw: bool = False) -> Report:
        """Gives the job a rank on each of these nodes."""
        now = set(self.nodes)
        return self.resize(sorted(now - set(target)), sorted(set(target) - now), withdraw)

    def random_target(self, most: int) -> list[int]:
        """Returns another set of nodes than the present one."""
        while True:
            size = self.chance.randint(1, most)
            target = self.chance.sample(range(len(self.pages)), size)
            if sorted(target) != self.nodes:
                return target

    def finish(self) -> tuple[int, str]:
        """Waits for the end of the program; returns its status and its output."""
        assert self.process is not None
        status = self.process.wait(CHANGE_S)
        return status, self.output.read_text()

    def close(self) -> None:
        """Kills what is left of the program."""
        if self.process is not None and self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()

    # --- the played agents ------------------------------------------------------------

    def _write_nodes(self, generation: int, spots: Iterable[Spot]) -> None:
        path = self.folder / f"nodes-{generation}"
        path.write_text(" ".join(str(spot.place) for spot in spots))

    def _agree(self, change: Change, withdraw: bool) -> Report:
        """Plays until the change is over; returns the report."""
        queues: dict[int, deque[Order]] = {}
        expected = Counter(rank.spot.place for rank in self.ranks)
        events: deque[Event] = deque([Ordered(change)])
        deadline = time.monotonic() + CHANGE_S
        report: Report | None = None
        while report is None or queues:
            while events:
                for command in self.agreement.handle(events.popleft()):
                    if isinstance(command, ReportDone | ReportRefused):
                        report = command
                    else:
                        assert not isinstance(command, ReportLost), "no node is lost here"
                        queues.setdefault(command.place, deque()).append(command)
                is_open = self.agreement.stage in (Stage.COLLECTING, Stage.PROPOSING)
                if withdraw and is_open and self.chance.random() < 0.3:
                    events.append(Withdrawn("the queue wants it so"))
            if queues:  # one message arrives, in the order of its sender
                place = self.chance.choice(sorted(queues))
                events.extend(self.parts[place].take(queues[place].popleft()))
                if not queues[place]:
                    del queues[place]
            for place, part in enumerate(self.parts):
                events.extend(part.watch(expected[place]))
            if not events and not queues and report is None:
                self._check_alive(deadline)
                time.sleep(_POLL_S)
        self.results += [found for found in map(Page.result, self.pages) if found]
        self.results.sort(key=lambda result: result.generation)
        return report

    def _check_alive(self, deadline: float) -> None:
        assert self.process is not None
        status = self.process.poll()
        if status is not None or time.monotonic() > deadline:
            sys.stderr.write(self.output.read_text()[-4000:])
            slots = {
                n: [(s.state, s.step, s.acknowledged) for s in page.data.slots if s.state]
                for n, page in enumerate(self.pages)
            }
            raise AssertionError(f"status {status}, {self.agreement.stage}: {slots}")
