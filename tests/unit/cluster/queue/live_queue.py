"""A queue with a model of all that it was given, for tests of random histories.

The model knows the state of each job from the events and the commands alone. Each command
is checked when it comes, and what a pass promises after each tick.
"""

from __future__ import annotations

from dataclasses import dataclass

from msgspec.structs import replace

from cosched.core.cluster.queue.batches import Terms
from cosched.core.cluster.queue.job import Job
from cosched.core.cluster.queue.machine import QueueMachine
from cosched.core.cluster.queue.nodes import Intervals, from_numbers, numbers
from cosched.core.cluster.queue.places.rows import Rows
from cosched.core.cluster.queue.policies import POLICIES
from cosched.core.cluster.queue.queue_commands import (
    DropJobs,
    EndJob,
    LetIn,
    ReservationHit,
    ReserveJob,
    StartJob,
    WakeAt,
    Why,
)
from cosched.core.cluster.queue.queue_events import (
    JobRecovered,
    JobSubmitted,
    NodesDrained,
    NodesLost,
    OutcomeKnown,
    Ticked,
)
from cosched.core.cluster.queue.rules import NO_RULES
from cosched.core.cluster.queue.waiting import arrival

NODES = 4
KEPT, WAITING, RESERVED, RUNNING = "kept back", "waiting", "reserved", "running"
DROPPED = "dropped"  # with a job whose good end it needed


@dataclass
class Known:
    """A job as its events and commands made it. nodes: that it has; since: when it began,
    or got them; limit: when it must end; ordered: why it was ordered to end."""

    job: Job
    state: str
    terms: Terms | None = None
    nodes: frozenset[int] = frozenset()
    since: int = 0
    limit: int | None = None
    ordered: Why | None = None


