"""Keeps one start of a job on one node, from the first chunk to the end of its subtree."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Protocol

import msgspec

from cosched.cluster.agent.confirmed import ConfirmedJob
from cosched.cluster.agent.ending import Ending
from cosched.cluster.agent.frames import (
    AnyFrame,
    CannotStart,
    Frame,
    Go,
    InputWritten,
    OutputLost,
    OutputWritten,
    RunTasks,
    StopTasks,
    TableReady,
    TaskAnswered,
    TaskAsked,
    TaskEndedBadly,
    TasksEnded,
    TasksRun,
    TasksStopped,
    TasksWait,
    TasksWrote,
    WriteOutput,
)
from cosched.cluster.agent.relay import Relay
from cosched.cluster.agent.resizing.changes import Changes
from cosched.cluster.agent.route import Route
from cosched.cluster.agent.startup import Dispatch, TableExchanges
from cosched.cluster.agent.steps import PREPARED
from cosched.cluster.agent.stewards import Steward
from cosched.cluster.agent.worlds.worlds import Worlds
from cosched.cluster.message_kinds import Message, OfJob
from cosched.cluster.messages import (
    ENDED,
    Answered,
    Ask,
    Began,
    Chunk,
    Credit,
    End,
    Failure,
    GiveInput,
    Order,
    Output,
    StartFailed,
    StartReport,
    SubtreeEnded,
    SubtreePrepared,
    Tables,
    TaskFailed,
)
from cosched.cluster.size_messages import PageAnswer, Resize, WithdrawChange
from cosched.cluster.submission_request import FROM_CLIENT
from cosched.core.cluster.startup.jobobject import JobObject
from cosched.core.cluster.startup.two_phase import (
    Prepared,
    PrepareFailed,
)
from cosched.core.cluster.startup.two_phase import SubtreePrepared as ChildPrepared
from cosched.core.complaints import fault
from cosched.core.errors import CoschedError, StateLost
from cosched.core.names import CONTROLLER


class Node(Protocol):
    """Does for a job what the whole agent can do. slots: the number on each node."""

    @property
    def slots(self) -> int: ...

    def send(self, to: str, message: Message) -> None:
        """Sends a message to a member of the domain."""

    def may_vouch(self, member: str, uid: int, gid: int) -> bool:
        """Returns whether a member may vouch for a user with these ids."""

    def open_object(self, route: Route, data: bytes) -> JobObject:
        """Returns the job object. Raises CoschedError if it is not the controller's, and
        for a spawned world without tasks of its job on this node."""

    def make_steward(self, job: NodeJob, found: JobObject) -> Steward:
        """Assigns resources and starts the job's steward. Raises CoschedError if the node
        cannot."""

    def open_page(
        self, job: NodeJob, found: JobObject, then: Callable[[str], None]
    ) -> None:
        """Makes the page of a malleable job. Raises CoschedError if it fails at once. then:
        is called later, with a problem, or with nothing once tasks can open it."""

    def report_starts(self) -> None:
        """Reports all starts on this node to the controller: it may count them
        otherwise, or the answer to the last report was lost."""

    def later(self, after_s: float, call: Callable[[], None]) -> None:
        """Calls ``call`` after this time."""

    def tasks_stopped(self, job: NodeJob, problem: str, *, stopped: bool) -> None:
        """Notes that the tasks of a job are stopped, or run again."""

    def are_stopped(self, job: NodeJob) -> bool:
        """Returns whether the job is suspended."""

    def forget(self, job: NodeJob) -> None:
        """Removes the job and frees its resources."""

    def note(self, job: NodeJob, step: str) -> None:
        """Reports that the start has reached a step (``agent.steps``)."""


@dataclass(frozen=True, slots=True)
class Designs:
    """The designs by which starts are made; see ``StartupSettings``."""

    object: str  #: how the job object travels: a word of ``StartupSettings``
    chunk_bytes: int  #: the size of its chunks
    prepare_s: float  #: how long a spawned world may take until its tasks wait


class NodeJob:
    """One world of a start of a job on this node; world 0 is the job as it was submitted.

    It is the ``Surroundings`` of its start, and at the job's root the ``Head`` of the other
    worlds.
    """

    def __init__(self, route: Route, node: Node, designs: Designs) -> None:
        self.route = route
        self.since_ns = 0  #: when its tasks began, by the wall clock; 0: not yet
        self._node = node
        self._dispatch = Dispatch(route, self, designs.object)
        self._tables = TableExchanges(route, self, designs.chunk_bytes)
        self._steward: Steward | None = None
        self._awaited = 1  # parts of this node that are not prepared: tasks, and a page
        self.confirmed: ConfirmedJob | None = None  #: once its object is here
        self._changes: Changes | None = None  # at the root of a malleable job
        self.worlds = Worlds(
            route, self, node.slots, designs.chunk_bytes, designs.prepare_s
        )
        self._relay = Relay(route, self.worlds, self.send, self.send_to_steward)
        forget = partial(node.forget, self)
        self._ending = Ending(route, self.worlds, self.send, node.later, forget)

    @property
    def key(self) -> tuple[int, int]:
        """The start that this belongs to."""
        return self.route.job, self.route.start

    @property
    def identity(self) -> tuple[int, int, int]:
        """The start and the world that this is."""
        return *self.key, self.route.world

    @property
    def is_reported(self) -> bool:
        """Returns whether the end of its subtree was reported."""
        return self._ending.reported

    def report(self) -> StartReport:
        """Returns the start for the controller's recovery."""
        stage = ENDED if self.is_reported else self._dispatch.stage.value
        return StartReport(*self.key, stage, self.since_ns, root=self.route.heads_job)

    # --- messages -------------------------------------------------------------------------

    def take(self, sender: str, message: OfJob) -> None:
        """Handles a message of this start. Raises CoschedError if the sender may not send
        it, or if it does not belong."""
        match message:
            case Chunk():
                self.route.expect_parent(sender)
                self._dispatch.take_chunk(message)
            case Order():
                self.route.expect_parent(sender)
                self._dispatch.obey(message)
            case SubtreePrepared():
                self._dispatch.take(ChildPrepared(self.route.expect_child(sender)))
            case StartFailed():
                self.route.expect_below(sender, message.place)
                self._dispatch.take(
                    PrepareFailed(message.place, message.reason, message.again)
                )
                self._ending.note_not_started(message.reason)
            case Tables():
                self._tables.take(sender, message)
            case Output():
                self.route.expect_below(sender, message.place)
                self._relay.carry_output(message)
            case Credit():
                self.route.expect_parent(sender)
                self._relay.carry_credit(message)
            case GiveInput():
                self._relay.take_input(sender, message)
            case End():
                self.route.expect_parent(sender)
                if message.direct and self._changes is not None:
                    self._changes.close()
                self._ending.order(message)
            case TaskFailed():
                self.route.expect_child(sender)
                self._ending.task_failed(message.failure)
            case Answered():
                self.route.expect_root(sender)
                self.send_to_steward(TaskAnswered(message.number, message.answer))
            case Resize() | WithdrawChange() | PageAnswer() if self._changes is not None:
                self._changes.take(sender, message)
            case SubtreeEnded():
                child = self.route.expect_child(sender)
                self._ending.child_ended(child, message.failure)
            case _:
                raise CoschedError(f"{type(message).__name__} is not for an agent")

    # --- frames of the steward ------------------------------------------------------------

    def take_frame(self, frame: AnyFrame) -> None:
        """Handles a frame of the job's steward."""
        match frame:
            case TasksWait():
                self._part_prepared()
            case CannotStart():
                self._ending.note_tasks_ended()
                self._cannot_start(frame.reason, again=frame.again)
            case TableReady():
                self._tables.table_ready(frame.table)
            case TasksWrote():
                self._relay.tasks_wrote(frame)
            case OutputWritten():
                self._relay.output_written(frame)
            case OutputLost():
                self._ending.note_output_lost(frame.reason)
            case InputWritten():
                self._relay.input_written(frame)
            case TaskAsked():
                self.send(self.route.root, Ask(*self.key, frame.number, frame.question))
            case TaskEndedBadly():
                self._ending.task_failed(frame.failure)
            case TasksStopped():
                self._node.tasks_stopped(self, frame.problem, stopped=True)
            case TasksRun():
                self._node.tasks_stopped(self, "", stopped=False)
            case TasksEnded():
                self._ending.note_tasks_ended()
                self._relay.close_input()
                self._ending.check()
            case _:
                raise CoschedError(f"a steward does not send {type(frame).__name__}")

    def stop_tasks(self, *, stopped: bool) -> bool:
        """Has its tasks stopped, or run again; returns whether the steward will report
        that."""
        if self._steward is None or self._ending.steward_gone:
            return False
        self._steward.send(StopTasks() if stopped else RunTasks())
        return True

    def steward_ended(self) -> None:
        """Handles the end of the steward's process."""
        self._ending.note_steward_ended()
        self._relay.close_input()
        if self._relay.lose_steward():
            reason = f"output of the job is lost: its steward on {self._here} was killed"
            self._ending.note_output_lost(reason)
        self._ending.check()

    def report_again(self) -> None:
        """Sends what a new life of the controller may not have (only at the root)."""
        if self._changes is not None:
            self._changes.report_again()
        self._ending.report_again()

    def check_spawner(self, member: str) -> None:
        assert self.confirmed is not None, "questions are answered once the object is here"
        self.confirmed.check_spawner(member)

    # --- the surroundings of the start ----------------------------------------------------

    def send(self, to: str, message: Message) -> None:
        if self.route.world and isinstance(message, OfJob):
            message = msgspec.structs.replace(message, world=self.route.world)
        self._node.send(to, message)

    def read_object(self, data: bytes) -> None:
        try:
            found = self._node.open_object(self.route, data)
            self.confirmed = ConfirmedJob(
                found, self._here, self.route.hosts, self._node.may_vouch
            )
            if found.malleable and not self.route.world:
                self._awaited += 1
                self._node.open_page(self, found, self._page_opened)
            self._steward = self._node.make_steward(self, found)
        except StateLost:
            raise
        except Exception as error:  # noqa: BLE001  (it costs this job only)
            if not self.route.world:
                self._node.report_starts()
            self._ending.note_nothing_began()
            self._cannot_start(fault(error), again=True)
            return
        self._ending.take_steward(self._steward, found.grace_s)
        if not self.route.heads_job:
            return
        self.worlds.begin(found)
        if found.malleable:
            self._changes = Changes(
                self.key, self.worlds.nodes, found.counts, found.grace_s, self
            )
        if found.input == FROM_CLIENT:

            def may_give(member: str, uid: int) -> bool:
                return uid in (0, found.uid) and self._node.may_vouch(member, uid, uid)

            self._relay.accept_input(may_give)

    def _page_opened(self, problem: str) -> None:
        if problem and not self.is_reported:
            self._cannot_start(problem, again=True)
        elif not problem:
            self._part_prepared()

    def _part_prepared(self) -> None:
        self._awaited -= 1
        if not self._awaited:
            self.note(PREPARED)
            self._dispatch.take(Prepared())

    def send_to_steward(self, frame: Frame) -> None:
        if self._steward is not None and not self._ending.steward_gone:
            self._steward.send(frame)

    def open_gate(self) -> None:
        self.since_ns = time.time_ns()
        self.send_to_steward(Go(self._dispatch.mates))
        if self._node.are_stopped(self):
            self.stop_tasks(stopped=True)
        if self.route.heads_job:
            self.send(CONTROLLER, Began(*self.key, self.since_ns))

    def discard(self, reason: str) -> None:
        self._ending.discard(reason)

    def fail(self, reason: str) -> None:
        """Ends the whole job; this node has found the reason."""
        self._ending.fail(Failure(1, f"{self._here}: {reason}"))

    def note(self, step: str) -> None:
        self._node.note(self, step)

    def _cannot_start(self, reason: str, *, again: bool) -> None:
        reason = f"{self._here}: {reason}"
        self._ending.note_not_started(reason)
        self._dispatch.take(PrepareFailed(self.route.place, reason, again))
        self._ending.check()

    @property
    def _here(self) -> str:
        return self.route.hosts[self.route.place]

    # --- the head of the worlds -----------------------------------------------------------

    def write_output(self, frame: WriteOutput) -> None:
        self._relay.write(frame)

    def task_failed(self, failure: Failure) -> None:
        self._ending.fail(failure)

    def check_change(self) -> None:
        if self._changes is not None:
            self._changes.check()

    def joiners_ended(self, generation: int) -> None:
        if self._changes is not None:
            self._changes.joiners_ended(generation)

    def check_end(self) -> None:
        self._ending.check()

    def later(self, after_s: float, call: Callable[[], None]) -> None:
        self._node.later(after_s, call)

    # --- the changes of its size ----------------------------------------------------------

    def places_in_use(self) -> frozenset[int]:
        return self.worlds.places_in_use()

    def take_spawn_problem(self) -> str:
        return self.worlds.take_spawn_problem()

    def end_outside(self, places: frozenset[int], reason: str) -> None:
        if self.worlds.end_outside(places, reason):
            self._ending.leave(reason)

    def lose_places(self, lost: frozenset[int], kept: frozenset[int], reason: str) -> None:
        self.worlds.lose(lost, kept, reason)
