"""Runs the controller of a domain: its links, its nodes, its users and its clock."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Callable

from cosched.cluster.config import DomainConfig
from cosched.cluster.controller.jobs import Jobs
from cosched.cluster.controller.members import Member, Members, NodeState
from cosched.cluster.controller.recovery import Recovery
from cosched.cluster.controller.requests import Requests
from cosched.cluster.desk import Desk, Person
from cosched.cluster.keys import KeyRing
from cosched.cluster.links import Links
from cosched.cluster.messages import (
    AnyMessage,
    Beat,
    Hello,
    HelloAgain,
    Leave,
    Message,
    OfJob,
    Refused,
    UserReply,
    UserRequest,
    Welcome,
)
from cosched.cluster.paths import DomainPaths
from cosched.cluster.store import JobStore
from cosched.core.units import NS_PER_S


class Controller:
    """The controller. log: takes one line about what happened. idle_s: a private domain
    ends when it has had no job for so long; None: it does not."""

    def __init__(
        self,
        config: DomainConfig,
        keys: KeyRing,
        paths: DomainPaths,
        store: JobStore,
        log: Callable[[str], None],
        idle_s: float | None = None,
    ) -> None:
        self._config = config
        self._paths = paths
        self._log = log
        self._store = store
        self._links = Links(keys, config.addresses, log)
        self._incarnation = secrets.randbits(48) | 1
        self._members = Members(config)
        for name, incarnation in store.agents().items():
            if name in self._members.by_name:
                self._members.by_name[name].agent = incarnation
        self._jobs = Jobs(config, store, self._members, self._send, log)
        self._requests = Requests(config, self._jobs, store, self._members, self.end_domain)
        self._recovery: Recovery | None = None
        self._early: list[tuple[str, OfJob]] = []  # messages that came during the recovery
        self._tasks: set[asyncio.Task[None]] = set()
        self._failed: asyncio.Future[None] | None = None
        self._idle_s = idle_s
        self._busy_at = time.monotonic()

    async def run(self, ready: Callable[[], None]) -> None:
        """Runs until the domain ends or it is cancelled. ready: called when it listens.

        Raises CoschedError if it cannot listen, and whatever makes it unable to go on.
        """
        loop = asyncio.get_running_loop()
        self._failed = loop.create_future()
        loop.set_exception_handler(self._stop_on_error)
        desk = Desk(self._paths.controller_socket, self._requests.answer)
        try:
            self._links.listen(self._config.controller)
            await desk.open()
            self._recovery = Recovery(
                self._jobs, self._members, self._send, self._store.live()
            )
            for work in (self._links.receive(self._take), self._watch()):
                task = asyncio.create_task(work)
                self._tasks.add(task)
                task.add_done_callback(self._finished)
            ready()
            await self._failed
        finally:
            await desk.close()
            for task in self._tasks:
                task.cancel()
            self._links.close()

    def _finished(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None:
            self._fail(error)

    def _stop_on_error(
        self, _loop: asyncio.AbstractEventLoop, context: dict[str, object]
    ) -> None:
        """Ends the controller: it must not act on a state that it could not store."""
        error = context.get("exception")
        self._fail(
            error if isinstance(error, Exception) else RuntimeError(str(context["message"]))
        )

    def _fail(self, error: BaseException) -> None:
        if self._failed is not None and not self._failed.done():
            self._failed.set_exception(error)

    def end_domain(self) -> None:
        """Lets all agents end, and then the controller. Waiting jobs stay in the store."""
        for member in self._members.by_number:
            if member.answers:
                self._send(member.name, Leave())
        if self._failed is not None and not self._failed.done():
            self._failed.set_result(None)

    def _send(self, to: str, message: Message) -> None:
        self._links.send(to, message)

    # --- messages -------------------------------------------------------------------------

    def _take(self, sender: str, message: AnyMessage) -> None:
        member = self._members.by_name.get(sender)
        if member is None:
            self._log(f"{sender} is not a node of this domain")
            return
        member.received_ns = time.monotonic_ns()
        match message:
            case Hello():
                self._join(member, message)
            case Beat():
                if message.controller != self._incarnation or not member.answers:
                    self._send(sender, HelloAgain())
            case UserRequest():
                task = asyncio.create_task(self._answer(sender, message))
                self._tasks.add(task)
                task.add_done_callback(self._finished)
            case OfJob():
                if self._recovery is not None:
                    self._early.append((sender, message))
                elif member.answers:
                    self._jobs.take(sender, message)
            case _:
                self._log(f"{sender} may not send {type(message).__name__}")

    async def _answer(self, sender: str, request: UserRequest) -> None:
        person = Person(request.uid, request.gid)
        body = await self._requests.answer(person, request.body)
        self._send(sender, UserReply(request.number, body))

    # --- nodes ----------------------------------------------------------------------------

    def _join(self, member: Member, hello: Hello) -> None:
        problem = self._members.problem(hello)
        if problem is not None:
            self._log(f"{member.name} is refused: {problem}")
            self._send(member.name, Refused(problem))
            return
        recovering = self._recovery is not None
        if member.agent != hello.incarnation:
            if recovering:
                member.restarted = True
            elif member.answers:
                self._lose(member, "its agent has restarted")
            self._store.save_agent(member.name, hello.incarnation)
        new = not member.answers
        member.agent = hello.incarnation
        member.slots = (
            next(iter(hello.totals.values()), 0) // self._config.queue.jobs_per_node
        )
        member.starts = hello.starts
        member.state = NodeState.DRAINED if member.drained else NodeState.UP
        member.reason = member.reason if member.drained else ""
        beat_s = self._config.life.beat_ns / NS_PER_S
        self._send(member.name, Welcome(self._incarnation, beat_s))
        if not recovering:
            self._end_strays(member)
        if new:
            self._log(f"node {member.name} joined with {member.slots} slots")
            if not member.drained:
                self._jobs.node_joined(member)
        if self._recovery is not None and not self._recovery.awaited:
            self._recover()

    def _end_strays(self, member: Member) -> None:
        for report in member.starts:
            start = self._jobs.active.get(report.job)
            if start is None or start.record.start != report.start:
                self._jobs.end_stray(member.name, report.job, report.start)

    def _lose(self, member: Member, reason: str) -> None:
        self._log(f"node {member.name} is lost: {reason}")
        member.state = NodeState.LOST
        member.reason = reason
        self._links.forget(member.name)
        self._jobs.node_lost(member)

    async def _watch(self) -> None:
        """Notes the nodes that are silent, and ends the recovery when its time is over."""
        over_ns = time.monotonic_ns() + self._config.life.lost_after_ns
        if self._recovery is not None and not self._recovery.awaited:
            self._recover()
        while True:
            await asyncio.sleep(self._config.life.beat_ns / NS_PER_S)
            now_ns = time.monotonic_ns()
            if self._recovery is not None and now_ns >= over_ns:
                self._recover()
            for member in self._members.silent(now_ns):
                self._lose(member, "it does not answer")
            self._check_idle()

    def _check_idle(self) -> None:
        now = time.monotonic()
        if self._jobs.records:
            self._busy_at = now
        elif self._idle_s is not None and now >= self._busy_at + self._idle_s:
            self._log(f"no job for {self._idle_s:g} s")
            self.end_domain()

    def _recover(self) -> None:
        assert self._recovery is not None
        recovery, self._recovery = self._recovery, None
        recovery.resolve()
        early, self._early = self._early, []
        for sender, message in early:
            self._jobs.take(sender, message)
