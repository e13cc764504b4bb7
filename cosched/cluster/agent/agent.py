"""Runs the agent of one node: joins the domain and serves the node's users."""

from __future__ import annotations

import asyncio
import os
import secrets
import time
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import cast

from cosched.cluster.agent.known_nodes import KnownNodes
from cosched.cluster.agent.node_parts import read_parts
from cosched.cluster.agent.node_starts import NodeStarts
from cosched.cluster.agent.nodejob import Designs
from cosched.cluster.agent.own_daemons import OwnDaemons
from cosched.cluster.agent.passed_requests import UserRequests
from cosched.cluster.agent.preparing import SLOTS, Stewards
from cosched.cluster.agent.proofs import Proofs
from cosched.cluster.agent.sharing_reports import SharingReports, daemon_sockets
from cosched.cluster.agent.steps import StepNotes
from cosched.cluster.agent.stewards import Nursery
from cosched.cluster.keys import KeyRing, known_keys, load_keys
from cosched.cluster.links import Links
from cosched.cluster.member import SideTasks, run_member
from cosched.cluster.message_kinds import Message, OfJob
from cosched.cluster.messages import (
    PROTOCOL,
    AnyMessage,
    Beat,
    EndNoted,
    Hello,
    HelloAgain,
    InputTaken,
    Leave,
    Refused,
    Roster,
    UserReply,
    Welcome,
)
from cosched.cluster.paths import DomainPaths
from cosched.cluster.user_input import Inputs, Visitor
from cosched.cluster.user_socket import Person, UserSocket
from cosched.config.domain import DomainConfig, load_config
from cosched.core.complaints import Complaints
from cosched.core.counting import named
from cosched.core.decoding import printable
from cosched.core.errors import CoschedError
from cosched.core.names import CONTROLLER
from cosched.core.units import NS_PER_S
from cosched.linux.files.owners import refuse_open
from cosched.linux.memory import machine_memory
from cosched.linux.users import named_user
from cosched.rundir.paths import NodePaths

#: Messages about jobs that come before the controller's welcome.
_EARLY = 1000


