"""Learns from what nodes saw of jobs that share them: pairs of programs, users' labels.

A report names jobs by their numbers, and its sender is the owner of the key of its link. It
counts for jobs that the sender has or had a part of, and for neighbours that had the other
half of that node. It names no program, user or label: the controller has stored them.

A node sees how much a job is slowed there, and all nodes of a job rest at the same moments.
So what is seen counts for a pair only if the job has one program on all its other halves,
as in the simulator. The slowest node of a run counts.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass, field

from cosched.cluster.engines.native.basics import Basics
from cosched.cluster.engines.native.halves_answers import neighbours_of
from cosched.cluster.engines.native.queueing import application_of, program_of
from cosched.cluster.learned_store import LearnedStore
from cosched.cluster.record import Record
from cosched.cluster.sharing_messages import BesideJob, JobShared, Spent
from cosched.config.symbiosis import SymbiosisSettings
from cosched.core.cluster.queue.machine import QueueMachine
from cosched.core.cluster.queue.queue_events import PairKnown
from cosched.core.counting import counted
from cosched.core.errors import CoschedError
from cosched.core.symbiosis.labels import LabelRecord
from cosched.core.symbiosis.limited import Spending, find_limits, summed
from cosched.core.symbiosis.program_pairs import Pair, PairRecord, PairRun
from cosched.core.symbiosis.resources import Limits, Resource
from cosched.core.units import NS_PER_S

#: Reports about a start come at most so long after the job's end.
LATE_NS = 60 * NS_PER_S
#: Starts of which reports are kept, the last ones.
STARTS_MOST = 4096
#: The time between two looks for old runs, when a job comes or a report arrives.
FORGET_NS = 3600 * NS_PER_S

Start = tuple[int, int]


@dataclass(slots=True)
class _Seen:
    """The reports of nodes about a start."""

    reports: dict[str, JobShared] = field(default_factory=dict)  # the last of each node
    #: The programs that it had beside it on all its nodes at some time, and whether memory
    #: limits them by their labels.
    beside: dict[str, bool] = field(default_factory=dict)
    judged: bool = False


class SharedJobs:
    """The pairs and labels of a domain.

    queue: gets at once what was known before a restart.
    """

    def __init__(
        self,
        basics: Basics,
        settings: SymbiosisSettings,
        store: LearnedStore,
        queue: QueueMachine,
    ) -> None:
        self._records = basics.records
        self._clock = basics.clock
        self._began_ns = self._clock.now_ns()  # this life of the controller
        self._report = basics.report
        self._settings = settings
        self._store = store
        self._queue = queue
        self._labels = LabelRecord(settings.wrong_runs, store.labels())
        self._pairs = PairRecord(store.runs())
        self._seen: OrderedDict[Start, _Seen] = OrderedDict()
        self._harmful_until_ns: dict[Pair, int] = {}
        self._forget_ns = 0
        if settings.divides:
            for pair in self._pairs.pairs():
                queue.handle(self._known(pair))

    def configure(self, settings: SymbiosisSettings) -> None:
        """Applies changed settings from now on."""
        before, self._settings = self._settings, settings
        self._labels.configure(settings.wrong_runs)
        if settings.divides and settings.slowed_most != before.slowed_most:
            self._report_all(self._pairs.pairs())

    # --- reports --------------------------------------------------------------------------

    def take(self, sender: str, message: JobShared) -> int | None:
        """Handles what a node saw. Returns the user whose label was judged; None: none was.
        Raises CoschedError if the sender has no part of it."""
        record = self._known_job(message.job)
        if record is None or record.start != message.start or sender not in record.hosts:
            raise CoschedError(
                f"job {message.job}: {sender} has no part of its start {message.start}"
            )
        if not self._settings.divides or not record.submission.limited_by:
            return None
        key = (message.job, message.start)
        seen = self._seen.setdefault(key, _Seen())
        if seen.judged:
            return None
        seen.reports[sender] = message
        while len(self._seen) > STARTS_MOST:
            self._seen.popitem(last=False)
        self._learn(record, seen, {each.job for each in message.beside})
        ends = (seen.reports.get(host) for host in record.hosts)
        if all(end is not None and end.over for end in ends):
            seen.judged = True
            self._judge(record, seen)
            seen.reports.clear()
        self.forget_old()
        return record.uid if seen.judged else None

    def _known_job(self, number: int) -> Record | None:
        """Returns a job that runs, or ended a moment ago."""
        record = self._records.find(number)
        if record is None or record.ended_ns is None:
            return record
        # Nodes report only now about a job that ended before this life.
        late = self._clock.now_ns() - max(record.ended_ns, self._began_ns) > LATE_NS
        return None if late else record

    def _learn(self, record: Record, seen: _Seen, reported: Iterable[int]) -> None:
        """Keeps the run beside each program of which the last report has a job."""
        now = {application_of(each) for each in self._neighbours(record)}
        changed: dict[str, None] = {}
        for number in sorted(reported):
            other = self._records.find(number)
            if other is None or not _are_neighbours(record, other, seen.reports):
                continue
            application = application_of(other)
            if now == {application}:
                seen.beside[application] = Resource.MEMORY in self.limits_of(other)
            if application in seen.beside:
                changed[application] = None
        for application in changed:
            slowest = self._slowest(seen, application)
            if slowest is not None:
                self._keep(record, application, slowest)

    def _neighbours(self, record: Record) -> list[Record]:
        numbers = neighbours_of(self._queue, record.number)
        return [self._records.live[number] for number in numbers]

    def _slowest(self, seen: _Seen, application: str) -> BesideJob | None:
        """Returns what the node saw where the job is slowed most beside a program; None if
        no last report of a node has it, such as after a restart of the node's daemon."""
        found = []
        for report in seen.reports.values():
            for each in report.beside:
                other = self._records.find(each.job)
                if other is not None and application_of(other) == application:
                    found.append(each)
        return max(found, key=lambda each: each.slowdown, default=None)

    def _keep(self, record: Record, beside: str, slowest: BesideJob) -> None:
        run = PairRun(
            record.number,
            record.start,
            record.uid,
            Pair(application_of(record), beside),
            max(1, slowest.slowdown) / 1000,
            slowest.at_least / 1000,
            self._clock.now_ns(),
        )
        forgotten = self._pairs.add(run)
        self._store.save_run(run, forgotten)
        self._report_all({run.pair, *(each.pair for each in forgotten)})

    def _judge(self, record: Record, seen: _Seen) -> None:
        """Checks the label of a job that has ended on all its nodes."""
        spent = [report.spent for report in seen.reports.values()]
        parts = [_spending(each) for each in spent if each is not None]
        total = summed(parts) if len(parts) == len(spent) else None
        if total is None:
            return
        slowdowns: dict[bool, list[float]] = {True: [], False: []}
        for application, memory in seen.beside.items():
            slowest = self._slowest(seen, application)
            if slowest is not None:
                slowdowns[memory].append(slowest.slowdown / 1000)
        beside = (max(slowdowns[memory], default=None) for memory in (True, False))
        found = find_limits(total, *beside)
        if found is not None:
            words = record.uid, program_of(record), _label(record), found
            kept, forgotten = self._labels.add(*words, self._clock.now_ns())
            self._store.save_label(kept, forgotten)

    # --- what is known --------------------------------------------------------------------

    def limits_of(self, record: Record) -> Limits:
        """Returns by what a job counts as limited: its label, or what earlier runs have
        shown in its place."""
        label = _label(record)
        if not label:
            return label
        return self._labels.effective(record.uid, program_of(record), label)

    def label_text(self, record: Record) -> str:
        """Returns why a job's label has no effect; empty if it has."""
        label, counts = _label(record), self.limits_of(record)
        if counts == label:
            return ""
        kept = self._labels.of(record.uid, program_of(record))
        names = ", ".join(sorted(counts)) or "no label"
        if kept is None or kept.label != label or not kept.wrong:
            return f"counts as {names}: labels of this user's other programs were wrong"
        runs = counted(kept.wrong, "run")
        return f"counts as {names}: its label was wrong in {runs}"

    def pairs(self) -> list[PairKnown]:
        """Returns what is known of pairs. Raises CoschedError if nodes have no halves."""
        if not self._settings.divides:
            raise CoschedError(
                "pairs: the nodes of this domain have no halves; write parts = 2 into "
                "[symbiosis] of domain.toml"
            )
        return [self._known(pair) for pair in self._pairs.pairs()]

    def forget_old(self) -> None:
        """Forgets what is too old, and lets pairs that were harmful be tried again."""
        now_ns = self._clock.now_ns()
        over = [pair for pair, at in self._harmful_until_ns.items() if at <= now_ns]
        if now_ns >= self._forget_ns:
            self._forget_ns = now_ns + FORGET_NS
            forgotten = self._pairs.forget(now_ns)
            self._store.drop_runs(forgotten)
            over += [run.pair for run in forgotten]
        if over:
            self._report_all(set(over))

    def _report_all(self, pairs: Iterable[Pair]) -> None:
        for pair in pairs:
            self._report(self._known(pair))

    def _known(self, pair: Pair) -> PairKnown:
        """Returns what is known of a pair now, for the queue."""
        now_ns = self._clock.now_ns()
        speed, runs, until_ns = self._pairs.known(pair, self._settings.slowed_most)
        self._harmful_until_ns.pop(pair, None)
        if until_ns > now_ns:
            self._harmful_until_ns[pair] = until_ns
        return PairKnown(now_ns, pair, speed, runs, until_ns > now_ns)


def _are_neighbours(one: Record, other: Record, reports: Iterable[str]) -> bool:
    """Returns whether two jobs have or had the two halves of a node that has reported."""
    for host in reports:
        if host in one.hosts and host in other.hosts and one.parts and other.parts:
            parts = (job.parts[job.hosts.index(host)] for job in (one, other))
            if len(set(parts)) > 1:
                return True
    return False


def _label(record: Record) -> Limits:
    return frozenset(map(Resource, record.submission.limited_by))


def _spending(spent: Spent) -> Spending:
    def seconds(ns: int) -> float:
        return ns / NS_PER_S

    def known(ns: int | None) -> float | None:
        return None if ns is None else ns / NS_PER_S

    return Spending(
        seconds(spent.time_ns),
        seconds(spent.messages_ns),
        seconds(spent.blocked_ns),
        seconds(spent.cpu_ns),
        known(spent.stalled_io_ns),
        known(spent.stalled_memory_ns),
        spent.read_bytes,
        spent.written_bytes,
    )
