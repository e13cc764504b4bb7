"""A whole domain in virtual time: the real controller and agents, and users."""

import asyncio
import base64
import contextlib
import json
import os
import types

import pytest
import zmq

from cosched.cluster.agent import agent as agents
from cosched.cluster.agent.steps import NoStepNotes
from cosched.cluster.controller import controller as controllers
from cosched.cluster.engines.native import engine as engines
from cosched.cluster.keys import KeyRing
from cosched.cluster.paths import DomainPaths
from cosched.cluster.store import JobStore
from cosched.cluster.user_socket import Person
from cosched.config.domain import DomainConfig, LifeSettings
from cosched.config.queue import QueueSettings
from cosched.core.names import CONTROLLER
from cosched.core.units import NS_PER_S
from tests.unit.cluster.cuts import stewards
from tests.unit.cluster.cuts.virtual import Network, VirtualLinks

NODES = ("n1", "n2", "n3")
BEAT_S, LOST_S, PREPARE_S = 0.2, 1.0, 5.0
QUIET_WITHIN_S = 100.0


class Gone(Exception):
    """The member of a connection has ended."""


class UserSocketDouble:
    """Stands for a member's socket for users."""

    open_sockets = {}  # noqa: RUF012  (the test clears it)

    def __init__(self, path, receive, log):
        self._path, self.receive = path, receive
        self.gone = asyncio.get_running_loop().create_future()

    async def open(self):
        self.open_sockets[self._path] = self

    async def close(self):
        if self.open_sockets.get(self._path) is self:
            del self.open_sockets[self._path]
        if not self.gone.done():
            self.gone.set_result(None)


def make_keys(members):
    pairs = {name: zmq.curve_keypair() for name in members}
    public = {name: pair[0] for name, pair in pairs.items()}
    return {name: KeyRing(name, pair[1], public) for name, pair in pairs.items()}


class Domain:
    """Members that run in this process; each can be killed and started again."""

    def __init__(self, folder, keys, network, ran):
        self.network, self.ran = network, ran
        addresses = {name: f"127.0.0.1:{at}" for at, name in enumerate(NODES, 2)}
        self.config = DomainConfig(
            "test",
            "127.0.0.1:1",
            addresses,
            4,
            queue=QueueSettings(grace_ns=NS_PER_S),
            life=LifeSettings(
                *(round(each * NS_PER_S) for each in (BEAT_S, LOST_S, PREPARE_S))
            ),
        )
        self._keys = keys
        self.paths = DomainPaths(folder)
        self.paths.directory.mkdir(parents=True, exist_ok=True)
        self.store = JobStore(self.paths.store, self.config.node_names)
        self.log = []
        self.members = {}
        self._runs = {}

    def start(self, name):
        def log(line):
            self.log.append(f"{name}: {line}")

        if name == CONTROLLER:
            member = engines.NativeEngine(
                self.config, self._keys[name], self.paths, self.store, log
            )
            run = controllers.Controller(member, self.paths, log).run
        else:
            steps = NoStepNotes()
            member = agents.Agent(
                name, self.config, self._keys[name], self.paths, log, steps
            )
            run = member.run
        self.members[name] = member
        self._runs[name] = asyncio.create_task(run(lambda: None))

    async def kill(self, name):
        """Kills a member: nothing that it sends later arrives."""
        self.network.unplug(name)
        run = self._runs.pop(name)
        run.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await run

    async def restart(self, name):
        await self.kill(name)
        self.start(name)

    @property
    def engine(self):
        """The engine of the controller."""
        return self.members[CONTROLLER]

    def problems(self):
        """Returns what is left; empty once the domain is at rest."""
        found = []
        for name, run in self._runs.items():
            if run.done():
                found.append(f"{name} has ended: {run.exception()!r}")
            for peer, each in self.members[name]._links._peers.items():
                if not each.delivery.is_confirmed:
                    found.append(f"{name} has messages for {peer}")
        for name in NODES:
            agent = self.members[name]
            starts = agent._starts
            for what in (starts._jobs, starts._broken, agent._early):
                if what:
                    found.append(f"{name} has {what}")
            if agent._requests._waiting or agent._inputs._open:
                found.append(f"{name} has requests")
            if starts._stewards is None or starts._stewards.running:
                found.append(f"{name} has stewards")
        return found + self._problems_of_controller()

    def _problems_of_controller(self):
        engine, found = self.engine, []
        jobs = engine._jobs
        if engine._recovery is not None or jobs.driver.frozen:
            found.append("the controller recovers")
        if not engine._answering.empty:
            found.append("the controller has requests")
        if jobs.starts.active or jobs.records.live or jobs.strays._of_node:
            found.append("the controller has starts or jobs")
        if jobs.records._waits:
            found.append("the controller has waits")
        down = [each.name for each in engine._members.by_number if not each.answers]
        return [*found, *(f"{name} is not up" for name in down)]

    async def until_at_rest(self):
        deadline = asyncio.get_running_loop().time() + QUIET_WITHIN_S
        while problems := self.problems():
            assert asyncio.get_running_loop().time() < deadline, (problems, self.log)
            await asyncio.sleep(BEAT_S)

    async def until_ended(self):
        """Waits until all members have ended by themselves."""
        await asyncio.wait_for(asyncio.gather(*self._runs.values()), QUIET_WITHIN_S)
        self._runs.clear()

    async def end(self):
        for name in list(self._runs):
            await self.kill(name)
        self.store.close()