class LiveQueue:
    """Feeds a queue, and checks its commands."""

    def __init__(self, policy: str, rows: int, grace: int | None) -> None:
        self.policy, self.rows, self.grace = policy, rows, grace
        self.now, self.wake = 0, None
        self.rules = NO_RULES
        self.service = set(range(NODES))
        self.jobs: dict[int, Known] = {}
        self.good_ends: set[int] = set()
        self._make()

    def _make(self) -> None:
        place = Rows(((0, NODES - 1),), self.rows)
        self.queue = QueueMachine(place, POLICIES[self.policy], self.grace)

    # -- for reading -----------------------------------------------------------------------

    def of(self, *states: str) -> list[int]:
        return [number for number, known in self.jobs.items() if known.state in states]

    def inside(self, batch: int) -> int:
        """The number of jobs of a batch that are in the queue or have nodes."""
        return sum(
            known.terms is not None and known.terms.batch == batch
            for known in self.jobs.values()
            if known.state != KEPT
        )

    def jobs_on(self, node: int) -> list[Known]:
        return [known for known in self.jobs.values() if node in known.nodes]

    def needs_of(self, known: Known) -> set[int]:
        """The jobs for which a job waits, and that have not ended yet."""
        terms = known.terms
        return (
            {n for n in terms.after | terms.after_ok if n in self.jobs} if terms else set()
        )

    # -- events ----------------------------------------------------------------------------

    def submit(self, job: Job, terms: Terms | None = None) -> None:
        state = WAITING if terms is None or terms.let_in else KEPT
        self.jobs[job.number] = Known(job, state, terms)
        self.give(JobSubmitted(self.now, job, terms))

    def over(self, number: int, *, ok: bool) -> None:
        """A job has ended for good, and the jobs with it that needed a good end."""
        del self.jobs[number]
        if ok:
            self.good_ends.add(number)
        if self.queue.batches.awaits(number):
            dropped = self._needing_good(number) if not ok else []
            commands = self.give(OutcomeKnown(self.now, number, ok))
            assert [each for c in commands for each in c.numbers] == dropped
            for each in dropped:
                self.over(each, ok=False)

    def _needing_good(self, number: int) -> list[int]:
        kept = {each: self.jobs[each].terms for each in self.of(KEPT)}
        return sorted(each for each, terms in kept.items() if number in terms.after_ok)

    def requeue(self, number: int) -> None:
        known = self.jobs[number]
        known.state, known.nodes, known.limit = WAITING, frozenset(), None

    def begin(self, number: int) -> None:
        """A job begins on its nodes: its walltime counts from now."""
        known = self.jobs[number]
        known.state, known.since = RUNNING, self.now
        self._limit(known)

    def _limit(self, known: Known) -> None:
        known.limit = None
        if self.grace is not None and known.job.limited:
            known.limit = known.since + known.job.walltime_ns + self.grace

    def give(self, event) -> tuple:
        """Delivers an event, and carries out the commands."""
        commands = self.queue.handle(event)
        hits = [c.number for c in commands if isinstance(c, ReservationHit)]
        ends = [c.number for c in commands if isinstance(c, EndJob)]
        if isinstance(event, NodesLost):
            lost = set(numbers(event.nodes))
            hit = [number for number, known in self.jobs.items() if known.nodes & lost]
            assert sorted(hits) == sorted(set(hit) & set(self.of(RESERVED)))
            unordered = [n for n in self.of(RUNNING) if self.jobs[n].ordered is None]
            assert sorted(ends) == sorted(set(hit) & set(unordered))
        else:
            assert not hits
        for command in commands:
            self._carry_out(command)
        return commands

    def _carry_out(self, command) -> None:
        match command:
            case StartJob(job, nodes):
                self._give_nodes(job, nodes)
                assert not job.waits_for_mates
                self.begin(job.number)
            case ReserveJob(job, nodes):
                self._give_nodes(job, nodes)
                assert job.waits_for_mates
                self.jobs[job.number].state = RESERVED
            case EndJob(number, why):
                known = self.jobs[number]
                assert known.state == RUNNING
                assert known.ordered is None
                known.ordered = why
                if why is Why.WALLTIME:
                    assert known.limit <= self.now
            case LetIn(entering):
                for number in entering:
                    self._let_in(self.jobs[number])
            case DropJobs(dropped, because):
                assert {self.jobs[each].state for each in dropped} == {KEPT}
                assert because not in self.good_ends
                for each in dropped:
                    self.jobs[each].state = DROPPED
            case WakeAt(at):
                assert at is None or at > self.now
                self.wake = at

    def _give_nodes(self, job: Job, nodes: Intervals) -> None:
        known, taken = self.jobs[job.number], frozenset(numbers(nodes))
        assert known.state == WAITING
        assert known.job == job
        assert job.submit_ns <= self.now
        assert job.size == len(taken)
        assert taken <= self.service
        for node in taken:
            others = self.jobs_on(node)
            assert len(others) < self.rows
            assert not others or not (self.rows > 1 and job.exclusive)
            assert not any(self.rows > 1 and other.job.exclusive for other in others)
        known.nodes, known.since = taken, self.now

    def _let_in(self, known: Known) -> None:
        assert known.state == KEPT
        assert not self.needs_of(known)
        assert known.terms.after_ok <= self.good_ends
        most = known.terms.at_once
        assert not most or self.inside(known.terms.batch) < most
        submit_ns = max(self.now, known.job.submit_ns)
        known.state, known.job = WAITING, replace(known.job, submit_ns=submit_ns)

    # -- ticks -----------------------------------------------------------------------------

    def tick(self) -> None:
        before = {number: self.jobs[number].job for number in self.of(WAITING)}
        self.give(Ticked(self.now))
        self._jobs_end_in_time()
        self._state_is_that_of_the_queue()
        self._no_job_is_kept_back_longer()
        self._first_job_waits_for_nodes()
        self._first_exclusive_job_waits_for_nodes()
        if self.policy == "fcfs" and self.rows == 1:
            started = [n for n in before if self.jobs[n].state != WAITING]
            self._no_job_passes_an_earlier_one(started)

    def _jobs_end_in_time(self) -> None:
        running = [self.jobs[number] for number in self.of(RUNNING)]
        limits = [k.limit for k in running if k.limit is not None and k.ordered is None]
        assert all(limit > self.now for limit in limits)
        assert not limits or (self.wake is not None and self.wake <= min(limits))

    def _state_is_that_of_the_queue(self) -> None:
        waiting = [self.jobs[number].job for number in self.of(WAITING)]
        assert list(self.queue.waiting) == sorted(waiting, key=arrival)
        assert self.queue.batches.kept == sorted(self.of(KEPT))
        assert set(self.queue.jobs) == set(self.jobs)
        used = {node for known in self.jobs.values() for node in known.nodes}
        assert self.queue.free_for(exclusive=True) == len(self.service - used)

    def _no_job_is_kept_back_longer(self) -> None:
        for number in self.of(KEPT):
            known = self.jobs[number]
            most = known.terms.at_once
            full = most and self.inside(known.terms.batch) >= most
            assert full or self.needs_of(known)

    def _order(self) -> list[Job]:
        """The waiting jobs in the order of the pass, without those that cannot run."""
        jobs = [self.jobs[number].job for number in self.of(WAITING)]
        jobs = sorted(jobs, key=arrival)
        if self.policy == "largest":
            jobs.sort(key=lambda job: -job.size)
        first = list(self.rules.first)
        jobs.sort(
            key=lambda job: (
                first.index(job.number) if job.number in first else len(first),
                job.number in self.rules.last,
            )
        )
        out = self.rules.left_out
        return [
            job for job in jobs if job.number not in out and job.size <= len(self.service)
        ]

    def _first_job_waits_for_nodes(self) -> None:
        """The first job of the order has nodes as soon as enough are free. Conservative
        backfill promises another thing, and the order of wfp changes with time."""
        order = self._order()
        if self.rows == 1 and self.policy in ("fcfs", "easy", "largest") and order:
            assert order[0].size > self._free()

    def _free(self) -> int:
        return len(self.service - {n for k in self.jobs.values() for n in k.nodes})

    def _first_exclusive_job_waits_for_nodes(self) -> None:
        """An exclusive job waits only for earlier jobs that may start, or for nodes."""
        if self.rows == 1:
            return
        order = sorted(
            (j.job for j in self.jobs.values() if j.state == WAITING), key=arrival
        )
        able = [job for job in order if job.size <= len(self.service)]
        skipped = {*self.rules.left_out, *self.rules.last}
        first = next((job for job in able if job.exclusive), None)
        if first is None or any(job.number in self.rules.first for job in able):
            return
        before = able[: able.index(first)]
        if all(job.number in skipped for job in before):
            assert first.size > self._free()

    def _no_job_passes_an_earlier_one(self, started: list[int]) -> None:
        if self.rules or not started:
            return
        last = max(arrival(self.jobs[number].job) for number in started)
        assert all(arrival(job) > last for job in self._order())

    # -- restarts --------------------------------------------------------------------------

    def restart(self) -> None:
        """Makes the queue again from what the store and the agents have."""
        self._make()
        self.wake, self.rules = None, NO_RULES
        out = set(range(NODES)) - self.service
        self.queue.handle(NodesDrained(self.now, from_numbers(out)))
        for number, known in self.jobs.items():
            terms = known.terms
            if terms is not None:
                let_in = known.state != KEPT
                terms = replace(
                    terms,
                    after=frozenset(terms.after & self.jobs.keys()),
                    after_ok=frozenset(terms.after_ok & self.jobs.keys()),
                    let_in=let_in,
                )
            if known.nodes:
                self._recover(known, terms)
            else:
                self.queue.handle(JobSubmitted(self.now, known.job, terms))
            assert number in self.queue.jobs

    def _recover(self, known: Known, terms: Terms | None) -> None:
        waits = known.state == RESERVED
        known.job = replace(known.job, waits_for_mates=waits)
        nodes = from_numbers(known.nodes)
        event = JobRecovered(self.now, known.job, nodes, known.since, terms=terms)
        assert self.queue.handle(event) == ()
        known.ordered = None
        if not waits:
            self._limit(known)
