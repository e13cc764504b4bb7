"""Keeps the malleable jobs of which this node is a part.

The admission of a job outlives its worlds here. It has the job object, the names of the
job's nodes, and the keeper of its page.

A rank that leaves a job and does not end is killed. Open MPI 5 aborts each rank that was
connected to a killed one, unless its fault tolerance is on (``environ_to_go_on``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from cosched.cluster.agent.confirmed import ConfirmedJob
from cosched.cluster.agent.frames import (
    AnyFrame,
    CannotStart,
    OrderPage,
    PageAnswered,
    PageReady,
)
from cosched.cluster.agent.preparing import PageSpot, Stewards
from cosched.cluster.agent.stewards import Steward
from cosched.cluster.message_kinds import Message
from cosched.cluster.messages import StartReport
from cosched.cluster.size_messages import Admit, Admitted, PageAnswer, PageOrder
from cosched.core.cluster.resizing.agreement import PageLost, Propose
from cosched.core.cluster.resizing.node_part import Order as PartOrder
from cosched.core.cluster.startup.ends import WORK_S
from cosched.core.cluster.startup.jobobject import JobObject, decode_object
from cosched.core.cluster.startup.two_phase import Stage
from cosched.core.errors import CoschedError
from cosched.core.names import CONTROLLER
from cosched.shm.boundaries import VARIABLE

#: How long after the end of a page's keeper another one goes on. The time doubles with each
#: keeper that ends without an answer: a user can kill all of them by truncating the page.
KEEPER_AFTER_S = 0.1
KEEPER_AFTER_MOST_S = 5.0
#: How often a node that can make no process tries to go on with a page before it refuses
#: changes of the job. Then it tries at the longest pause, until a keeper goes on.
KEEPER_TRIES = 50

_TOLERANCE, _PML, _OB1 = "OMPI_MCA_mpi_ft_enable", "OMPI_MCA_pml", "ob1"

Start = tuple[int, int]


def environ_to_go_on(job: JobObject) -> Mapping[str, str]:
    """Returns the variable by which ranks of Open MPI go on when one is killed. Its fault
    tolerance supports one way of messages, ``ob1``, and chooses it: a user who wants
    another one, or none of this, gets that."""
    own = job.environ
    if not job.pmix_library or _TOLERANCE in own or own.get(_PML, _OB1) != _OB1:
        return {}
    return {_TOLERANCE: "1"}


class Node(Protocol):
    """Does for admissions what the whole agent can do. stewards: make keepers of pages."""

    @property
    def stewards(self) -> Stewards: ...

    def send(self, to: str, message: Message) -> None:
        """Sends a message to a member of the domain."""

    def later(self, after_s: float, call: Callable[[], None]) -> None:
        """Calls ``call`` after this time."""

    def may_vouch(self, member: str, uid: int, gid: int) -> bool:
        """Returns whether a member may vouch for a user with these ids."""

    def check_over(self, start: Start) -> None:
        """Reports the end of a start on this node, if it was ordered and all is gone."""


class Admission:
    """One malleable job on this node. problem: why it has no page now."""

    def __init__(self, job: ConfirmedJob, spot: PageSpot, node: Node) -> None:
        self.job = job
        self.place = spot.place
        self.problem = ""
        self._spot = spot
        self._node = node
        self._ready = False
        self._waiting: list[Callable[[str], None]] = []  # they need the page
        self._last: OrderPage | None = None  # another keeper carries it out again
        self._on_closed: Callable[[], None] | None = None
        self._keeper: Steward | None = None
        self._made = False  # the page is there
        self._lost = False  # no keeper can go on with the page
        self._failed = 0  # keepers since the last one that could open it
        self._killed = 0  # keepers that had opened it, since the last answer of one
        self._missing = ""  # why the nursery could not make the last one
        self._start()

    @property
    def environ(self) -> dict[str, str]:
        """The variables of its tasks: by one of them they find the page."""
        page = {VARIABLE: str(self._node.stewards.path_of_page(self._spot))}
        return {**page, **environ_to_go_on(self.job.found)}

    def when_ready(self, call: Callable[[str], None]) -> None:
        """Calls ``call`` with a problem, or with nothing once tasks can open the page."""
        if self._ready or self.problem:
            call(self.problem)
        else:
            self._waiting.append(call)

    def order(self, sender: str, message: PageOrder) -> None:
        """Passes on an order of the job's root. Raises CoschedError for another member."""
        if sender != self.job.root:
            raise CoschedError(f"job {message.job}: {sender} is not its root")
        self._last = OrderPage(message.order, message.ranks)
        if self.problem:
            self._report_lost(message.order)
        elif self._ready and self._keeper is not None:
            self._keeper.send(self._last)

    def close(self, on_closed: Callable[[], None]) -> None:
        """Removes the page. on_closed: called once its keeper is gone."""
        self._on_closed = on_closed
        self._waiting.clear()
        keeper = self._keeper
        if keeper is None:
            self._end()
            return

        def enforce() -> None:
            if self._keeper is not None:
                keeper.kill(f"the keeper of its page did not end in {WORK_S:.0f} s")

        keeper.close()
        self._node.later(WORK_S, enforce)

    # --- the keeper -----------------------------------------------------------------------

    def _start(self) -> None:
        if self._on_closed is not None:
            return
        self._missing = ""
        try:
            self._keeper = self._node.stewards.keep_page(
                self._spot, self._take_frame, self._keeper_ended, again=self._made
            )
        except CoschedError as error:
            self._try_again(str(error))

    def _try_again(self, problem: str) -> None:
        """Makes another keeper later. A page that never was there is lost."""
        if not self._made:
            self._lose(problem)
            return
        self._failed += 1
        pause_s = KEEPER_AFTER_S * 2 ** min(max(0, self._killed - 1), 16)
        if self._failed >= KEEPER_TRIES:
            pause_s = KEEPER_AFTER_MOST_S
            self._refuse(problem)
        self._node.later(min(pause_s, KEEPER_AFTER_MOST_S), self._start)

    def _take_frame(self, frame: AnyFrame) -> None:
        match frame:
            case PageReady():
                self._ready = self._made = True
                self._failed, self.problem = 0, ""
                if self._last is not None and self._keeper is not None:
                    self._keeper.send(self._last)
                self._call_waiting()
            case PageAnswered():
                self._killed = 0
                self._answer(PageAnswer(*self._spot.start, frame.answer, frame.times))
            case CannotStart(again=True):  # its end follows
                self._missing = frame.reason
            case CannotStart():
                self._lose(frame.reason)
            case _:
                raise CoschedError(f"a keeper does not send {type(frame).__name__}")

    def _keeper_ended(self) -> None:
        self._keeper = None
        if self._on_closed is not None:
            self._end()
        elif not self._lost:
            self._killed += self._ready
            self._ready = False
            self._try_again(self._missing or "the keeper of the job's page was killed")

    def _end(self) -> None:
        assert self._on_closed is not None
        self._node.stewards.drop_page(self._spot)
        self._on_closed()

    def _lose(self, problem: str) -> None:
        self._lost, self._ready = True, False
        self._refuse(problem)

    def _refuse(self, problem: str) -> None:
        """Reports the order under way as lost, and all that follow while there is a
        problem. A root that collects releases then, and a keeper that goes on carries the
        release out. Later in a change the root ends the job."""
        is_reported, self.problem = bool(self.problem), problem
        if not is_reported and self._last is not None:
            self._report_lost(self._last.order)
        self._call_waiting()

    def _report_lost(self, order: PartOrder) -> None:
        generation = (
            order.change.generation if isinstance(order, Propose) else order.generation
        )
        reason = f"{self.job.here}: {self.problem}"
        lost = PageLost(self.place, generation, reason)
        self._answer(PageAnswer(*self._spot.start, lost))

    def _answer(self, answer: PageAnswer) -> None:
        self._node.send(self.job.root, answer)

    def _call_waiting(self) -> None:
        waiting, self._waiting = self._waiting, []
        for call in waiting:
            call(self.problem)


