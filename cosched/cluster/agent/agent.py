"""Runs the agent of one node: joins the domain and keeps the node's part of each job."""

from __future__ import annotations

import asyncio
import os
import secrets
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import cast

from cosched.cluster.agent.confirmed import ConfirmedJob
from cosched.cluster.agent.frames import AnyFrame
from cosched.cluster.agent.known_nodes import KnownNodes
from cosched.cluster.agent.node_parts import read_parts
from cosched.cluster.agent.nodejob import Designs, NodeJob
from cosched.cluster.agent.own_daemons import OwnDaemons
from cosched.cluster.agent.preparing import SLOTS, Stewards
from cosched.cluster.agent.proofs import Proofs
from cosched.cluster.agent.requests import UserRequests
from cosched.cluster.agent.resizing.admissions import Admissions
from cosched.cluster.agent.route import Route, names_of, route_of
from cosched.cluster.agent.sharing_reports import SharingReports, daemon_sockets
from cosched.cluster.agent.steps import StepNotes
from cosched.cluster.agent.stewards import Nursery, Steward
from cosched.cluster.agent.stopping import Stops
from cosched.cluster.inputs import Inputs, Visitor
from cosched.cluster.keys import KeyRing, known_keys, load_keys
from cosched.cluster.links import Links
from cosched.cluster.member import SideTasks, run_member
from cosched.cluster.message_kinds import Message, OfJob
from cosched.cluster.messages import (
    PROTOCOL,
    AnyMessage,
    Beat,
    Chunk,
    End,
    EndNoted,
    GiveInput,
    Hello,
    HelloAgain,
    InputTaken,
    Leave,
    NodeEnded,
    Refused,
    Roster,
    StartFailed,
    SubtreeEnded,
    SubtreePrepared,
    UserReply,
    Welcome,
)
from cosched.cluster.paths import DomainPaths
from cosched.cluster.size_messages import Admit, Dismiss, PageOrder
from cosched.cluster.suspend_messages import ContinueTasks, SuspendTasks
from cosched.cluster.user_socket import Person, UserSocket
from cosched.config.domain import DomainConfig, load_config
from cosched.core.cluster.queue.nodes import numbers
from cosched.core.cluster.startup.jobobject import JobObject, decode_object
from cosched.core.complaints import Complaints, fault
from cosched.core.decoding import printable
from cosched.core.errors import CoschedError, StateLost
from cosched.core.names import CONTROLLER
from cosched.core.units import NS_PER_S
from cosched.rundir.paths import NodePaths

#: Starts whose end came to this node before their first chunk.
_TOMBSTONES = 1000
#: Starts that a node has at a time, also those whose object has not come as a whole.
_JOBS_MOST = 10_000
#: Messages about jobs that come before the controller's welcome.
_EARLY = 1000

Start = tuple[int, int]
World = tuple[int, int, int]


