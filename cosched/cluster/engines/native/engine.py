"""Runs the jobs of a domain by its own queue, on the nodes whose agents have joined."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial

from msgspec import structs

from cosched.cluster.answers import ReloadInfo, reload_info
from cosched.cluster.coupling.domain_figures import Figures
from cosched.cluster.coupling.pairs import open_pairs
from cosched.cluster.engines.interface import Answer
from cosched.cluster.engines.native.answering import Answering
from cosched.cluster.engines.native.changes import check_open_changes
from cosched.cluster.engines.native.figures import figures_of
from cosched.cluster.engines.native.job_requests import JobRequests
from cosched.cluster.engines.native.jobs import Jobs
from cosched.cluster.engines.native.membership import Membership
from cosched.cluster.engines.native.node_entries import NodeEntries, NodeEntry, NodeState
from cosched.cluster.engines.native.node_requests import NodeRequests
from cosched.cluster.engines.native.numbers import open_numbering
from cosched.cluster.engines.native.recovery import Recovery
from cosched.cluster.engines.native.submitting import Submitting
from cosched.cluster.inputs import Inputs
from cosched.cluster.keys import KeyRing, load_keys
from cosched.cluster.links import Links
from cosched.cluster.member import SideTasks
from cosched.cluster.message_kinds import Message, OfJob
from cosched.cluster.messages import (
    AnyMessage,
    Beat,
    Hello,
    HelloAgain,
    InputTaken,
    Leave,
    Refused,
    UserLeft,
    UserRequest,
    Welcome,
)
from cosched.cluster.paths import DomainPaths
from cosched.cluster.store import JobStore
from cosched.cluster.user_socket import Person
from cosched.config.domain import DomainConfig, load_config
from cosched.config.restarts import CONTROLLER_ALONE, MEMBERS, readers_of_keys
from cosched.core.cluster.numbering import Numbering
from cosched.core.complaints import Complaints
from cosched.core.config.tables import reload
from cosched.core.errors import CoschedError, must_succeed
from cosched.core.names import CONTROLLER
from cosched.core.units import NS_PER_S

#: How long users may ask for the end of jobs whose nodes have gone for good.
ANSWERS_WITHIN_S = 2.0
#: Shared by the controller and one life of an agent, to prove job objects.
SECRET_BYTES = 32
#: The time between two looks for jobs that ended so long ago that they are forgotten.
FORGET_NS = 3600 * NS_PER_S


class NativeEngine:
    """Our own queue and agents (``Engine``). log: takes one line about what happened.
    idle_s: a private domain ends after this time without a job; None: it does not.
    ending: no job starts, because the domain is about to end."""

    unknown = "not a request of this version"

    def __init__(
        self,
        config: DomainConfig,
        keys: KeyRing,
        paths: DomainPaths,
        store: JobStore,
        log: Callable[[str], None],
        idle_s: float | None = None,
        *,
        ending: bool = False,
    ) -> None:
        self._stored = store.live()
        check_open_changes(self._stored, config.queue.size)
        wanted = config.nodes
        numbering = open_numbering(paths, wanted, self._stored)
        config, keys = _with_leaving(config, keys, paths, numbering)
        self._config = config
        self._log = log
        self._complaints = Complaints(log, time.monotonic_ns)
        self._store = store
        pause_ns = config.life.beat_ns
        self._links = Links(keys, config.addresses, log, pause_ns=pause_ns)
        self._members = NodeEntries(config, numbering)
        for name in self._members.restore(store.agents(), store.drains()):
            store.forget_drain(name)
        coupled = config.coupled
        self.pairs = None if coupled is None else open_pairs(coupled, paths, log)
        self._jobs = Jobs(config, store, self._members, self._send, log, self.pairs)
        self.driver = self._jobs.driver
        self._submitting = Submitting(self._jobs)
        self._requests = JobRequests(
            config, self._jobs, self._submitting, store, self._members, self.end_domain
        )
        self._membership = self._make_membership(paths, keys, wanted)
        of_nodes = self._make_node_requests(paths, private=idle_s is not None)
        self.handlers = {**self._requests.handlers, **of_nodes.handlers}
        self.may_vouch: Callable[[Person], bool] = self._requests.may_vouch
        of_coupling = None if coupled is None else coupled.metrics
        self.metrics: str | None = of_coupling or config.metrics.listen
        self.inputs = Inputs(self._members.by_name, self._send)
        self._recovery: Recovery | None = None
        self._early: list[tuple[str, OfJob]] = []  # messages that came during the recovery
        self._tasks = SideTasks(self._fail)
        self._answer: Answer | None = None
        self._answering = Answering(self._answer_agent, self._send, self._tasks.start)
        self._ended: asyncio.Future[None] | None = None
        self._idle_s = idle_s
        self._ending = ending
        self._busy_at = time.monotonic()
        self._forget_at_ns = 0

    def _make_membership(
        self, paths: DomainPaths, keys: KeyRing, wanted: Mapping[str, str]
    ) -> Membership:
        """Makes the membership of nodes. wanted: those of domain.toml; others leave."""
        membership = Membership(
            paths,
            keys,
            self._members,
            self._links,
            self._jobs,
            self._use_nodes,
            self._forget_node,
            self._log,
        )
        membership.mark_leaving(wanted)
        membership.meet()
        return membership

    def _make_node_requests(self, paths: DomainPaths, *, private: bool) -> NodeRequests:
        return NodeRequests(
            paths,
            self._members,
            self._jobs,
            self._membership,
            self.reload,
            private=private,
        )

    def open(self, answer: Answer) -> None:
        """Starts to listen, and takes the jobs that are stored; see ``Engine``."""
        self._answer = answer
        self._ended = asyncio.get_running_loop().create_future()
        self._links.listen(self._config.controller)
        live, self._stored = self._stored, []
        self._recovery = Recovery(self._jobs, self._members, self._send, live)

    async def run(self) -> None:
        """Runs until the domain ends; see ``Engine``."""
        assert self._ended is not None
        for work in (self._links.receive(self._take), self._watch()):
            self._tasks.start(work)
        try:
            await self._ended
            await self._settle()
        finally:
            self._tasks.cancel()

    def close(self) -> None:
        """Closes the connections to the agents."""
        self.driver.close()
        self._links.close()

    def reload(self, paths: DomainPaths) -> ReloadInfo:
        """Reads domain.toml again; see ``Engine``."""
        wanted = load_config(paths.config)
        keys = load_keys(paths.keys, CONTROLLER, wanted.members)
        membership, staying = self._membership, wanted.nodes
        numbering = membership.planned(staying)
        wanted = replace(wanted, nodes=numbering.addresses)
        change = reload(self._config, wanted, CONTROLLER_ALONE)
        if membership.loses_some(staying) and "nodes" not in change.changed:
            change = structs.replace(change, changed=("nodes", *change.changed))
        owners = membership.owners_of_other_keys(keys)
        if owners:
            readers = MEMBERS if CONTROLLER in owners else readers_of_keys(owners)
            change = structs.replace(change, restart={**change.restart, "keys": readers})
        membership.follow(numbering, keys, staying)
        self._use(change.config)
        self._jobs.configure(change.config)
        coupled = change.config.coupled
        if self.pairs is not None and coupled is not None:
            self.pairs.configure(coupled)
        return reload_info(change)

    def _use(self, config: DomainConfig) -> None:
        self._config = config
        self._members.configure(config)
        self._requests.configure(config)

    def _use_nodes(self, nodes: Mapping[str, str]) -> None:
        self._use(replace(self._config, nodes=nodes))

    def _forget_node(self, name: str) -> None:
        self._answering.forget(name)
        self._store.forget_drain(name)

    def figures(self) -> Figures:
        """Returns the present figures for Prometheus."""
        return figures_of(self._config.queue.size, self._jobs, self._store)

    async def _answer_agent(self, person: Person, body: bytes) -> bytes:
        """Returns the answer to a request that an agent has passed on."""
        assert self._answer is not None
        return await self._answer(person, body)

    def _fail(self, error: BaseException) -> None:
        if self._ended is not None and not self._ended.done():
            self._ended.set_exception(error)

    def end_domain(self) -> None:
        """Ends all agents, and then the controller. Waiting jobs stay in the store. A job
        that comes now is not taken: it would wait in a domain that is down."""
        self._jobs.ends = True
        for member in self._members.by_number:
            if member.answers:
                self._send(member.name, Leave())
        if self._ended is not None and not self._ended.done():
            self._ended.set_result(None)

    async def _settle(self) -> None:
        """Waits until the agents have the last messages, at most as long as a silent node
        takes to be lost."""
        there = [member.name for member in self._members.by_number if member.answers]
        await self._links.settle(there, self._config.life.lost_after_ns / NS_PER_S)

    async def end_without_nodes(self, reason: str) -> None:
        """Ends the domain because its nodes have gone: their jobs are lost, and the others
        cannot start. Users who wait for a job still get its end. Does nothing if the domain
        has ended already."""
        if self._ended is None or self._ended.done():
            return
        self._jobs.ends = True
        answers_s = ANSWERS_WITHIN_S if self._jobs.records.live else 0.0
        for member in self._members.by_number:
            if member.answers:
                self._lose(member, reason)
        for number in list(self._jobs.records.live):
            self._submitting.cancel(number)
        await asyncio.sleep(answers_s)
        self.end_domain()

    def _send(self, to: str, message: Message) -> None:
        self._links.send(to, message)

    # --- messages -------------------------------------------------------------------------

    def _take(self, sender: str, message: AnyMessage) -> None:
        """Handles a message. Raises CoschedError for one that the sender may not send."""
        member = self._members.by_name.get(sender)
        if member is None:
            raise CoschedError(f"{sender} is not a node of this domain")
        member.received_ns = time.monotonic_ns()
        match message:
            case Hello():
                self._join(member, message)
            case Beat():
                if message.session != member.session or not member.answers:
                    self._send(sender, HelloAgain())
            case UserRequest():
                self._answering.take(sender, message)
            case UserLeft():
                self._answering.withdraw(sender, message.number)
            case InputTaken():
                self.inputs.take(sender, message)
            case OfJob():
                if self._recovery is not None:
                    self._early.append((sender, message))
                elif member.answers:
                    self._jobs.take(sender, message)
            case _:
                raise CoschedError(f"{sender} may not send {type(message).__name__}")

    # --- nodes ----------------------------------------------------------------------------

    def _join(self, member: NodeEntry, hello: Hello) -> None:
        problem = self._members.problem(member.name, hello)
        if problem is not None:
            self._complaints.about(member.name, "is refused", problem)
            member.refused = f"refused: {problem}"
            self._send(member.name, Refused(problem, hello.incarnation))
            return
        with must_succeed(f"the join of node {member.name}"):
            self._take_in(member, hello)

    def _take_in(self, member: NodeEntry, hello: Hello) -> None:
        """Admits the agent of a node."""
        recovering = self._recovery is not None
        restarted = member.agent != hello.incarnation
        if restarted:
            if recovering:
                member.restarted = True
            elif member.answers:
                self._lose(member, "its agent has restarted")
            self._store.save_agent(member.name, hello.incarnation)
            self._answering.forget(member.name)  # the former agent's
        if restarted or not member.secret:
            member.secret = secrets.token_bytes(SECRET_BYTES)
        new = not member.answers
        if new:
            member.session = secrets.randbits(48) | 1
        member.join(hello)
        if new or restarted:  # an agent that asks again has it, or gets it
            self._send(member.name, self._membership.roster)
        welcome = Welcome(member.session, member.secret, hello.incarnation)
        self._send(member.name, welcome)
        if not recovering:
            self._jobs.end_strays(member)
        if new:
            self._log(f"node {member.name} joined with {member.slots} slots")
            if not member.drained:
                self._jobs.node_joined(member)
        if self._recovery is not None and not self._recovery.awaited:
            self._recover()

    def _lose(self, member: NodeEntry, reason: str) -> None:
        self._log(f"node {member.name} is lost: {reason}")
        with must_succeed(f"the loss of node {member.name}"):
            member.state = NodeState.LOST
            member.reason = reason
            if not self._links.give_up(member.name):
                self._answering.forget(member.name)  # its agent asks again
            self._jobs.node_lost(member)

    def _note_refused(self) -> None:
        """Shows users which connections the links have refused."""
        for name in self._links.take_unreadable():
            self._members.note_unreadable(name)
        for address in self._links.take_strange():
            self._complaints.about(address, "an unknown key came from there")
            self._members.note_unknown_key(address)

    async def _watch(self) -> None:
        """Handles silent nodes as lost, and ends the recovery when its time is over."""
        over_ns = time.monotonic_ns() + self._config.life.lost_after_ns
        if self._recovery is not None and not self._recovery.awaited:
            self._recover()
        while True:
            began_ns = time.monotonic_ns()
            await asyncio.sleep(self._config.life.beat_ns / NS_PER_S)
            now_ns = time.monotonic_ns()
            if now_ns - began_ns >= self._config.life.lost_after_ns:
                # This process stood still, as on a full disk; beats wait to be read.
                self._members.excuse(now_ns)
            if self._recovery is not None and now_ns >= over_ns:
                self._recover()
            for member in self._members.silent(now_ns):
                self._lose(member, "it does not answer")
            for member in self._members.by_number:
                if member.answers and self._links.is_full(member.name):
                    self._lose(member, "it does not confirm what it gets")
            self._note_refused()
            if self._recovery is None:
                self._membership.go_on(now_ns, self._config.life.lost_after_ns)
                self._forget_ended(now_ns)
            self._check_idle()

    def _forget_ended(self, now_ns: int) -> None:
        """Removes jobs that ended long ago, now and then."""
        keep_ns = self._config.life.keep_ended_ns
        if keep_ns is None or now_ns < self._forget_at_ns:
            return
        with must_succeed("forgetting jobs that have ended"):
            before_ns = self._jobs.clock.now_ns() - keep_ns
            removed = self._jobs.records.forget_ended(before_ns)
        if not removed:  # otherwise others may follow
            self._forget_at_ns = now_ns + FORGET_NS

    def _check_idle(self) -> None:
        now = time.monotonic()
        if self._jobs.records.live:
            self._busy_at = now
        elif self._idle_s is not None and now >= self._busy_at + self._idle_s:
            self._log(f"no job for {self._idle_s:g} s")
            self.end_domain()

    def _recover(self) -> None:
        assert self._recovery is not None
        recovery, self._recovery = self._recovery, None
        recovery.resolve()
        if self._ending:
            self.driver.freeze()
        early, self._early = self._early, []
        for sender, message in early:
            kind = f"its {type(message).__name__} is dropped"
            take = partial(self._jobs.take, sender, message)
            self._complaints.attempt(sender, kind, take)


def _with_leaving(
    config: DomainConfig, keys: KeyRing, paths: DomainPaths, numbering: Numbering
) -> tuple[DomainConfig, KeyRing]:
    """Returns the settings and keys with the nodes that still leave the domain."""
    numbered = replace(config, nodes=numbering.addresses)
    if numbered.nodes.keys() != config.nodes.keys():
        keys = load_keys(paths.keys, CONTROLLER, numbered.members)
    return numbered, keys
