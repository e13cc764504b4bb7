"""Plays the controller of a malleable job whose agents, tasks and MPI are real."""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import time

import msgspec

from cosched.cluster.keys import load_keys
from cosched.cluster.links import Links
from cosched.cluster.messages import (
    Beat,
    Began,
    Chunk,
    End,
    EndNoted,
    Hello,
    HelloAgain,
    NodeEnded,
    Order,
    StartFailed,
    SubtreeEnded,
    SubtreePrepared,
    Welcome,
)
from cosched.cluster.size_messages import (
    Admit,
    Admitted,
    Arriving,
    ChangeEnded,
    Dismiss,
    JobSensed,
    Resize,
    WithdrawChange,
)
from cosched.core.cluster.startup.jobobject import JobObject, cut, encode_object
from cosched.core.cluster.startup.seal import Tied, seal
from cosched.core.names import CONTROLLER
from cosched.jobs.choices import configured_choices
from cosched.jobs.job import Job
from cosched.jobs.reporting import Reports
from cosched.jobs.serving import Surroundings, serve
from tests.domain.played import roster_of
from tests.places import ROOT
from tests.tools.resting import resting_library
from tests.tools.waiting import pauses

WITHIN_S = 60.0
CHUNK_BYTES = 1 << 16


class Refused(Exception):
    """The job has refused a change."""


