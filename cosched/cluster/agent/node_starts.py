"""Keeps the starts of jobs on one node: their worlds, their admissions and their ends."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Protocol

from cosched.cluster.agent.confirmed import ConfirmedJob
from cosched.cluster.agent.frames import AnyFrame
from cosched.cluster.agent.known_nodes import KnownNodes
from cosched.cluster.agent.nodejob import Designs, NodeJob
from cosched.cluster.agent.preparing import Stewards
from cosched.cluster.agent.proofs import Proofs
from cosched.cluster.agent.resizing.admissions import Admissions
from cosched.cluster.agent.route import Route, names_of, route_of
from cosched.cluster.agent.sharing_reports import SharingReports
from cosched.cluster.agent.steps import StepNotes
from cosched.cluster.agent.stewards import Steward
from cosched.cluster.agent.stopping import Stops
from cosched.cluster.message_kinds import Message, OfJob
from cosched.cluster.messages import (
    Chunk,
    End,
    EndNoted,
    GiveInput,
    InputTaken,
    NodeEnded,
    StartFailed,
    StartReport,
    SubtreeEnded,
    SubtreePrepared,
)
from cosched.cluster.size_messages import Admit, Dismiss, PageOrder
from cosched.cluster.suspend_messages import ContinueTasks, SuspendTasks
from cosched.core.cluster.queue.nodes import numbers
from cosched.core.cluster.startup.jobobject import JobObject, decode_object
from cosched.core.complaints import Complaints, fault
from cosched.core.errors import CoschedError, StateLost
from cosched.core.names import CONTROLLER

#: Starts whose end came to this node before their first chunk.
_TOMBSTONES = 1000
#: Starts that a node has at a time, also those whose object has not come as a whole.
_JOBS_MOST = 10_000

Start = tuple[int, int]
World = tuple[int, int, int]


class NodeAgent(Protocol):
    """The agent, as its starts need it. name: the node's."""

    name: str
    slots: int  #: the tasks of a job that the node takes
    nodes: KnownNodes
    proofs: Proofs
    sharing: SharingReports

    def send(self, to: str, message: Message) -> None:
        """Sends a message to a member of the domain, or to this one."""

    def may_vouch(self, member: str, uid: int, gid: int) -> bool:
        """Returns whether a member may vouch for a user with these ids."""

    def report_starts(self) -> None:
        """Reports all starts to the controller."""