class Agent:
    """The agent of the node ``name``. It is the ``NodeAgent`` of its starts.

    log: takes one line about what happened. steps: receives the steps of starts.
    """

    def __init__(
        self,
        name: str,
        config: DomainConfig,
        keys: KeyRing,
        paths: DomainPaths,
        log: Callable[[str], None],
        steps: StepNotes,
    ) -> None:
        self.name = name
        self._config = config
        self._digest = config.digest(name)
        self._paths = paths
        self._log = log
        self._complaints = Complaints(log, time.monotonic_ns)
        self.nodes = KnownNodes()
        self._public = {each: keys.public[each] for each in (CONTROLLER, name)}
        # Until the roster comes: a neighbour whose key is refused comes back late.
        known = {each: config.addresses[each] for each in keys.public}
        self._links = Links(keys, known, log, pause_ns=config.life.beat_ns)
        self._incarnation = secrets.randbits(48)
        self._session = 0  # of its membership; 0: it never joined
        cpus = os.sched_getaffinity(0)
        self.slots = config.slots or len(cpus)
        self._parts = read_parts(config.symbiosis.parts, cpus, self.slots)
        designs = Designs(
            config.startup.object,
            config.startup.chunk_bytes,
            config.life.prepare_ns / NS_PER_S,
        )
        self._starts = NodeStarts(self, designs, self._complaints, log, steps)
        self._requests = UserRequests(
            partial(self.send, CONTROLLER), partial(self._links.is_full, CONTROLLER)
        )
        self._inputs = Inputs(self.nodes.addresses, self.send)
        self._inputs.ready.clear()
        self.sharing = SharingReports(
            daemon_sockets(paths, name), partial(self.send, CONTROLLER), log
        )
        self.proofs = Proofs()
        self._early: deque[tuple[str, OfJob]] = deque(maxlen=_EARLY)  # before it joined
        self._tasks = SideTasks(self._end)
        self._over: asyncio.Future[None] | None = None

    async def run(self, ready: Callable[[], None]) -> None:
        """Runs until the domain ends or it is cancelled. ready: called when it listens.

        Raises CoschedError if it cannot listen, or if the controller refuses it.
        """
        self._paths.node(self.name).mkdir(mode=0o755, parents=True, exist_ok=True)
        self._over = asyncio.get_running_loop().create_future()
        nursery = Nursery()  # forks, so it comes before any thread
        nursery.watch(self._end)
        daemons = OwnDaemons(NodePaths(self._paths.run_dir, self.name), self._log)
        starting = asyncio.ensure_future(self._start_daemons(daemons))
        stewards = Stewards(
            self.name,
            self._paths,
            self.slots,
            nursery,
            self._tasks.start,
            self._log,
            self._parts,
        )
        self._starts.use(stewards)
        users = UserSocket(
            self._paths.agent_socket(self.name), self._receive_user, self._log
        )
        try:
            self._links.listen(self._config.nodes[self.name])
            await users.open()
            self._tasks.start(self._links.receive(self._take))
            self._tasks.start(self._beat())
            self._tasks.start(self.sharing.run())
            await starting
            ready()
            await self._over
        finally:
            starting.cancel()
            daemons.close()
            self._requests.close()
            await users.close()
            self._tasks.cancel()
            stewards.close()
            self._links.close()
            nursery.close()

    async def _start_daemons(self, daemons: OwnDaemons) -> None:
        if self._config.own_daemons:
            await daemons.start()

    def _end(self, error: BaseException | None = None) -> None:
        """Ends the agent, well or by an error."""
        if self._over is None or self._over.done():
            return
        if error is None:
            self._over.set_result(None)
        else:
            self._over.set_exception(error)

    async def _beat(self) -> None:
        life, asked = self._config.life, 0
        while True:
            answer = self._links.take_answer(CONTROLLER)
            if isinstance(answer, Refused):  # its node was removed
                self._take_from_controller(answer)
            if self._session:
                self.send(CONTROLLER, Beat(self._session))
            else:
                self._join()
                asked += 1
                if asked == life.lost_after_ns // life.beat_ns:
                    self._log(
                        f"no answer from the controller at {self._config.controller}: is "
                        "it up, and do both have each other's public key?"
                    )
            await asyncio.sleep(life.beat_ns / NS_PER_S)

    def _join(self) -> None:
        hello = Hello(
            PROTOCOL,
            self._incarnation,
            self._digest,
            {SLOTS: self.slots},
            self._starts.reports(),
            self._parts.least_slots,
            machine_memory().total_bytes,
        )
        self.send(CONTROLLER, hello)

    # --- messages -------------------------------------------------------------------------

    def _take(self, sender: str, message: AnyMessage) -> None:
        """Handles a message. Raises CoschedError for one that the sender may not send."""
        if sender == CONTROLLER and self._take_from_controller(message):
            return
        if isinstance(message, InputTaken):
            self._inputs.take(sender, message)
        elif isinstance(message, OfJob):
            self._take_of_job(sender, message)
        else:
            raise CoschedError(f"{sender} may not send {type(message).__name__}")

    def _take_from_controller(self, message: AnyMessage) -> bool:
        match message:
            case Welcome():
                self._welcome(message)
            case HelloAgain():
                self._join()
            case Roster():
                self._take_roster(message)
            case Refused():
                if message.incarnation in (0, self._incarnation):
                    reason = f"the controller refused it: {message.reason}"
                    self._end(CoschedError(reason))
            case Leave():
                self._log(printable(message.why))
                self._starts.when_pages_removed(self._end)
            case UserReply():
                self._requests.take(message)
            case EndNoted():
                self._starts.end_noted(message)
            case _:
                return False
        return True

    def _welcome(self, message: Welcome) -> None:
        if message.incarnation != self._incarnation:
            return  # the controller sent it to a former life of this agent
        self.proofs.renew(message.secret)
        if message.session == self._session:
            return
        self._session = message.session
        self._log(f"joined the domain {self._config.name}")
        if self._parts.why:
            self._log(self._parts.text)
        self._starts.report_again()
        self._requests.send_again()
        self.sharing.report_again()
        while self._early:
            self._take_apart(*self._early.popleft())

    def _take_roster(self, roster: Roster) -> None:
        """Has other nodes from now on, and takes the messages that waited for them."""
        waited = self.nodes.take(roster)
        self._config = replace(self._config, nodes=dict(self.nodes.addresses))
        public = {node.name: node.key for node in roster.nodes}
        self._links.meet(self._config.addresses, {**public, **self._public})
        self._inputs.ready.set()
        for sender, message in waited:
            self._take_apart(sender, message)

    def _take_of_job(self, sender: str, message: OfJob) -> None:
        if self.proofs.joined:
            self._starts.take(sender, message)
        else:
            self._early.append((sender, message))

    # --- what starts need -----------------------------------------------------------------

    def send(self, to: str, message: Message) -> None:
        if to == self.name:
            asyncio.get_running_loop().call_soon(self._take_apart, to, message)
        else:
            self._links.send(to, message)

    def may_vouch(self, member: str, uid: int, gid: int) -> bool:
        return self._config.may_vouch(member, uid, gid)

    def _take_apart(self, sender: str, message: Message) -> None:
        """Handles a message that comes over no link. If that fails it is dropped."""
        kind = f"its {type(message).__name__} is dropped"
        self._complaints.attempt(
            sender, kind, lambda: self._take(sender, cast(AnyMessage, message))
        )

    def report_starts(self) -> None:
        self._join()

    # --- users ----------------------------------------------------------------------------

    def _receive_user(self, person: Person) -> Visitor:
        return Visitor(person, self._inputs, self._requests.ask)


def serve(run_dir: Path, node: str, notes: StepNotes, slots: int = 0) -> None:
    """Serves until a signal ends it. Raises CoschedError if it cannot.

    notes: takes the steps of starts. slots: tasks of a job that this node takes if
    domain.toml leaves that open; 0: one for each CPU.
    """
    paths = DomainPaths(run_dir)
    refuse_open(paths.directory, paths.config, paths.keys)
    config = load_config(paths.config)
    config = replace(config, slots=config.slots or slots)
    if node not in config.nodes:
        raise CoschedError(
            f"{paths.config}: node '{node}' is none of {named(config.node_names, 'node')}; "
            f"name one with --node, or add it: cosched cluster add {node}=HOST:PORT"
        )
    keys = load_keys(paths.keys, node, (CONTROLLER, *known_keys(paths.keys, config.nodes)))
    try:
        paths.node(node).mkdir(mode=0o755, parents=True, exist_ok=True)
    except OSError as error:
        owner = named_user(paths.run_dir.stat().st_uid)
        raise CoschedError(
            f"{paths.node(node)}: cannot be made: {error.strerror}; start the agent as "
            f"{owner}, the owner of {paths.run_dir}"
        ) from None
    run_member(
        lambda ready, log: Agent(node, config, keys, paths, log, notes).run(ready),
        paths.agent_lock(node),
        f"node {node}: another agent is up",
    )