class Admissions:
    """The admissions of the node ``here``."""

    def __init__(self, here: str, node: Node) -> None:
        self._here = here
        self._node = node
        self._kept: dict[Start, Admission] = {}
        self._closing: list[Start] = []
        self._on_closed: list[Callable[[], None]] = []  # until none is closing

    def get(self, start: Start) -> Admission | None:
        """Returns the admission of a start, if this node is a part of that job."""
        return self._kept.get(start)

    def has(self, start: Start) -> bool:
        """Returns whether a process of this node may still keep a page of a start."""
        return start in self._kept or start in self._closing

    def when_closed(self, call: Callable[[], None]) -> None:
        """Calls ``call`` once the page of each admission that has ended is removed."""
        self._on_closed.append(call)
        self._check_closed()

    def _check_closed(self) -> None:
        if not self._closing:
            waiting, self._on_closed = self._on_closed, []
            for call in waiting:
                call()

    def reports(self) -> dict[Start, StartReport]:
        """Returns the starts for the controller's recovery; they may have tasks here."""
        return {
            start: StartReport(*start, Stage.GONE.value, 0, root=False)
            for start in self._kept
        }

    def begin(
        self, start: Start, place: int, found: JobObject, hosts: tuple[str, ...]
    ) -> Admission:
        """Admits a job that begins on this node. Raises CoschedError if its page fails at
        once; the admission has the problem then."""
        job = ConfirmedJob(found, self._here, hosts, self._node.may_vouch)
        spot = PageSpot(start, place, found.uid, found.gid)
        admission = self._kept[start] = Admission(job, spot, self._node)
        if admission.problem:
            raise CoschedError(admission.problem)
        return admission

    def admit(
        self, message: Admit, hosts: tuple[str, ...], first: ConfirmedJob | None
    ) -> None:
        """Admits a job as the controller orders, and answers. A place that this node had
        before changes nothing but the names: a root that has left gets them, too.

        hosts: the names of all nodes, by place. first: the job as it began here.
        """
        start = message.job, message.start

        def answer(problem: str) -> None:
            line = f"{self._here}: {problem}" if problem else ""
            admitted = Admitted(*start, message.generation, line)
            self._node.send(CONTROLLER, admitted)

        admission = self._kept.get(start)
        if admission is not None:
            latest = admission.place
        else:
            latest = -1 if first is None else first.hosts.index(self._here)
        try:
            if message.place > latest:
                admission = self._admit_again(message, hosts, first)
            if admission is not None:
                admission.job.take_nodes(hosts, message.places)
        except CoschedError as error:
            answer(str(error))
            return
        if admission is None:
            answer("")
        else:
            admission.when_ready(answer)

    def _admit_again(
        self, message: Admit, hosts: tuple[str, ...], first: ConfirmedJob | None
    ) -> Admission:
        """Admits this node at a new place."""
        start = message.job, message.start
        if message.place >= len(hosts) or hosts[message.place] != self._here:
            raise CoschedError(f"is not at place {message.place} of the job")
        found = None if first is None else first.found
        if message.data:
            found = decode_object(message.data)
        if found is None or not found.malleable:
            raise CoschedError("has no object of a malleable job with this number")
        self.dismiss(start)
        return self.begin(start, message.place, found, hosts)

    def dismiss(self, start: Start) -> None:
        """Ends an admission, if it is there: the node has no task of the job any more."""
        admission = self._kept.pop(start, None)
        if admission is None:
            return
        self._closing.append(start)

        def closed() -> None:
            self._closing.remove(start)
            self._node.check_over(start)
            self._check_closed()

        admission.close(closed)