class PlayedController:
    """The controller of a rig with one job, in one session. The job begins on the nodes
    ``hosts``, one rank on each.

    hosts: the names of all nodes that the job has or had, by place. places: those that it
    has now. ended: the ends of changes, as they came.
    """

    job, start = 7, 1

    def __init__(self, rig, hosts):
        self.rig = rig
        self.hosts = list(hosts)
        self.places = list(range(len(hosts)))
        self.generation = 0
        self.session = 1
        self.ended = []
        self.sensed = []
        self.over = asyncio.get_running_loop().create_future()
        self._begun = len(hosts)
        self._secrets = {}
        self._hellos = {}
        self._inbox = []
        self._came = asyncio.Condition()
        self._node_names = list(rig.config.nodes)
        keys = load_keys(rig.paths.keys, CONTROLLER, rig.config.members)
        self._roster = roster_of(rig)
        self._links = Links(keys, rig.config.addresses, print)

    @contextlib.asynccontextmanager
    async def play(self):
        """Listens until the block ends."""
        self._links.listen(self.rig.config.controller)
        receiving = asyncio.create_task(self._links.receive(self._take))
        try:
            yield self
        finally:
            receiving.cancel()
            self._links.close()

    def send(self, to, message):
        self._links.send(to, message)

    # --- what comes -----------------------------------------------------------------------

    def _take(self, sender, message):
        match message:
            case Beat():
                return
            case Hello():
                secret = self._secrets.setdefault(sender, secrets.token_bytes(32))
                self._hellos[sender] = message
                self.send(sender, Welcome(self.session, secret, message.incarnation))
                self.send(sender, self._roster)
            case JobSensed():
                self.sensed.append(message)
            case SubtreeEnded():
                self.send(sender, EndNoted(self.job, self.start))
                if not self.over.done():
                    self.over.set_result(message.failure)
        self._inbox.append((sender, message))

    async def until(self, check, problem):
        """Returns what ``check`` returns, once that is true."""
        deadline = time.monotonic() + WITHIN_S
        between = pauses()
        while not (found := check()):
            if time.monotonic() > deadline:
                raise AssertionError(f"{problem}\n{self._inbox[-20:]}\n{self.rig.logs()}")
            await asyncio.sleep(next(between))
        return found

    async def receive(self, kind, *senders, **fields):
        """Returns a message of this kind from each of these nodes, by node."""

        def found():
            came = {
                sender: message
                for sender, message in self._inbox
                if isinstance(message, kind)
                and all(getattr(message, name) == value for name, value in fields.items())
            }
            return came if set(senders) <= set(came) else None

        return await self.until(found, f"no {kind.__name__} {fields} from {senders}")

    async def hello_again(self, *nodes):
        """Begins another session, as a restarted controller does."""
        self.session += 1
        self._inbox = [each for each in self._inbox if not isinstance(each[1], Hello)]
        for node in nodes:
            self.send(node, HelloAgain())
        return await self.receive(Hello, *nodes)

    # --- the job --------------------------------------------------------------------------

    async def begin(self, python, *argv, go=True, **changed):
        """Starts the job: a program of a Python with mpi4py. changed: fields of its job
        object."""
        await self.receive(Hello, *self._node_names)
        euid, run_dir = os.geteuid(), self.rig.paths.run_dir
        words = (str(python), *map(str, argv))
        environ = {k: v for k, v in os.environ.items() if not k.startswith("COSCHED_")}
        path = f"{python.parent}:{environ['PATH']}"
        environ |= {"PATH": path, "PYTHONPATH": str(ROOT), **self.rig.mark}
        environ["LD_PRELOAD"] = str(resting_library())
        served = serve(
            Job(words, nodes=len(self.hosts), ppn=1),
            Surroundings(environ, run_dir, configured_choices(environ, euid), euid == 0),
            Reports(print, print),
        )
        self.object = JobObject(
            name=f"job{self.job}",
            uid=os.geteuid(),
            gid=os.getegid(),
            argv=tuple(served.argv),
            environ={**environ, **served.environ, "COSCHED_DOMAIN_JOB": str(self.job)},
            cwd=str(self.rig.work),
            umask=0o022,
            counts=(1,) * len(self.hosts),
            pmi=served.pmi,
            pmix_library=served.pmix_library,
            bind=False,
            input="/dev/null",
            output="out",
            error="",
            label=False,
            grace_s=1.0,
            malleable=True,
        )
        self.object = msgspec.structs.replace(self.object, **changed)
        nodes = self._numbers()
        tied = Tied(self.job, self.start, nodes, 2, "siblings")
        keys = [self._secrets[host] for host in self.hosts]
        sealed = seal(encode_object(self.object), tied, keys)
        first = Chunk(self.job, self.start, 0, nodes, 2, "siblings", 0, 1, nodes[0][0], b"")
        for chunk in first.with_parts(cut(sealed, CHUNK_BYTES)):
            self.send(self.root, chunk)
        if go:
            await self.receive(SubtreePrepared, self.root)
            self.send(self.root, Order(self.job, self.start, go=True))
            await self.receive(Began, self.root)

    @property
    def root(self):
        return self.hosts[0]

    def _numbers(self):
        numbers = [self._node_names.index(host) for host in self.hosts]
        return tuple((number, number) for number in numbers)

    async def admit(self, *arriving):
        """Admits all nodes of the job and these; returns the places of these."""
        self.generation += 1
        fresh = [len(self.hosts) + at for at in range(len(arriving))]
        self.hosts += arriving
        known = self._numbers(), (*self.places, *fresh)
        for place in {0, *self.places, *fresh}:
            data = encode_object(self.object) if place in fresh else b""
            admit = Admit(self.job, self.start, self.generation, place, *known, data)
            self.send(self.hosts[place], admit)
        members = {self.hosts[place] for place in {*self.places, *fresh}}
        came = await self.receive(Admitted, *members, generation=self.generation)
        problems = [came[host].problem for host in members if came[host].problem]
        if problems:
            raise Refused(problems[0])
        return fresh

    def order(self, leaving, fresh, ranks=1):
        """Orders a change of the generation that was admitted last."""
        left = tuple(place for place in self.places if self.hosts[place] in leaving)
        came = tuple(Arriving(place, ranks) for place in fresh)
        order = Resize(self.job, self.start, self.generation, left, came)
        self.send(self.root, order)
        return order

    async def resize(self, leaving=(), arriving=()):
        """Changes the nodes of the job; returns the end of the change. Raises Refused."""
        fresh = await self.admit(*arriving)
        self.order(leaving, fresh)
        return await self.settle(fresh)

    async def settle(self, fresh=()):
        """Waits for the end of the change; dismisses nodes that the job does not have."""
        came = await self.receive(ChangeEnded, self.root, generation=self.generation)
        end = came[self.root]
        self.ended.append(end)
        before, self.places = {*self.places, *fresh}, list(end.places)
        for place in before - set(self.places):
            self.send(self.hosts[place], Dismiss(self.job, self.start))
        if end.refused:
            raise Refused(end.refused)
        return end

    def withdraw(self):
        reason = "the queue wants it so"
        order = WithdrawChange(self.job, self.start, self.generation, reason)
        self.send(self.root, order)

    async def finish(self):
        """Waits for the end of the job; returns its failure, or None. Then no node has a
        part of it."""
        failure = await asyncio.wait_for(self.over, WITHIN_S)
        for host in set(self.hosts):
            self.send(host, Dismiss(self.job, self.start))
        return failure

    async def end_directly(self, *nodes):
        """Ends the job on each of these nodes, as when another one is lost."""
        for node in nodes:
            self.send(node, End(self.job, self.start, "node lost", direct=True))
        await self.receive(NodeEnded, *nodes)

    async def prepared_or_failed(self):
        return await self.receive((SubtreePrepared, StartFailed), self.root)
