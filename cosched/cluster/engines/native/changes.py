"""Carries out the changes of the sizes of live jobs.

The queue orders a change. All nodes of the job and those that arrive are *admitted* first;
then the job's root gets the order, and reports the end. Each step is stored before it has
an effect, so a controller that restarts asks again: nodes and root answer twice.

A change that the root has may be under way, so only the root can refuse it. If an arriving
node of such a change is lost, the controller asks the root to refuse the change. If the
root does not answer, the ranks may wait for that node: the job ends then.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import msgspec

from cosched.cluster.engines.native.basics import Basics
from cosched.cluster.engines.native.starts.running import Starts
from cosched.cluster.engines.native.starts.start import ActiveStart, job_object
from cosched.cluster.job_size import JobSize, OpenChange, PastChange, cost_ns, names_at
from cosched.cluster.messages import End
from cosched.cluster.record import Record
from cosched.cluster.size_messages import (
    Admit,
    Admitted,
    Arriving,
    ChangeEnded,
    Dismiss,
    JobSensed,
    PhaseTimes,
    Resize,
    WithdrawChange,
)
from cosched.config.domain import DomainConfig
from cosched.config.queue import MALLEABLE, RIGID
from cosched.core.cluster.queue.nodes import Intervals, in_order
from cosched.core.cluster.queue.queue_commands import ResizeJob
from cosched.core.cluster.queue.queue_events import (
    JobRecovered,
    ResizeDone,
    ResizeRefused,
    Sensed,
    SizeWanted,
)
from cosched.core.cluster.resizing.agreement import LOOP_ENDED
from cosched.core.cluster.startup.jobobject import encode_object
from cosched.core.errors import CoschedError, must_succeed
from cosched.core.units import NS_PER_S

#: A start of a job gets no more places than this.
PLACES_MOST = 1 << 16
#: The messages of nodes about changes of sizes.
OF_CHANGES = (Admitted, ChangeEnded, JobSensed)


def check_open_changes(records: Sequence[Record], kind: str) -> None:
    """Raises CoschedError for a stored job whose change is open in a domain that changes no
    sizes, or that is suspended in one that suspends none. kind: its ``queue.size``."""
    if kind == MALLEABLE:
        return
    for record in records:
        suspension = record.suspension
        if kind == RIGID and suspension is not None and suspension.for_job is not None:
            raise CoschedError(
                f"job {record.number}: is suspended; write "
                f'size = "{MALLEABLE}" into [queue] of domain.toml, start the controller, '
                f'and write "{kind}" again once the job continues'
            )
        if record.size is not None and record.size.change is not None:
            raise CoschedError(
                f"job {record.number}: a change of its size is open; write "
                f'size = "{MALLEABLE}" into [queue] of domain.toml, start the controller, '
                f'and write "{kind}" again once the change has ended'
            )


class Changes:
    """The open changes of live jobs."""

    def __init__(self, basics: Basics, config: DomainConfig, starts: Starts) -> None:
        self._members = basics.members
        self._records = basics.records
        self._clock = basics.clock
        self._send = basics.send
        self._log = basics.log
        self._report = basics.report
        self._config = config
        self._starts = starts
        self._awaited: dict[int, set[str]] = {}  # not admitted yet, by job
        self._lost: dict[int, str] = {}  # an arriving node of each job that was lost
        self._timers: dict[int, asyncio.TimerHandle] = {}  # jobs whose roots must refuse
        self._sensed: dict[int, JobSensed] = {}  # the last report of each job

    def configure(self, config: DomainConfig) -> None:
        """Applies changed settings."""
        self._config = config

    # --- orders of the queue --------------------------------------------------------------

    def order(self, command: ResizeJob, reason: str) -> None:
        """Begins a change. reason: why the queue has ordered it. If the job has not begun,
        the change waits for that. Refuses a growth beyond PLACES_MOST."""
        start = self._starts.active[command.number]
        record = start.record
        size = _size_of(record)
        wanted = dict.fromkeys(self._members.names(command.nodes))
        present = frozenset(record.nodes)
        stay = tuple(place for place in size.places if record.hosts[place] in wanted)
        come = tuple(name for name in wanted if name not in present)
        has_room = not come or len(record.hosts) + len(come) <= PLACES_MOST
        if not has_room:
            stay, come = size.places, ()
        after = (*stay, *(len(record.hosts) + at for at in range(len(come))))
        now_ns, generation = self._clock.now_ns(), size.generation + 1
        change = OpenChange(generation, now_ns, command.by_ns, after, reason)
        self._records.save(record, hosts=(*record.hosts, *come), size=size.ordered(change))
        if not has_room:
            most = f"a start takes {PLACES_MOST} at most, each node once more if it returns"
            self._refuse(start, f"{len(record.hosts)} nodes came to it; {most}")
        elif start.went:
            self._admit(start)

    def withdraw(self, number: int) -> None:
        """Refuses a change that the queue does without, if that is possible."""
        start = self._starts.active[number]
        change = _size_of(start.record).change
        if change is None or start.waits_for is not None:
            return  # its end, or that of the job, is on the way to the queue
        lost = self._lost.get(number)
        after_s = (self._clock.now_ns() - change.ordered_ns) / NS_PER_S
        self._give_up(
            start,
            f"node {lost} was lost" if lost else f"it took more than {after_s:.1f} s",
        )

    def _give_up(self, start: ActiveStart, reason: str) -> None:
        record, size = start.record, _size_of(start.record)
        assert size.change is not None
        if not size.change.sent:
            self._refuse(start, reason)
            return
        of_change = (record.number, record.start, size.change.generation)
        name = self._lost.get(record.number)
        lost = tuple(place for place in size.arriving if record.hosts[place] == name)
        self._send(start.root, WithdrawChange(*of_change, reason, lost))

    def begun(self, start: ActiveStart) -> None:
        """Goes on with the change of a job whose tasks begin now, if there is one."""
        size = start.record.size
        if size is not None and size.change is not None:
            self._admit(start)

    def completed(self, event: JobRecovered, record: Record) -> JobRecovered:
        """Returns the event about a restored job, with its growths and its open change."""
        size = record.size
        if size is None:
            return event
        ordered = None
        if size.change is not None:
            ordered = self._at(record, size.change.after)
        return msgspec.structs.replace(
            event,
            growths=tuple(self._at(record, growth) for growth in size.growths),
            ordered=ordered,
            by_ns=None if size.change is None else size.change.by_ns,
        )

    def _at(self, record: Record, places: Sequence[int]) -> Intervals:
        return self._members.numbers(names_at(record.hosts, places))

    def recover(self, start: ActiveStart) -> None:
        """Goes on with the change of a job that was found after a restart."""
        size = start.record.size
        if size is None or size.change is None:
            return
        for name in names_at(start.record.hosts, size.arriving):
            member = self._members.by_name[name]
            if member.restarted or not member.answers:
                self._lose(start, name)
                return
        self._admit(start)

    # --- nodes ----------------------------------------------------------------------------

    def node_lost(self, name: str) -> None:
        """Gives up the changes by which a lost node was to come."""
        for start in list(self._starts.active.values()):
            size = start.record.size
            if size is None or start.waits_for is not None:
                continue
            if name in names_at(start.record.hosts, size.arriving):
                self._lose(start, name)

    def _lose(self, start: ActiveStart, name: str) -> None:
        number = start.record.number
        self._lost.setdefault(number, name)
        self._give_up(start, f"node {name} was lost")
        if number in self._lost and number not in self._timers:
            self._timers[number] = asyncio.get_running_loop().call_later(
                self._config.life.prepare_ns / NS_PER_S, self._end_stuck, start, name
            )

    def _end_stuck(self, start: ActiveStart, name: str) -> None:
        """Ends a job whose ranks may wait for a lost node."""
        if self._starts.active.get(start.record.number) is start:
            self._starts.lose(start, name)

    def _admit(self, start: ActiveStart) -> None:
        """Lets all nodes of a change know the job."""
        record = start.record
        size = _size_of(record)
        assert size.change is not None
        counts = record.submission.counts_on(len(size.places))
        try:
            found = encode_object(job_object(record, counts, self._config.queue))
        except CoschedError as error:
            self._give_up(start, str(error))
            return
        self._awaited[record.number] = set(record.admitted)
        self._send_places(record, size, found)

    def _send_places(self, record: Record, size: JobSize, found: bytes = b"") -> None:
        """Lets the nodes of a job know which ones it has and gets. found: its object, for
        those that arrive."""
        nodes, arriving = self._numbers(record), frozenset(size.arriving)
        places = (*size.places, *size.arriving)
        of_change = (record.number, record.start, size.generation)
        for place in places:
            data = found if place in arriving else b""
            admit = Admit(*of_change, place, nodes, places, data)
            self._send(record.hosts[place], admit)

    def _numbers(self, record: Record) -> Intervals:
        """Returns the numbers of the nodes by place. A node that left the job, and then the
        domain, has that of the root."""
        known = self._members.by_name
        return in_order(known.get(h, known[record.hosts[0]]).number for h in record.hosts)

    def _dismiss(self, record: Record, places: tuple[int, ...]) -> None:
        for name in names_at(record.hosts, places):
            if name in self._members.by_name:
                self._send(name, Dismiss(record.number, record.start))

    def _end_arriving(self, record: Record, size: JobSize, reason: str) -> None:
        """Ends a job on arriving nodes. The tree of their world may be broken, and the root
        has forgotten that world."""
        end = End(record.number, record.start, reason, direct=True)
        for name in names_at(record.hosts, size.arriving):
            self._send(name, end)

    # --- messages of agents ---------------------------------------------------------------

    def take(self, sender: str, message: Admitted | ChangeEnded | JobSensed) -> None:
        """Handles a message of a node; ignores it if the domain does not change sizes any
        more. Raises CoschedError for one that the node may not send."""
        start = self._starts.find(sender, message)
        if start is None:
            return
        if start.record.size is None:
            raise CoschedError(f"job {message.job}: is rigid")
        if not isinstance(message, Admitted):
            start.expect_root(sender)
        if start.waits_for is not None:
            return  # all its nodes end, also those that the change frees
        if self._config.queue.size != MALLEABLE:
            return  # the job began when the domain did
        with must_succeed(f"the size of job {message.job}"):
            match message:
                case Admitted():
                    self._take_admitted(start, sender, message)
                case ChangeEnded():
                    self._take_end(start, message)
                case JobSensed():
                    self._take_sensed(start, message)

    def _take_admitted(self, start: ActiveStart, sender: str, message: Admitted) -> None:
        record, size = start.record, _size_of(start.record)
        change, awaited = size.change, self._awaited.get(record.number, set())
        is_expected = change is not None and change.generation == message.generation
        if change is None or not is_expected or sender not in awaited:
            return  # it answers an earlier life of the controller, or comes too late
        if message.problem:
            self._awaited[record.number] = set()
            self._give_up(start, message.problem)
            return
        awaited.discard(sender)
        if not awaited and not start.is_given_up:
            self._order_root(start, size, change)

    def _order_root(self, start: ActiveStart, size: JobSize, change: OpenChange) -> None:
        record = start.record
        prepare_ns = max(0, self._clock.now_ns() - change.ordered_ns)
        sent = msgspec.structs.replace(change, sent=True, prepare_ns=prepare_ns)
        self._records.save(record, size=size.ordered(sent))
        (ranks,) = record.submission.counts_on(1)
        arriving = tuple(Arriving(place, ranks) for place in size.arriving)
        resize = Resize(
            record.number, record.start, change.generation, size.leaving, arriving
        )
        self._send(start.root, resize)

    def _take_end(self, start: ActiveStart, message: ChangeEnded) -> None:
        size = _size_of(start.record)
        change = size.change
        if change is None or change.generation != message.generation:
            return  # the root repeats what is stored
        if message.refused:
            self._refuse(start, message.refused)
        elif set(message.places) == set(change.after):
            self._finish(start, size, message.times)
        else:  # it is not known which nodes are free
            self._starts.fail(start, f"the root reports places {message.places}")

    def _finish(self, start: ActiveStart, size: JobSize, times: PhaseTimes | None) -> None:
        record, now_ns = start.record, self._clock.now_ns()
        cost_ns = self._store_end(record, size, times=times)
        done = size.done(now_ns, record.started_ns or now_ns)
        self._records.save(record, size=done)
        self._dismiss(record, size.leaving)
        nodes = self._members.numbers(record.nodes)
        self._report(ResizeDone(now_ns, record.number, nodes, cost_ns))
        lost = self._lost.get(record.number)
        self._settle(record.number)
        if lost is not None:
            self._starts.lose(start, lost)

    def _refuse(self, start: ActiveStart, reason: str) -> None:
        record = start.record
        size = _size_of(record)
        self._store_end(record, size, refused=reason)
        self._records.save(record, size=size.refused())
        if record.number in self._lost:
            self._end_arriving(record, size, reason)
        else:
            self._dismiss(record, size.arriving)
        if size.arriving:
            self._send_places(record, size.refused())
        self._settle(record.number)
        self._report(ResizeRefused(self._clock.now_ns(), record.number))
        if reason == LOOP_ENDED:
            self._fix(record)

    def _fix(self, record: Record) -> None:
        """Lets a job keep its nodes from now on: its program has one loop. Otherwise the
        queue would order a change again and again, and count on its nodes for others."""
        sensed, nodes = self._sensed.get(record.number), len(record.nodes)
        predicted = () if sensed is None else sensed.predicted
        wants = (nodes, nodes, 0, predicted)
        self._report(SizeWanted(self._clock.now_ns(), record.number, *wants))

    def _store_end(
        self,
        record: Record,
        size: JobSize,
        *,
        times: PhaseTimes | None = None,
        refused: str = "",
    ) -> int:
        """Stores the end of the open change; returns how long the job stood still."""
        assert size.change is not None
        now_ns = self._clock.now_ns()
        stood_ns = cost_ns(times, now_ns - size.change.ordered_ns)
        left, came = (
            names_at(record.hosts, each) for each in (size.leaving, size.arriving)
        )
        past = PastChange(
            size.change.generation,
            size.change.ordered_ns,
            now_ns,
            len(size.places),
            len(size.places if refused else size.change.after),
            () if refused else left,
            () if refused else came,
            size.change.reason,
            refused,
            stood_ns,
            times,
            size.change.prepare_ns,
        )
        self._records.save_change(record, past)
        return stood_ns

    def _settle(self, number: int) -> None:
        """Forgets what was awaited for a change."""
        self._awaited.pop(number, None)
        self._lost.pop(number, None)
        timer = self._timers.pop(number, None)
        if timer is not None:
            timer.cancel()

    def over(self, record: Record) -> None:
        """Dismisses all nodes of a job whose start is over, and ends its change."""
        size = record.size
        self._settle(record.number)
        self._sensed.pop(record.number, None)
        if size is None:
            return
        self._dismiss(record, (*size.places, *size.arriving))
        if size.change is not None:
            self._store_end(record, size, refused="the job ended")
            self._records.save(record, size=size.refused())

    # --- what the program does and wants --------------------------------------------------

    def _take_sensed(self, start: ActiveStart, message: JobSensed) -> None:
        number, now_ns = start.record.number, self._clock.now_ns()
        more = _since(message, self._sensed.get(number))
        self._sensed[number] = message
        counts = (more.size, more.iterations, more.exec_ns, more.comm_ns)
        self._report(Sensed(now_ns, number, *counts))
        wants = (message.minimum, message.ideal, message.wanted, message.predicted)
        self._report(SizeWanted(now_ns, number, *wants))


def _since(message: JobSensed, last: JobSensed | None) -> JobSensed:
    """Returns a report without what the last one had, if that was of the same size."""
    if last is None or last.size != message.size or last.iterations > message.iterations:
        return message
    return msgspec.structs.replace(
        message,
        iterations=message.iterations - last.iterations,
        exec_ns=max(0, message.exec_ns - last.exec_ns),
        comm_ns=max(0, message.comm_ns - last.comm_ns),
    )


def _size_of(record: Record) -> JobSize:
    assert record.size is not None, f"job {record.number} is rigid"
    return record.size