class NodeStarts:
    """The starts of jobs on the node of ``member``. It is the ``Node`` of its jobs.

    log: takes one line about what happened. steps: receives the steps of starts.
    """

    def __init__(
        self,
        member: NodeAgent,
        designs: Designs,
        complaints: Complaints,
        log: Callable[[str], None],
        steps: StepNotes,
    ) -> None:
        self._member = member
        self._designs = designs
        self._complaints = complaints
        self._log = log
        self._steps = steps
        self._jobs: dict[World, NodeJob] = {}
        self._admissions = Admissions(member.name, self)
        self._stops = Stops(
            self._worlds_of,
            partial(self.send, CONTROLLER),
            self._lend_slots,
            self._take_slots_back,
        )
        self._broken: set[Start] = set()  # the controller waits for the end on this node
        self._ended_early: deque[Start] = deque(maxlen=_TOMBSTONES)
        self._stewards: Stewards | None = None

    def use(self, stewards: Stewards) -> None:
        """Starts tasks by these stewards from now on."""
        self._stewards = stewards

    def when_pages_removed(self, call: Callable[[], None]) -> None:
        """Calls ``call`` once no page of a job that has left this node is here."""
        self._admissions.when_closed(call)

    def reports(self) -> tuple[StartReport, ...]:
        """Returns a report about each start on this node."""
        latest_first = sorted(self._jobs, reverse=True)
        reports = self._admissions.reports()
        reports |= {world[:2]: self._jobs[world].report() for world in latest_first}
        return tuple(reports.values())

    def report_again(self) -> None:
        """Repeats the reports of the jobs whose head is this node: the controller may have
        lost them."""
        for job in list(self._jobs.values()):
            if job.route.heads_job:
                job.report_again()

    def end_noted(self, message: EndNoted) -> None:
        """Forgets a job whose end the controller has stored."""
        job = self._jobs.get((message.job, message.start, 0))
        if job is not None and job.is_reported:
            self.forget(job)

    # --- messages -------------------------------------------------------------------------

    def take(self, sender: str, message: OfJob) -> None:
        """Handles a message about a job. Raises CoschedError for one that the sender may
        not send."""
        start = (message.job, message.start)
        head = self._jobs.get((*start, 0))
        if isinstance(message, End) and message.direct and sender == CONTROLLER:
            self._end_directly(start, message)
        elif self._member.nodes.keeps(sender, message):
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
            hosts = names_of(message.nodes, self._member.nodes.names, message.job)
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
            route = route_of(message, self._member.nodes.names)
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
        reason = f"{self._member.name}: the start has ended on this node"
        failed = StartFailed(*start, route.place, reason, again=True, world=world)
        self.send(route.parent, failed)
        self.send(route.parent, SubtreeEnded(*start, None, world=world))

    def _end_directly(self, start: Start, message: End) -> None:
        """Ends all worlds of a start whose tree is broken; nothing of it begins later."""
        self._member.nodes.forget(start)
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
        return self._member.slots

    @property
    def stewards(self) -> Stewards:
        assert self._stewards is not None, "messages come once it runs"
        return self._stewards

    def send(self, to: str, message: Message) -> None:
        self._member.send(to, message)

    def may_vouch(self, member: str, uid: int, gid: int) -> bool:
        return self._member.may_vouch(member, uid, gid)

    def report_starts(self) -> None:
        self._member.report_starts()

    def open_object(self, route: Route, data: bytes) -> JobObject:
        if not route.world:
            return decode_object(self._member.proofs.open(route, data))
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
        on_end = partial(self._attempt, job, job.steward_ended)
        admission = self._admissions.get(job.key)
        environ = {} if admission is None else admission.environ
        if not job.route.world:
            self._member.sharing.begin(job.key, found)
        return self.stewards.make(job.route, found, environ, on_frame, on_end)

    def open_page(
        self, job: NodeJob, found: JobObject, then: Callable[[str], None]
    ) -> None:
        route = job.route
        admission = self._admissions.begin(job.key, route.place, found, route.hosts)
        admission.when_ready(then)

    def _take_frame(self, job: NodeJob, frame: AnyFrame) -> None:
        self._attempt(job, partial(job.take_frame, frame))

    def _attempt(self, job: NodeJob, work: Callable[[], None]) -> None:
        """Does what follows from an event of a steward. An error ends its job only."""
        try:
            work()
        except StateLost:
            raise
        except Exception as error:  # noqa: BLE001  (it costs this job only)
            self._log(f"job {job.key[0]}: {fault(error)}")
            job.fail(fault(error))

    def later(self, after_s: float, call: Callable[[], None]) -> None:
        asyncio.get_running_loop().call_later(after_s, call)

    def _lend_slots(self, start: Start) -> None:
        self.stewards.lend_slots(start)

    def _take_slots_back(self, start: Start) -> None:
        self.stewards.take_slots_back(start)

    def tasks_stopped(self, job: NodeJob, problem: str, *, stopped: bool) -> None:
        self._stops.reported(job, problem, stopped=stopped)

    def are_stopped(self, job: NodeJob) -> bool:
        return self._stops.are_stopped(job.key)

    def forget(self, job: NodeJob) -> None:
        self._jobs.pop(job.identity, None)
        self._stops.world_ended(job, last=not self._worlds_of(job.key))
        if not job.route.world:
            self._member.sharing.end(job.key)
        if not job.route.world and not job.since_ns:  # its tasks never began
            self._admissions.dismiss(job.key)
        self.check_over(job.key)

    def note(self, job: NodeJob, step: str) -> None:
        if not job.route.world:
            self._steps.note(job.key, step)
