"""Carries out the changes of one malleable job's size, at the job's root: drives the pure
``Agreement`` with the messages of the controller and of the nodes' pages."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from msgspec.structs import replace

from cosched.cluster.agent.worlds.job_nodes import JobNodes
from cosched.cluster.message_kinds import Message, OfJob
from cosched.cluster.size_messages import (
    ChangeEnded,
    JobSensed,
    PageAnswer,
    PageOrder,
    PhaseTimes,
    Resize,
    WithdrawChange,
)
from cosched.core.cluster.resizing.agreement import (
    Agreement,
    Commit,
    Event,
    Finished,
    Ordered,
    ReportDone,
    ReportLost,
    ReportRefused,
    Withdrawn,
)
from cosched.core.cluster.resizing.change import Arrival, Change
from cosched.core.cluster.resizing.node_part import Order as PartOrder
from cosched.core.cluster.resizing.node_part import Sensed
from cosched.core.cluster.startup.ends import WORK_S, end_limit_s
from cosched.core.errors import CoschedError
from cosched.core.names import CONTROLLER


class Job(Protocol):
    """Does for changes what the job can do at its root."""

    def send(self, to: str, message: Message) -> None:
        """Sends a message to a member of the domain."""

    def places_in_use(self) -> frozenset[int]:
        """Returns the places where worlds still run."""

    def take_spawn_problem(self) -> str:
        """Returns why a spawn failed since the last call; empty: none did."""

    def end_outside(self, places: frozenset[int], reason: str) -> None:
        """Ends each world that has tasks at other places; the job goes on."""

    def lose_places(self, lost: frozenset[int], kept: frozenset[int], reason: str) -> None:
        """Gives up worlds with tasks at lost places whose tasks have not begun, unless they
        have tasks at kept ones, too."""

    def later(self, after_s: float, call: Callable[[], None]) -> None:
        """Calls ``call`` after this time."""

    def fail(self, reason: str) -> None:
        """Ends the whole job."""


@dataclass(slots=True)
class _Change:
    """A change under way. times: as rank 0 reported them. end: what to report once the
    worlds that left are gone."""

    order: Resize
    ordered_ns: int
    committed_ns: int = 0
    decided_ns: int = 0
    times: PhaseTimes | None = None
    end: ChangeEnded | None = None


class Changes:
    """The changes of one job, one after the other. counts: its first tasks, by place.
    grace_s: between SIGTERM and SIGKILL for tasks that do not leave by themselves."""

    def __init__(
        self,
        start: tuple[int, int],
        nodes: JobNodes,
        counts: Sequence[int],
        grace_s: float,
        job: Job,
        clock_ns: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self._start = start
        self._nodes = nodes
        self._grace_s = grace_s
        self._job = job
        self._clock_ns = clock_ns
        self._ranks = {place: ranks for place, ranks in enumerate(counts) if ranks}
        self._agreement = Agreement(self._ranks)
        self._closed = False
        self._open: _Change | None = None
        self._ended: ChangeEnded | None = None  # the last one
        self._sensed: JobSensed | None = None
        self._asked: dict[int, int] = {}  # how often, by the place of rank 0 then

    def take(self, sender: str, message: OfJob) -> None:
        """Handles a message about changes. Raises CoschedError if the sender may not send
        it."""
        if self._closed:
            return
        if isinstance(message, PageAnswer):
            self._take_answer(sender, message)
            return
        if sender != CONTROLLER:
            raise CoschedError(f"job {message.job}: {sender} may not change its size")
        if isinstance(message, Resize):
            self._order(message)
        elif isinstance(message, WithdrawChange):
            self._withdraw(message)

    def check(self) -> None:
        """Reports the end of the change once no world runs on a node that is not the job's
        after it."""
        change = self._open
        if change is None or change.end is None:
            return
        if not self._job.places_in_use() <= self._agreement.places:
            return
        end = change.end
        if end.times is not None:
            empty_ns = self._clock_ns() - change.decided_ns
            end = replace(end, times=replace(end.times, empty_ns=empty_ns))
        self._open = None
        self._nodes.usable = self._agreement.places
        self._report(end)

    def joiners_ended(self, generation: int) -> None:
        """Ends the job if the ranks that a change has started are gone, and its other ranks
        do not report the end of that change: they wait for the new ones for ever."""
        change = self._open
        if change is None or change.order.generation != generation:
            return
        after_s = end_limit_s(self._grace_s)

        def enforce() -> None:
            if self._open is change and change.end is None:
                self._job.fail("the tasks that a change started ended before they joined")

        self._job.later(after_s, enforce)

    def close(self) -> None:
        """Reports nothing more. The job's nodes end directly: its root does not know when
        their tasks are gone."""
        self._closed = True
        self._open = self._ended = self._sensed = None

    def report_again(self) -> None:
        """Sends what a new life of the controller may not have."""
        if self._ended is not None:
            self._send(self._ended)
        if self._sensed is not None:
            self._send(self._sensed)

    # --- the controller -------------------------------------------------------------------

    def _order(self, message: Resize) -> None:
        if self._is_known(message.generation):
            return
        places = [each.place for each in message.arriving]
        if self._open is not None:
            under_way = self._open.order.generation
            self._refuse(message, f"change {under_way} of the job is not over")
        elif any(place >= len(self._nodes.hosts) for place in places):
            self._refuse(message, "an arriving node was not admitted")
        else:
            self._open = _Change(message, self._clock_ns())
            self._job.take_spawn_problem()  # of an earlier time
            self._nodes.usable = self._agreement.places | frozenset(places)
            hosts = self._nodes.hosts
            arriving = (
                Arrival(each.place, hosts[each.place], each.ranks)
                for each in message.arriving
            )
            change = Change(message.generation, message.leaving, tuple(arriving))
            self._handle(Ordered(change))

    def _withdraw(self, message: WithdrawChange) -> None:
        if self._open is not None and self._open.order.generation == message.generation:
            self._handle(Withdrawn(message.reason))
            lost = frozenset(message.lost) - self._agreement.places
            if lost:
                self._job.lose_places(lost, self._agreement.places, message.reason)
        elif not self._is_known(message.generation):
            self._refuse(message, message.reason)

    def _is_known(self, generation: int) -> bool:
        """Returns whether an order came before; one that is over is answered again."""
        ended = self._ended
        if ended is not None and generation == ended.generation:
            self._send(ended)
        known = [self._open.order.generation] if self._open is not None else []
        return generation in known or (ended is not None and generation <= ended.generation)

    def _refuse(self, message: Resize | WithdrawChange, reason: str) -> None:
        self._report(self._end(message.generation, refused=reason))

    def _end(self, generation: int, refused: str = "") -> ChangeEnded:
        places = tuple(sorted(self._agreement.places))
        return ChangeEnded(*self._start, generation, places, refused=refused)

    def _report(self, end: ChangeEnded) -> None:
        self._ended = end
        self._send(end)

    def _send(self, message: Message) -> None:
        self._job.send(CONTROLLER, message)

    # --- the pages ------------------------------------------------------------------------

    def _take_answer(self, sender: str, message: PageAnswer) -> None:
        answer = message.answer
        if isinstance(answer, Finished):
            is_its_own = self._nodes.has(sender)
        else:
            hosts = self._nodes.hosts
            is_its_own = answer.place < len(hosts) and hosts[answer.place] == sender
        if not is_its_own:
            raise CoschedError(f"job {message.job}: {sender} has no such page of it")
        if not isinstance(answer, Finished) and answer.place not in self._nodes.usable:
            return  # it has left, and answers late
        if isinstance(answer, Sensed):
            self._sense(answer)
            return
        if self._open is not None and message.times is not None:
            self._open.times = message.times
        self._handle(answer)

    def _handle(self, event: Event) -> None:
        for command in self._agreement.handle(event):
            match command:
                case ReportDone():
                    self._decide(self._end(command.generation))
                case ReportRefused():
                    reason = self._job.take_spawn_problem() or command.reason
                    self._decide(self._end(command.generation, reason))
                case ReportLost():
                    host = self._nodes.hosts[command.place]
                    self._job.fail(f"{host} lost the page of the job during a change")
                case _:
                    self._order_page(command)

    def _order_page(self, order: PartOrder) -> None:
        change = self._open
        if change is not None and isinstance(order, Commit) and not change.committed_ns:
            change.committed_ns = self._clock_ns()
        message = PageOrder(*self._start, order, self._ranks.get(order.place, 0))
        self._job.send(self._nodes.hosts[order.place], message)

    def _decide(self, end: ChangeEnded) -> None:
        """Stores how the change ends; reports that once the worlds that left are gone."""
        change = self._open
        assert change is not None, "the agreement reports the change that is open"
        change.decided_ns = self._clock_ns()
        if not end.refused:
            for place in change.order.leaving:
                self._ranks.pop(place, None)
            for each in change.order.arriving:
                self._ranks[each.place] = self._ranks.get(each.place, 0) + each.ranks
            agree_ns = change.committed_ns - change.ordered_ns
            times = change.times or PhaseTimes(*(0,) * 9)
            end = replace(end, times=replace(times, agree_ns=agree_ns))
        change.end = end
        self.check()
        if self._open is change:
            after_s = end_limit_s(self._grace_s)
            self._job.later(after_s, lambda: self._end_left(change, after_s))

    def _end_left(self, change: _Change, after_s: float) -> None:
        """Ends the worlds that have not left after the change."""
        if self._open is not change:
            return
        left = f"tasks have not left {after_s:.0f} s after change {change.order.generation}"
        self._job.end_outside(self._agreement.places, left)

        def enforce() -> None:
            if self._open is change:
                self._job.fail(f"{left}, and could not be ended")

        self._job.later(after_s + WORK_S, enforce)

    def _sense(self, sensed: Sensed) -> None:
        """Reports what rank 0 does. The page where it is now does not have what it asked
        for on an earlier node. If rank 0 was here before, the page has its wish of then."""
        is_new = sensed.asked != self._asked.get(sensed.place, 0)
        self._asked[sensed.place] = sensed.asked
        before = 0 if self._sensed is None else self._sensed.wanted
        wanted = (sensed.wanted if is_new else 0) or before
        self._sensed = JobSensed(
            *self._start,
            max(1, len(self._agreement.places)),
            *(sensed.iterations, sensed.exec_ns, sensed.comm_ns),
            *(sensed.minimum, sensed.ideal, wanted),
            sum(self._asked.values()),
            sensed.predicted,
        )
        self._send(self._sensed)
