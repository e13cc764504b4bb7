"""Coupled domains in one process that talk over real sockets; their engine is a double.

An ``EngineDouble`` is a batch system: it outlives the controller of its domain, as Slurm
does. A ``LiveDomain`` is that controller, with its store, keys and connections.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from cosched.cluster.coupling.clock import DomainClock
from cosched.cluster.coupling.mail import LONGEST, DomainMail
from cosched.cluster.coupling.mates import parse_mates
from cosched.cluster.coupling.pairs import Pairs
from cosched.cluster.coupling.snapshot_store import SnapshotStore
from cosched.cluster.engines.slurm.engine import SlurmEngine
from cosched.cluster.engines.slurm.events import (
    Capacity,
    Ended,
    GaveBack,
    NotReady,
    PairedJob,
    Reached,
    Ready,
    Started,
    StartFailed,
    Submitted,
    Tried,
)
from cosched.cluster.keys import load_keys, make_keys
from cosched.cluster.links import Links
from cosched.config.slurm import SlurmDomain, coupled_config
from cosched.core.config.tables import read
from tests.tools.ports import free_address


def parse_coupled(document):
    """Returns the configuration of a parsed domain.toml."""
    return coupled_config(read(SlurmDomain, document))


def free_addresses(names):
    """Returns an address of this machine for each name."""
    return {name: free_address() for name in names}


@dataclass
class Job:
    """A job as the engine has it."""

    paired: PairedJob
    run_s: float
    state: str = "waiting"
    rests: bool = False
    began: list[float] = field(default_factory=list)


class EngineDouble:
    """A queue of ``nodes`` nodes that starts jobs in their order. refused: job and reason.

    fails_next: so many starts fail.
    """

    def __init__(self, name, nodes, others):
        self.name = name
        self.nodes = nodes
        self.others = others
        self.report = lambda event: None
        self.jobs: dict[int, Job] = {}
        self.refused: dict[int, str] = {}
        self.others_have = 0  # nodes of jobs without mates
        self.fails_next = 0

    @property
    def free(self):
        busy = (j for j in self.jobs.values() if j.state in ("ready", "running"))
        return self.nodes - self.others_have - sum(job.paired.nodes for job in busy)

    def submit(self, number, text, size=1, run_s=0.2, user="anna"):
        mates = parse_mates(text, self.name, self.others)
        paired = PairedJob(number, 1000, user, mates, size, None, time.time_ns())
        self.jobs[number] = Job(paired, run_s)
        self.report(Submitted(paired))
        self.offer()

    def attach(self, report: Callable):
        """Reports everything to a controller that begins."""
        self.report = report
        report(Capacity(self.nodes))
        for number, job in self.jobs.items():
            if job.state == "over":
                continue
            report(Submitted(job.paired))
            if job.state == "ready":
                report(Ready(number, f"n{number}"))
            elif job.state == "running":
                report(Started(number, 0))
        report(Reached(True))
        self.offer()

    def detach(self):
        self.report = lambda event: None

    def offer(self):
        free = self.free
        for number, job in self.jobs.items():
            if job.state == "waiting" and not job.rests and job.paired.nodes <= free:
                self._make_ready(number, job)
                free = self.free

    def _make_ready(self, number, job):
        job.state, job.rests = "ready", False
        self.report(Ready(number, f"n{number}"))

    def lose(self, number):
        """Puts a ready job back into the queue, as an administrator would."""
        job = self.jobs[number]
        if job.state == "ready":
            job.state = "waiting"
            self.report(NotReady(number, "requeued"))
            asyncio.get_running_loop().call_soon(self.offer)

    def occupy(self, nodes, for_s):
        """Runs a job without mates, if there is room."""
        if nodes <= self.free:
            self.others_have += nodes
            asyncio.get_running_loop().call_later(for_s, self._vacate, nodes)

    def _vacate(self, nodes):
        self.others_have -= nodes
        self.offer()

    # --- orders ---------------------------------------------------------------------------

    def go(self, number, mates=()):
        job = self.jobs.get(number)
        if job is None or job.state != "ready":
            return
        loop = asyncio.get_running_loop()
        if self.fails_next:
            self.fails_next -= 1
            job.state = "waiting"
            loop.call_soon(self.report, StartFailed(number, "a node did not answer"))
            loop.call_later(0.05, self.offer)
            return
        job.state = "running"
        job.began.append(time.monotonic())
        loop.call_soon(self.report, Started(number, 0))
        loop.call_later(job.run_s, self._end, number, job)

    def _end(self, number, job):
        job.state = "over"
        self.report(Ended(number, "COMPLETED"))
        self.offer()

    def give_back(self, number, wait_s):
        job = self.jobs.get(number)
        if job is not None and job.state == "ready":
            job.state = "waiting"
            job.rests = True
            loop = asyncio.get_running_loop()
            loop.call_soon(self.report, GaveBack(number))
            loop.call_soon(self.offer)
            loop.call_later(wait_s, self.wake, number)

    def try_now(self, number):
        asyncio.get_running_loop().call_soon(self._try, number)

    def _try(self, number):
        job = self.jobs[number]
        if job.state == "waiting" and job.paired.nodes <= self.free:
            self._make_ready(number, job)
        ready = job.state == "ready"
        self.report(Tried(number, ready, "", None if ready else 60.0))

    def wake(self, number):
        self.jobs[number].rests = False
        self.offer()

    def refuse(self, number, reason):
        self.refused[number] = reason

    def cancel(self, number, reason):
        raise AssertionError("nothing here cancels jobs")

    def set_priority(self, number, places):
        pass


class Doomed(SlurmEngine):
    """A controller that can die between two commands. Then nothing of it happens any more.

    left: the commands until it dies; None: it lives on. on_death: is called then.
    """

    dead = False
    left = None
    on_death = staticmethod(lambda: None)

    def report(self, event):
        if not self.dead:
            super().report(event)

    def _carry_out(self, command):
        if self.lives_on():
            super()._carry_out(command)

    def lives_on(self):
        """Counts a command; returns whether it is carried out."""
        if self.left == 0 and not self.dead:
            self.die()
        if self.left is not None and not self.dead:
            self.left -= 1
        return not self.dead

    def die(self):
        self.dead = True
        asyncio.get_running_loop().call_soon(self.on_death)


class MortalMemory(SnapshotStore):
    """The store of a controller that may be dead."""

    domain = None

    def save(self, snapshot):
        if self.domain is None or not self.domain.dead:
            super().save(snapshot)


class Orders:
    """The engine, as a controller that may be dead sees it."""

    def __init__(self, engine):
        self._engine = engine
        self.domain = None

    def __getattr__(self, name):
        order = getattr(self._engine, name)
        return lambda *words: None if self.domain.dead else order(*words)


class LiveDomain:
    """The controller of one domain. deliver: sends a message, perhaps with faults; the
    first argument sends it for sure."""

    def __init__(self, folder, name, addresses, engine, log, deliver=None, **coupling):
        others = [other for other in addresses if other != name]
        config = parse_coupled(
            {
                "name": name,
                "engine": "slurm",
                "coupling": {
                    "listen": addresses[name],
                    "domains": {other: addresses[other] for other in others},
                    "same_names": others,
                    **coupling,
                },
            }
        )
        make_keys(folder / "keys", [*addresses])
        keys = load_keys(folder / "keys", name, addresses)
        self.engine = engine
        self.links = Links(keys, addresses, log, LONGEST + 256)
        self.mail = DomainMail(self.links, log)
        self.memory = MortalMemory(folder / f"{name}.sqlite")
        self.pairs = Pairs(config, self.memory, self, DomainClock())
        orders = Orders(engine)
        self.domain = orders.domain = Doomed(config, orders, self.pairs, log)
        self.memory.domain = self.domain
        self._deliver = deliver or (lambda send, _to: send())
        self.links.listen(addresses[name])
        self._task = asyncio.ensure_future(self.mail.receive(self.domain.driver.receive))
        engine.attach(self.domain.report)

    def send(self, to, message):
        def send():
            if not self.domain.dead:
                self.mail.send(to, message)

        if self.domain.lives_on():
            self._deliver(send, to)

    def complain(self, peer, error):
        self.mail.complain(peer, error)

    @property
    def coupling(self):
        return self.pairs.coupling

    async def close(self):
        """Ends the controller at once; anything that it has not stored is lost."""
        self.domain.dead = True
        self.engine.detach()
        self.domain.driver.close()
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        self.links.close()
        self.memory.close()
