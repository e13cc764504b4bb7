"""Ends simulated jobs at their true times, of which the queue may know less.

The queue knows how long a job runs on its ideal. Its knowledge of other numbers of nodes is
one of these (``Knowledge``):

- known: the true model. Each job then ends when the queue expects it (``AsExpected``);
- fit: as in a domain, twice the time on half the nodes, until iterations on two sizes are
  measured. Then the fit of a/P + bP holds;
- a percentage: the program predicts the time of an iteration when it starts, as Prophet
  does by callbacks (section 3 of the paper). Each time is off by up to this much, up or
  down, drawn for each number of nodes.

With the last two, jobs run by their true models, whatever the queue expects
(``OwnCourses``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Protocol

from cosched.core.cluster.queue.job import JobId
from cosched.core.cluster.queue.machine import QueueMachine
from cosched.core.cluster.queue.plans.malleable import Malleable
from cosched.core.cluster.queue.queue_events import Sensed, SizeWanted
from cosched.core.cluster.queue.sizes.malleable_job import MalleableJob
from cosched.core.cluster.resizing.asked_sizes import asked_sizes
from cosched.core.decoding import is_whole, parse_integer
from cosched.core.errors import CoschedError
from cosched.sim.virtual_time import END, VirtualTime

KNOWN_WORD, FIT_WORD = "known", "fit"
#: No prediction is off by more: its time would be 0.
OFF_MOST = 99
#: The iterations of each job.
ITERATIONS = 1000


@dataclass(frozen=True, slots=True)
class Knowledge:
    """The knowledge of the queue about run times on other nodes than the ideal."""

    name: str  #: its word on the command line
    #: How much the predictions of programs are off, in percent; None: they predict nothing.
    off: int | None = None

    @property
    def is_full(self) -> bool:
        """Returns whether the queue knows the true model."""
        return self.name == KNOWN_WORD


KNOWN = Knowledge(KNOWN_WORD)


def knowledge_of(word: str) -> Knowledge:
    """Returns what a word of the command line means. Raises CoschedError for others."""
    if word in (KNOWN_WORD, FIT_WORD):
        return Knowledge(word)
    number = word.removesuffix("%")
    if not is_whole(number, 0) or len(number) > len(str(OFF_MOST)):
        raise CoschedError(
            f"'{word}' is neither {KNOWN_WORD}, {FIT_WORD} nor a percentage up to "
            f"{OFF_MOST}"
        )
    off = parse_integer(number, "a percentage", 0, OFF_MOST)
    return Knowledge(f"{off}%", off)


class Courses(Protocol):
    """When jobs end."""

    def started(self, place: JobId, size: int) -> bool:
        """Called after a job started with this size; returns whether the queue got a
        report, after which it decides again."""

    def resized(self, place: JobId, size: int, cost_ns: int) -> None:
        """Called after a job changed its size, for which it stands still so long."""

    def suspended(self, place: JobId) -> None:
        """Called after a job was suspended."""

    def continued(self, place: JobId) -> None:
        """Called after a suspended job continued."""

    def end_ns(self, place: JobId) -> int:
        """Returns when a job ends if its size stays."""


class AsExpected:
    """Jobs that end when ``plan`` expects it."""

    def __init__(self, plan: Malleable) -> None:
        self._running = plan.running

    def started(self, place: JobId, size: int) -> bool:
        return False

    def resized(self, place: JobId, size: int, cost_ns: int) -> None:
        pass

    def suspended(self, place: JobId) -> None:
        pass

    def continued(self, place: JobId) -> None:
        pass

    def end_ns(self, place: JobId) -> int:
        return self._running[place].end_ns


@dataclass(slots=True)
class Course:
    """The work of one job that is left."""

    job: MalleableJob  #: with its true model.
    size: int  #: the number of its nodes.
    since_ns: int  #: it works from then on.
    left_ns: float  #: its work at that time: how long it takes on the ideal.

    @property
    def stretch(self) -> float:
        """Returns its run time as a multiple of that on its ideal."""
        return self.job.execution(self.size, self.job.size)

    @property
    def end_ns(self) -> int:
        """Returns when its work is done."""
        return self.since_ns + max(1, round(self.left_ns * self.stretch))

    def work(self, now_ns: int) -> None:
        """Lets it work until now."""
        if now_ns > self.since_ns:
            done_ns = (now_ns - self.since_ns) / self.stretch
            self.left_ns = max(0.0, self.left_ns - done_ns)
            self.since_ns = now_ns


class OwnCourses:
    """The jobs as they truly are, whatever the queue expects of them. Reports to it what
    programs would. seed: draws the errors of predictions."""

    def __init__(
        self,
        engine: VirtualTime,
        queue: QueueMachine,
        jobs: Sequence[MalleableJob],
        knowledge: Knowledge,
        seed: int,
    ) -> None:
        self._engine = engine
        self._queue = queue
        self._jobs = jobs
        self._off = knowledge.off
        self._chance = Random(f"predictions {seed}")
        self._courses: dict[JobId, Course] = {}
        self._measured: set[tuple[JobId, int]] = set()

    def started(self, place: JobId, size: int) -> bool:
        job, now_ns = self._jobs[place], self._engine.now_ns
        self._courses[place] = Course(job, size, now_ns, float(job.walltime_ns))
        if job.minimum == job.size:
            return False
        if self._off is None:
            self._measure_later(place)
            return False
        points = self._predict(job)
        wants = SizeWanted(now_ns, place, job.minimum, job.size, 0, points)
        self._queue.handle(wants)
        return True

    def _predict(self, job: MalleableJob) -> tuple[tuple[int, int], ...]:
        """Returns what a program predicts."""
        assert self._off is not None
        points = []
        for size in asked_sizes(job.minimum, job.size):
            error = self._chance.uniform(-self._off, self._off) / 100
            points.append((size, max(1, round(_iteration_ns(job, size) * (1 + error)))))
        return tuple(points)

    def resized(self, place: JobId, size: int, cost_ns: int) -> None:
        course = self._courses[place]
        course.work(self._engine.now_ns)
        course.size = size
        course.since_ns = max(course.since_ns, self._engine.now_ns) + cost_ns
        if self._off is None:
            self._measure_later(place)

    def suspended(self, place: JobId) -> None:
        self._courses[place].work(self._engine.now_ns)

    def continued(self, place: JobId) -> None:
        course = self._courses[place]
        course.since_ns = max(course.since_ns, self._engine.now_ns)

    def end_ns(self, place: JobId) -> int:
        return self._courses[place].end_ns

    # --- what is measured -----------------------------------------------------------------

    def _measure_later(self, place: JobId) -> None:
        """Measures the first iteration of a job on a size that it has not had."""
        course = self._courses[place]
        job, size = course.job, course.size
        if job.minimum == job.size or (place, size) in self._measured:
            return
        at_ns = course.since_ns + round(_iteration_ns(job, size))
        if at_ns < course.end_ns:
            self._engine.at(at_ns, END, self._measure, (place, size))

    def _measure(self, what: tuple[JobId, int]) -> None:
        place, size = what
        course = self._courses[place]
        self._measured.add(what)
        if course.size == size:
            took_ns = max(1, round(_iteration_ns(course.job, size)))
            self._queue.handle(Sensed(self._engine.now_ns, place, size, 1, took_ns, 0))


def _iteration_ns(job: MalleableJob, size: int) -> float:
    """Returns the true time of an iteration."""
    return job.walltime_ns / ITERATIONS * job.execution(size, job.size)