class Agent:
    """The agent of the node ``name``. It is the ``Node`` of its jobs.

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
        self._steps = steps
        self._nodes = KnownNodes()
        self._public = {each: keys.public[each] for each in (CONTROLLER, name)}
        # Until the roster comes: a neighbour whose key is refused comes back late.
        known = {each: config.addresses[each] for each in keys.public}
        self._links = Links(keys, known, log, pause_ns=config.life.beat_ns)
        self._incarnation = secrets.randbits(48)
        self._session = 0  # of its membership; 0: it never joined
        cpus = os.sched_getaffinity(0)
        self._slots = config.slots or len(cpus)
        self._parts = read_parts(config.symbiosis.parts, cpus, self._slots)
        self._designs = Designs(
            config.startup.object,
            config.startup.chunk_bytes,
            config.life.prepare_ns / NS_PER_S,
        )
        self._jobs: dict[World, NodeJob] = {}
        self._admissions = Admissions(name, self)
        self._stops = Stops(self._worlds_of, partial(self.send, CONTROLLER))
        self._broken: set[Start] = set()  # the controller waits for the end on this node
        self._ended_early: deque[Start] = deque(maxlen=_TOMBSTONES)
        self._requests = UserRequests(
            partial(self.send, CONTROLLER), partial(self._links.is_full, CONTROLLER)
        )
        self._inputs = Inputs(self._nodes.addresses, self.send)
        self._inputs.ready.clear()
        self._sharing = SharingReports(
            daemon_sockets(paths, name), partial(self.send, CONTROLLER), log
        )
        self._proofs = Proofs()
        self._early: deque[tuple[str, OfJob]] = deque(maxlen=_EARLY)  # before it joined
        self._tasks = SideTasks(self._end)
        self._stewards: Stewards | None = None
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
        self._stewards = Stewards(
            self.name,
            self._paths,
            self._slots,
            nursery,
            self._tasks.start,
            self._log,
            self._parts,
        )
        users = UserSocket(
            self._paths.agent_socket(self.name), self._receive_user, self._log
        )
        try:
            self._links.listen(self._config.nodes[self.name])
            await users.open()
            self._tasks.start(self._links.receive(self._take))
            self._tasks.start(self._beat())
            self._tasks.start(self._sharing.run())
            await starting
            ready()
            await self._over
        finally:
            starting.cancel()
            daemons.close()
            self._requests.close()
            await users.close()
            self._tasks.cancel()
            self._stewards.close()
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
        latest_first = sorted(self._jobs, reverse=True)
        reports = self._admissions.reports()
        reports |= {world[:2]: self._jobs[world].report() for world in latest_first}
        hello = Hello(
            PROTOCOL,
            self._incarnation,
            self._digest,
            {SLOTS: self._slots},
            tuple(reports.values()),
            self._parts.least_slots,
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
                self._end()
            case UserReply():
                self._requests.take(message)
            case EndNoted():
                job = self._jobs.get((message.job, message.start, 0))
                if job is not None and job.is_reported:
                    self.forget(job)
            case _:
                return False
        return True

    def _welcome(self, message: Welcome) -> None:
        if message.incarnation != self._incarnation:
            return  # the controller sent it to a former life of this agent
        self._proofs.renew(message.secret)
        if message.session == self._session:
            return
        self._session = message.session
        self._log(f"joined the domain {self._config.name}")
        if self._parts.why:
            self._log(self._parts.text)
        for job in list(self._jobs.values()):
            if job.route.heads_job:
                job.report_again()
        self._requests.send_again()
        self._sharing.report_again()
        while self._early:
            self._take_apart(*self._early.popleft())

    def _take_roster(self, roster: Roster) -> None:
        """Has other nodes from now on, and takes the messages that waited for them."""
        waited = self._nodes.take(roster)
        self._config = replace(self._config, nodes=dict(self._nodes.addresses))
        public = {node.name: node.key for node in roster.nodes}
        self._links.meet(self._config.addresses, {**public, **self._public})
        self._inputs.ready.set()
        for sender, message in waited:
            self._take_apart(sender, message)

    def _take_of_job(self, sender: str, message: OfJob) -> None:
        if not self._proofs.joined:
            self._early.append((sender, message))
            return
        start = (message.job, message.start)
        head = self._jobs.get((*start, 0))
        if isinstance(message, End) and message.direct and sender == CONTROLLER:
            self._end_directly(start, message)
        elif self._nodes.keeps(sender, message):
            pass
        elif isinstance(message, Admit | Dismiss | PageOrder):
            self._take_of_admission(sender, message)
        elif isinstance(message, SuspendTasks | ContinueTasks):
            if sender != CONTROLLER:
                raise CoschedError(f"job {message.job}: {sender} may not suspend it")
            self._stops.take(message)
        elif head is not None and head.worlds.concern(sender, message):
            with self._costs_only(head):
                head.worlds.take(sender, message)
        else:
            self._take_of_world(sender, message)

    def _take_of_admission(self, sender: str, message: Admit | Dismiss | PageOrder) -> None:
        start = (message.job, message.start)
        if isinstance(message, PageOrder):
            admission = self._admissions.get(start)
            if admission is not None:
                admission.order(sender, message)
        elif sender != CONTROLLER:
            raise CoschedError(f"job {message.job}: {sender} may not change its nodes")
        elif isinstance(message, Dismiss):
            self._admissions.dismiss(start)
        else:
            head = self._jobs.get((*start, 0))
            hosts = names_of(message.nodes, self._nodes.names, message.job)
            if head is not None:
                head.worlds.nodes.replace(numbers(message.nodes), hosts)
            self._admissions.admit(message, hosts, None if head is None else head.confirmed)
            if self._admissions.get(start) is not None:  # it is a node of the job again
                while start in self._ended_early:
                    self._ended_early.remove(start)

    def _take_of_world(self, sender: str, message: OfJob) -> None:
        start = (message.job, message.start)
        world = (*start, message.world)
        job = self._jobs.get(world)
        if job is None and isinstance(message, Chunk):
            route = route_of(message, self._nodes.names)
            if sender not in (route.parent, CONTROLLER):
                raise CoschedError(f"job {message.job}: is not this node's parent")
            if start in self._ended_early:
                self._refuse_world(route, message)
                return
            if message.number > 0:
                return  # the first one came to a former life of this agent
            if len(self._jobs) >= _JOBS_MOST:
                raise CoschedError(f"job {message.job}: {_JOBS_MOST} starts are here")
            job = self._jobs[world] = NodeJob(route, self, self._designs)
        if job is not None:
            with self._costs_only(job):
                job.take(sender, message)
        elif isinstance(message, GiveInput):  # the job has ended
            self.send(sender, InputTaken(message.number, 0, False, ""))
        elif isinstance(message, SubtreePrepared | StartFailed):  # it has ended here
            if isinstance(message, SubtreePrepared):
                late = f"start {message.start} of job {message.job}"
                self._complaints.about(sender, "prepared a start late", late)
            over = End(*start, "the start is over", direct=False, world=message.world)
            self.send(sender, over)
        elif isinstance(message, End) and sender == CONTROLLER:
            self._ended_early.append(start)
            self.send(CONTROLLER, NodeEnded(*start))
        elif isinstance(message, End):  # its sender waits until the world is gone from here
            self.send(sender, SubtreeEnded(*start, None, world=message.world))

    def _refuse_world(self, route: Route, chunk: Chunk) -> None:
        """Answers the last chunk of a world whose start has ended here, as a node does that
        cannot start its tasks. The controller needs no answer: it has ordered the end."""
        if route.parent == CONTROLLER or chunk.number != chunk.count - 1:
            return
        start, world = (route.job, route.start), route.world
        reason = f"{self.name}: the start has ended on this node"
        failed = StartFailed(*start, route.place, reason, again=True, world=world)
        self.send(route.parent, failed)
        self.send(route.parent, SubtreeEnded(*start, None, world=world))

    def _end_directly(self, start: Start, message: End) -> None:
        """Ends all worlds of a start whose tree is broken; nothing of it begins later."""
        self._nodes.forget(start)
        self._ended_early.append(start)
        self._broken.add(start)
        for job in self._worlds_of(start):
            with self._costs_only(job):
                job.take(CONTROLLER, message)
        self._admissions.dismiss(start)
        self.check_over(start)

    @contextmanager
    def _costs_only(self, job: NodeJob) -> Iterator[None]:
        """Ends a job for an unexpected error inside: its state may be half changed. A
        CoschedError passes: nothing has changed."""
        try:
            yield
        except (StateLost, CoschedError):
            raise
        except Exception as error:
            job.fail(fault(error))
            raise

    def _worlds_of(self, start: Start) -> list[NodeJob]:
        return [job for job in self._jobs.values() if job.key == start]

    def check_over(self, start: Start) -> None:
        left = self._worlds_of(start) or self._admissions.has(start)
        if start in self._broken and not left:
            self._broken.discard(start)
            self.send(CONTROLLER, NodeEnded(*start))

    # --- what jobs need -------------------------------------------------------------------

    @property
    def slots(self) -> int:
        return self._slots

    @property
    def stewards(self) -> Stewards:
        assert self._stewards is not None, "messages come once it runs"
        return self._stewards

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

    def open_object(self, route: Route, data: bytes) -> JobObject:
        if not route.world:
            return decode_object(self._proofs.open(route, data))
        return self._confirmed((route.job, route.start)).object_of_world(route, data)

    def _confirmed(self, start: Start) -> ConfirmedJob:
        """Returns the job of which a world begins here. Raises CoschedError if this node
        has no part of it now."""
        admission = self._admissions.get(start)
        if admission is not None:
            return admission.job
        first = self._jobs.get((*start, 0))
        if first is None or first.confirmed is None:
            raise CoschedError("the job has no part on this node")
        if first.confirmed.found.malleable:
            raise CoschedError("the job has given this node back")
        return first.confirmed

    def make_steward(self, job: NodeJob, found: JobObject) -> Steward:
        on_frame = partial(self._take_frame, job)
        admission = self._admissions.get(job.key)
        environ = {} if admission is None else admission.environ
        if not job.route.world:
            self._sharing.begin(job.key, found)
        return self.stewards.make(job.route, found, environ, on_frame, job.steward_ended)

    def open_page(
        self, job: NodeJob, found: JobObject, then: Callable[[str], None]
    ) -> None:
        route = job.route
        admission = self._admissions.begin(job.key, route.place, found, route.hosts)
        admission.when_ready(then)

    def report_starts(self) -> None:
        self._join()

    def _take_frame(self, job: NodeJob, frame: AnyFrame) -> None:
        try:
            job.take_frame(frame)
        except StateLost:
            raise
        except Exception as error:  # noqa: BLE001  (it costs this job only)
            self._log(f"job {job.key[0]}: {fault(error)}")
            job.fail(fault(error))

    def later(self, after_s: float, call: Callable[[], None]) -> None:
        asyncio.get_running_loop().call_later(after_s, call)

    def tasks_stopped(self, job: NodeJob, problem: str, *, stopped: bool) -> None:
        self._stops.reported(job, problem, stopped=stopped)

    def are_stopped(self, job: NodeJob) -> bool:
        return self._stops.are_stopped(job.key)

    def forget(self, job: NodeJob) -> None:
        self._jobs.pop(job.identity, None)
        self._stops.world_ended(job, last=not self._worlds_of(job.key))
        if not job.route.world:
            self._sharing.end(job.key)
        if not job.route.world and not job.since_ns:  # its tasks never began
            self._admissions.dismiss(job.key)
        self.check_over(job.key)

    def note(self, job: NodeJob, step: str) -> None:
        if not job.route.world:
            self._steps.note(job.key, step)

    # --- users ----------------------------------------------------------------------------

    def _receive_user(self, person: Person) -> Visitor:
        return Visitor(person, self._inputs, self._requests.ask)


def serve(run_dir: Path, node: str, notes: StepNotes, slots: int = 0) -> None:
    """Serves until a signal ends it. Raises CoschedError if it cannot.

    notes: takes the steps of starts. slots: tasks of a job that this node takes if
    domain.toml leaves that open; 0: one for each CPU.
    """
    paths = DomainPaths(run_dir)
    config = load_config(paths.config)
    config = replace(config, slots=config.slots or slots)
    if node not in config.nodes:
        raise CoschedError(f"{paths.config}: has no node '{node}'; give --node")
    keys = load_keys(paths.keys, node, (CONTROLLER, *known_keys(paths.keys, config.nodes)))
    paths.node(node).mkdir(mode=0o755, parents=True, exist_ok=True)
    run_member(
        lambda ready, log: Agent(node, config, keys, paths, log, notes).run(ready),
        paths.agent_lock(node),
        f"node {node}: another agent is up",
    )
