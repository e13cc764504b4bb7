"""Plays the agents of a malleable job under a plain mpiexec. Each node has a real page; all
nodes are this machine. The agreement is the real one, its messages come in any order."""

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter, deque
from pathlib import Path

from cosched.core.cluster.resizing.agreement import (
    Agreement,
    Ordered,
    ReportDone,
    ReportRefused,
    Stage,
    Withdrawn,
)
from cosched.core.cluster.resizing.change import Arrival, Change
from cosched.core.cluster.resizing.node_part import NodePart
from cosched.core.cluster.resizing.plan import Member, Spot, plan
from cosched.core.errors import CoschedError
from cosched.shm.page import Page
from tests.places import ROOT

RANK = Path(__file__).with_name("malleable_rank.py")
#: So long a change may take on a machine with much else to do.
CHANGE_S = 120
_POLL_S = 0.0005


def mpi_environment():
    """Returns the variables with which any mpiexec starts many ranks here."""
    return {
        **os.environ,
        "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
        "PYTHONPATH": str(ROOT),
    }


class PlayedAgents:
    """The agents of one job. folder: for pages and output. nodes: how many there are."""

    def __init__(self, folder, nodes, seed=0):
        self.folder = folder
        self.pages = [Page.create(folder / f"page-{n}", n, "") for n in range(nodes)]
        self.parts = [NodePart(place, page) for place, page in enumerate(self.pages)]
        self.chance = random.Random(seed)
        self.generation = 0
        self.members = []
        self.results = []  # as rank 0 reported them, the last one at the end
        self.process = None

    def start(self, bin_folder, nodes, program, *arguments):
        """Starts the program, with a rank on each of the named nodes."""
        self.members = [Member(0, Spot(node, "")) for node in nodes]
        self.agreement = Agreement(nodes)
        self._write_nodes(0, [member.spot for member in self.members])
        self.output = self.folder / "output"
        with self.output.open("wb") as output:
            self.process = subprocess.Popen(
                [
                    *(bin_folder / "mpiexec", "-n", str(len(nodes))),
                    *(bin_folder / "python", RANK, self.folder, program, *arguments),
                ],
                env=mpi_environment(),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    @property
    def nodes(self):
        return sorted({member.spot.place for member in self.members})

    def resize(self, leaving=(), arriving=(), withdraw=False):
        """Orders a change and returns its result once it is over. arriving: nodes, a rank
        for each time that one is named. withdraw: the queue withdraws the order at once."""
        self.generation += 1
        arrivals = [Arrival(node, "", n) for node, n in sorted(Counter(arriving).items())]
        change = Change(self.generation, tuple(leaving), tuple(arrivals))
        try:
            planned = plan(self.members, change)
        except CoschedError:
            planned = None  # the ranks refuse it
        else:
            self._write_nodes(self.generation, planned.spawned)
        done = self._agree(change, withdraw)
        if isinstance(done, ReportDone):
            self.members = list(planned.members)
        return done

    def resize_to(self, target, **how):
        """Gives the job a rank on each of these nodes."""
        now = set(self.nodes)
        return self.resize(sorted(now - set(target)), sorted(set(target) - now), **how)

    def random_target(self, most):
        """Returns another set of nodes than the present one."""
        while True:
            size = self.chance.randint(1, most)
            target = self.chance.sample(range(len(self.pages)), size)
            if sorted(target) != self.nodes:
                return target

    def finish(self):
        """Waits for the end of the program; returns its status and its output."""
        status = self.process.wait(CHANGE_S)
        return status, self.output.read_text()

    def close(self):
        """Kills what is left of the program."""
        if self.process is not None and self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()

    # --- the played agents ------------------------------------------------------------

    def _write_nodes(self, generation, spots):
        path = self.folder / f"nodes-{generation}"
        path.write_text(" ".join(str(spot.place) for spot in spots))

    def _agree(self, change, withdraw):
        """Plays until the change is over; returns the report."""
        queues = {}
        expected = Counter(member.spot.place for member in self.members)
        events = deque([Ordered(change)])
        deadline = time.monotonic() + CHANGE_S
        report = None
        while report is None or queues:
            while events:
                for command in self.agreement.handle(events.popleft()):
                    if isinstance(command, ReportDone | ReportRefused):
                        report = command
                    else:
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

    def _check_alive(self, deadline):
        status = self.process.poll()
        if status is not None or time.monotonic() > deadline:
            sys.stderr.write(self.output.read_text()[-4000:])
            slots = {
                n: [(s.state, s.step, s.acknowledged) for s in page.data.slots if s.state]
                for n, page in enumerate(self.pages)
            }
            raise AssertionError(f"status {status}, {self.agreement.stage}: {slots}")
