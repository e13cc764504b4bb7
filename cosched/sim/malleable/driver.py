"""Drives the queue with a stream of malleable jobs, in virtual time.

Each change has the cost that the queue expects. Unless it knows less (``true_times``), each
job ends when the queue expects it, too. Resizing a job changes its end. The end on
the heap may therefore be out of date: one that comes too early is put off, one that comes
too late is ignored. As in the paper, a decision follows each arrival and each end.

Usually a change is done at once; then the job stands still for its cost. Changes may also
last, as in a domain (``lasts``): the job keeps its nodes until then, stands still at the
end of that time, and a start that needs its nodes waits. A job is suspended, and continues,
at once and at no cost. Starts that need its nodes follow at the next tick of the same
moment.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from cosched.core.cluster.queue.machine import QueueMachine
from cosched.core.cluster.queue.nodes import count
from cosched.core.cluster.queue.order import FCFS
from cosched.core.cluster.queue.places.elastic import Elastic
from cosched.core.cluster.queue.plans.exchange import SizeCounts
from cosched.core.cluster.queue.plans.malleable import Malleable
from cosched.core.cluster.queue.plans.planner import Planner
from cosched.core.cluster.queue.policies import Policy
from cosched.core.cluster.queue.queue_commands import (
    ContinueJob,
    ResizeJob,
    StartJob,
    SuspendJob,
)
from cosched.core.cluster.queue.queue_events import (
    Event,
    JobContinued,
    JobEnded,
    JobSubmitted,
    JobSuspended,
    ResizeDone,
    Ticked,
)
from cosched.core.cluster.queue.sizes.execution import FREE, AdaptationCost, linear
from cosched.core.cluster.queue.sizes.malleable_job import MalleableJob
from cosched.core.cluster.queue.sizes.resizable_run import Before
from cosched.core.cluster.queue.sizes.settings import SizePolicy
from cosched.sim.malleable.true_times import (
    KNOWN,
    AsExpected,
    Courses,
    Knowledge,
    OwnCourses,
)
from cosched.sim.virtual_time import (
    END,
    NEVER,
    Progress,
    VirtualTime,
    no_progress,
    submit_in_order,
)


@dataclass(frozen=True, slots=True)
class MalleableSchedule:
    """The times and the changes of the jobs of a stream, by place in it."""

    submit_ns: array[int]  #: when each job was submitted, virtual time
    start_ns: array[int]  #: when each job started
    end_ns: array[int]  #: when each job ended
    harvests: array[int]  #: how often each job gave up nodes
    counts: SizeCounts  #: the planner's changes of size


class MalleableDomain:
    """Feeds a stream of jobs to a queue. A job's number is its place in the stream.

    jobs: as the queue takes them. courses: when they end; None: when the queue expects it.
    lasts: the time from the order of a change until its nodes are free or in use, which
    includes the time that the job stands still for it.
    """

    def __init__(
        self,
        engine: VirtualTime,
        jobs: Sequence[MalleableJob],
        queue: QueueMachine,
        courses: Courses | None = None,
        lasts: AdaptationCost = FREE,
    ) -> None:
        assert isinstance(queue.planner, Malleable)
        self.schedule = MalleableSchedule(
            submit_ns=array("q", [job.submit_ns for job in jobs]),
            start_ns=array("q", [NEVER]) * len(jobs),
            end_ns=array("q", [NEVER]) * len(jobs),
            harvests=array("q", [0]) * len(jobs),
            counts=queue.planner.counts,
        )
        self._engine = engine
        self._jobs = jobs
        self._queue = queue
        self._running = queue.planner.running
        self._courses = courses or AsExpected(queue.planner)
        self._lasts = lasts
        self.ended = 0  #: the number of jobs that have ended
        self._planned_ns = array("q", [NEVER]) * len(jobs)  # the earliest on the heap
        submit_in_order(engine, self.schedule.submit_ns, self._submit)

    def _submit(self, place: int) -> None:
        self._feed(JobSubmitted(self._engine.now_ns, self._jobs[place]))

    def _end(self, place: int) -> None:
        now_ns = self._engine.now_ns
        if self._planned_ns[place] != now_ns:
            return  # the job ended, or an earlier end is on the heap
        end_ns = self.schedule.end_ns[place]
        if end_ns > now_ns:
            self._planned_ns[place] = end_ns
            self._engine.at(end_ns, END, self._end, place)
            return
        self._planned_ns[place] = NEVER
        self.schedule.harvests[place] = self._running[place].harvests
        self.ended += 1
        self._feed(JobEnded(now_ns, place))

    def _feed(self, event: Event) -> None:
        self._queue.handle(event)
        self._decide()

    def _decide(self) -> None:
        """Carries out what the queue decides, until it decides nothing more."""
        queue, now_ns = self._queue, self._engine.now_ns
        changing = True
        while changing:
            changing = False
            for command in queue.handle(Ticked(now_ns)):
                if isinstance(command, StartJob):
                    changing |= self._start(command)
                elif isinstance(command, ResizeJob):
                    changing |= self._resize(command)
                elif isinstance(command, SuspendJob):
                    self._planned_ns[command.number] = NEVER  # its end is not known
                    self._courses.suspended(command.number)
                    queue.handle(JobSuspended(now_ns, command.number))
                    changing = True
                elif isinstance(command, ContinueJob):
                    queue.handle(JobContinued(now_ns, command.number))
                    self._courses.continued(command.number)
                    self._plan_end(command.number)
                    changing = True

    def _start(self, command: StartJob) -> bool:
        """Starts a job; returns whether the queue decides again."""
        place = command.job.number
        self.schedule.start_ns[place] = self._engine.now_ns
        reported = self._courses.started(place, count(command.nodes))
        self._plan_end(place)
        return reported

    def _resize(self, command: ResizeJob) -> bool:
        """Orders a change; returns whether it is done."""
        place, now_ns = command.number, self._engine.now_ns
        held = self._open_change(place).held
        lasts_ns = self._lasts.ns(held, count(command.nodes))
        if lasts_ns:
            self._plan_end(place)
            self._engine.at(now_ns + lasts_ns, END, self._end_change_later, command)
            return False
        self._end_change(command)
        return True

    def _end_change_later(self, command: ResizeJob) -> None:
        """Ends a change that has lasted, unless its job has ended."""
        if command.number in self._running:
            self._end_change(command)
            self._decide()

    def _end_change(self, command: ResizeJob) -> None:
        place, now_ns = command.number, self._engine.now_ns
        cost_ns = self._open_change(place).cost_ns
        self._queue.handle(ResizeDone(now_ns, place, command.nodes, cost_ns))
        self._courses.resized(place, count(command.nodes), cost_ns)
        self._plan_end(place)

    def _open_change(self, place: int) -> Before:
        before = self._running[place].before
        assert before is not None
        return before

    def _plan_end(self, place: int) -> None:
        end_ns = self._courses.end_ns(place)
        self.schedule.end_ns[place] = end_ns
        planned_ns = self._planned_ns[place]
        if planned_ns == NEVER or end_ns < planned_ns:
            self._planned_ns[place] = end_ns
            self._engine.at(end_ns, END, self._end, place)


def simulate(
    jobs: Sequence[MalleableJob],
    nodes: int,
    sizes: SizePolicy,
    plan: type[Planner],
    knowledge: Knowledge = KNOWN,
    seed: int = 0,
    lasts: AdaptationCost = FREE,
    progress: Progress = no_progress,
) -> MalleableSchedule:
    """Runs a stream of jobs, sorted by submission, on a machine of ``nodes`` nodes.

    knowledge: that of the queue about the jobs' run times. seed: draws the errors of
    predictions. lasts: the time that a change takes, as in ``MalleableDomain``. Raises
    ValueError for changes that last if the queue does not know the run times: the courses
    of such jobs would count the cost of a change twice.
    """
    if lasts != FREE and not knowledge.is_full:
        raise ValueError("changes that last need a queue that knows the run times")
    engine = VirtualTime()
    queue = QueueMachine(Elastic(((0, nodes - 1),)), Policy(FCFS, plan, sizes))
    if knowledge.is_full:
        domain = MalleableDomain(engine, jobs, queue, lasts=lasts)
    else:
        courses = OwnCourses(engine, queue, jobs, knowledge, seed)
        plain = [replace(job, execution=linear) for job in jobs]  # as in a domain
        domain = MalleableDomain(engine, plain, queue, courses)
    engine.run(lambda: progress(domain.ended / len(jobs)))
    return domain.schedule