class User:
    """A user at a member's desk. It asks again if the member ends."""

    def __init__(self, domain, member):
        self._path = domain.paths.agent_socket(member)
        self._caller = self._desk = None

    async def ask(self, what, **more):
        """Returns the answer to a request. Raises Gone if the member ends before it."""
        if self._caller is None:
            while self._path not in UserSocketDouble.open_sockets:
                await asyncio.sleep(0.05)
            self._desk = UserSocketDouble.open_sockets[self._path]
            self._caller = self._desk.receive(Person(os.geteuid(), os.getegid()))
        body = json.dumps({"do": what, **more}).encode()
        answer = asyncio.ensure_future(self._caller.answer(body))
        await asyncio.wait({answer, self._desk.gone}, return_when=asyncio.FIRST_COMPLETED)
        if not answer.done():
            answer.cancel()
            self.leave()
            raise Gone
        return json.loads(await answer)

    async def insist(self, what, **more):
        """Returns the answer to a request that may be sent again."""
        while True:
            with contextlib.suppress(Gone):
                return await self.ask(what, **more)

    async def give_input(self, number):
        """Gives a job two pieces of input and its end; returns what was answered last."""
        job = (await self.insist("wait", job=number, until="running"))["ok"]
        answer = {"ok": {"open": job["state"] == "running"}}
        for at, last in ((0, False), (5, False), (10, True)):
            if not answer["ok"]["open"]:
                break
            answer = await self.insist(
                "input",
                job=number,
                start=job["starts"],
                node=job["hosts"][0],
                at=at,
                data="" if last else base64.b64encode(b"12345").decode(),
                last=last,
            )
        return answer

    def leave(self):
        if self._caller is not None:
            self._caller.leave()
            self._caller = None


@pytest.fixture(scope="session")
def keys():
    return make_keys([CONTROLLER, *NODES])


@contextlib.contextmanager
def plays(monkeypatch, loop):
    """Lets members use the network and the desks of the test; yields the network and what
    the tasks do."""
    network, ran = Network(loop), stewards.Ran()
    links = types.new_class("Links", (VirtualLinks,))
    links.network = network
    made = types.new_class("Stewards", (stewards.Stewards,))
    made.ran = ran
    for module in (agents, engines):
        monkeypatch.setattr(module, "Links", links)
    for module in (agents, controllers):
        monkeypatch.setattr(module, "UserSocket", UserSocketDouble)
    monkeypatch.setattr(agents, "Nursery", stewards.Nursery)
    monkeypatch.setattr(agents, "Stewards", made)
    UserSocketDouble.open_sockets.clear()
    yield network, ran
