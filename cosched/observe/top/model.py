"""What ``cosched top`` shows, from two samples of the nodes' status. Pure.

Fractions are of the time between the samples. A task's time is useful or waiting while its
job is scheduled: waiting is what its MPI calls waited, less its sleep while unscheduled;
useful is the rest. A job's entitlement is an equal part for each job that wants the same
CPUs. Jobs of the same name and owner on several nodes are one job; the nodes agree on
it for the fraction of its time in which it is scheduled on all of them.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from cosched.core.node.messages import Branch, Refusal
from cosched.core.units import NS_PER_S
from cosched.observe.timeline.overlap import Shared, clipped, shared

Status = Mapping[str, Any]
TaskId = tuple[str, int]  #: node and process id

#: How far back is looked: several slices.
WINDOW_NS = 10 * NS_PER_S
HISTORY = 60

_SWITCHED = (Branch.CSW_SWITCHED, Branch.SCH_GRANTED, Branch.TURN_GIVEN)
_REFUSED = tuple(f"sch_refused_{reason.value}" for reason in Refusal)


@dataclass(frozen=True, slots=True)
class Sample:
    """All nodes' status at one time (monotonic seconds; shared clock)."""

    at_s: float
    wall_ns: int
    statuses: Sequence[Status]
    waited_ns: Mapping[TaskId, int] = field(default_factory=dict)

    def after(self, earlier: Sample | None) -> Sample:
        """This sample with each task's waiting while it was scheduled, so far.

        A task counts its sleep while unscheduled at once, but the wait around it when
        that is over; in between the difference goes down. So the most it has been counts.
        """
        known = earlier.waited_ns if earlier else {}
        waited = {
            (status["node"], task["pid"]): task["counters"]["waited_ns"]
            - task["counters"]["paused_ns"]
            for status in self.statuses
            for job in status["jobs"]
            for task in job["tasks"]
        }
        most = {task: max(ns, known.get(task, ns)) for task, ns in waited.items()}
        return replace(self, waited_ns=most)


@dataclass(frozen=True, slots=True)
class NodeRow:
    """One node. Rates are a second; ``running`` names the jobs scheduled now, ``waiting``
    those that the node has no memory for yet."""

    name: str
    slice: str
    gmet: str
    align: bool
    enforced_by: str
    jobs: int
    running: tuple[str, ...]
    waiting: tuple[str, ...]
    switches_rate: float
    refused_rate: float
    daemon_cpu: float
    late_max_us: float


@dataclass(frozen=True, slots=True)
class JobRow:
    """One job on all its nodes. Fractions are of the time that passed."""

    name: str
    uid: int
    nodes: tuple[str, ...]
    tasks: int
    scheduled_on: int
    state: str
    scheduled: float
    entitled: float
    useful: float
    waiting: float
    agreement: float | None
    switches_rate: float
    refused_rate: float
    messages_rate: float

    @property
    def key(self) -> str:
        """What daemons call it."""
        return f"{self.uid}.{self.name}"


@dataclass(frozen=True, slots=True)
class View:
    """Everything at once. ``agreement``: of all jobs of more than one node together."""

    elapsed_s: float
    nodes: tuple[NodeRow, ...]
    jobs: tuple[JobRow, ...]
    agreement: float | None


def view(before: Sample, now: Sample) -> View:
    """What happened between two samples.

    A node or job that the first does not have, or that started anew in between, shows
    no rates yet.
    """
    elapsed_s = now.at_s - before.at_s
    if elapsed_s <= 0:
        raise ValueError("the second sample is not later than the first")
    before = before if before.waited_ns else before.after(None)
    now = now if now.waited_ns else now.after(before)
    old = {status["node"]: status for status in before.statuses}
    nodes = []
    parts: dict[tuple[str, int], list[_Part]] = {}
    for status in sorted(now.statuses, key=lambda s: str(s["node"])):
        earlier = old.get(status["node"])
        if earlier is not None and earlier["pid"] != status["pid"]:
            earlier = None
        nodes.append(_node_row(earlier, status, elapsed_s))
        for part in _parts(earlier, status, before, now):
            parts.setdefault((part.now["name"], part.now["uid"]), []).append(part)
    jobs = tuple(_job_row(parts[who], elapsed_s) for who in sorted(parts))
    together = [_shared(where) for where in parts.values() if len(where) > 1]
    total = Shared(sum(t.all_ns for t in together), sum(t.any_ns for t in together))
    return View(elapsed_s, tuple(nodes), jobs, total.fraction)


def _node_row(before: Status | None, now: Status, elapsed_s: float) -> NodeRow:
    old = (before or now)["counters"]
    grown = {name: max(0, n - old.get(name, 0)) for name, n in now["counters"].items()}
    settings, classes = now["settings"], now["class_scheduler"]
    cpu_s = now["daemon_cpu_s"] - (before or now)["daemon_cpu_s"]
    return NodeRow(
        name=now["node"],
        slice=settings["slice"],
        gmet=settings["gmet"],
        align=settings["align"],
        enforced_by=f"{classes['name']} {classes['mode']}",
        jobs=len(now["jobs"]),
        running=tuple(sorted(job["name"] for job in now["jobs"] if job["scheduled"])),
        waiting=tuple(job["name"] for job in now["waiting"]),
        switches_rate=sum(grown.get(b.value, 0) for b in _SWITCHED) / elapsed_s,
        refused_rate=sum(grown.get(name, 0) for name in _REFUSED) / elapsed_s,
        daemon_cpu=cpu_s / elapsed_s,
        late_max_us=now["timer"]["late_max_us"],
    )


@dataclass(frozen=True, slots=True)
class _Part:
    """A job on one of its nodes: before (the same as now if it is new), and now."""

    node: str
    before: Status
    now: Status
    entitled: float
    intervals: list[tuple[int, int]]
    waited_ns: int

    def grown(self, name: str) -> float:
        """By how much a number of the job has grown."""
        return max(0.0, float(self.now[name] - self.before[name]))

    def refused(self) -> int:
        """How many of its requests were refused meanwhile."""
        return _sum_grown(self.before["refused"], self.now["refused"])

    def sent(self) -> int:
        """How many messages its tasks have sent meanwhile."""
        old = {task["pid"]: task["counters"] for task in self.before["tasks"]}
        return sum(
            max(0, task["counters"]["sent"] - old[task["pid"]]["sent"])
            for task in self.now["tasks"]
            if task["pid"] in old
        )


def _sum_grown(before: Mapping[str, int], now: Mapping[str, int]) -> int:
    return sum(max(0, count - before.get(name, 0)) for name, count in now.items())


def _parts(
    before: Status | None, now: Status, first: Sample, last: Sample
) -> Iterable[_Part]:
    old = {job["key"]: job for job in before["jobs"]} if before else {}
    since_ns = last.wall_ns - WINDOW_NS
    for job in now["jobs"]:
        earlier = old.get(job["key"], job)
        if earlier["scheduled_s"] > job["scheduled_s"]:
            earlier = job  # another one of the same name
        tasks = [(now["node"], task["pid"]) for task in job["tasks"]]
        waited = [
            last.waited_ns[t] - first.waited_ns.get(t, last.waited_ns[t]) for t in tasks
        ]
        rivals = [j for j in now["jobs"] if set(j["cpus"]) & set(job["cpus"])]
        intervals = now.get("scheduled", {}).get(job["key"], ())
        yield _Part(
            node=now["node"],
            before=earlier,
            now=job,
            entitled=1 / max(1, len(rivals)),
            intervals=clipped(intervals, since_ns, last.wall_ns),
            waited_ns=sum(waited),
        )


def _shared(parts: Sequence[_Part]) -> Shared:
    return shared([part.intervals for part in parts])


def _job_row(parts: Sequence[_Part], elapsed_s: float) -> JobRow:
    now = parts[0].now
    tasks = sum(len(part.now["tasks"]) for part in parts)
    # Time of tasks: each task counts its job's time on its node.
    whole_s = elapsed_s * max(1, tasks)
    scheduled_s = min(
        whole_s,
        sum(part.grown("scheduled_s") * len(part.now["tasks"]) for part in parts),
    )
    waited_s = sum(part.waited_ns for part in parts) / NS_PER_S
    waiting_s = min(waited_s, scheduled_s)
    states = Counter(
        part.now.get("state", "on" if part.now["scheduled"] else "off") for part in parts
    )
    switches = sum(part.grown("switches") for part in parts)
    refused = sum(part.refused() for part in parts)
    return JobRow(
        name=now["name"],
        uid=now["uid"],
        nodes=tuple(part.node for part in parts),
        tasks=tasks,
        scheduled_on=sum(bool(part.now["scheduled"]) for part in parts),
        state=states.most_common(1)[0][0],
        scheduled=scheduled_s / whole_s,
        entitled=sum(part.entitled for part in parts) / len(parts),
        useful=(scheduled_s - waiting_s) / whole_s,
        waiting=waiting_s / whole_s,
        agreement=_shared(parts).fraction,
        switches_rate=switches / elapsed_s,
        refused_rate=refused / elapsed_s,
        messages_rate=sum(part.sent() for part in parts) / elapsed_s,
    )


class Recent:
    """The samples of the last while: numbers are of all of it, since within a slice a job
    has the CPUs or has not; trends are of each interval."""

    def __init__(self, window_s: float = WINDOW_NS / NS_PER_S) -> None:
        self.trends = Trends()
        self._window_s = window_s
        self._samples: deque[Sample] = deque()

    def add(self, sample: Sample) -> View | None:
        """Takes a sample, later than those before; None for the first."""
        samples = self._samples
        sample = sample.after(samples[-1] if samples else None)
        if samples:
            self.trends.add(view(samples[-1], sample))
        samples.append(sample)
        while len(samples) > 2 and samples[1].at_s <= sample.at_s - self._window_s:
            samples.popleft()
        return view(samples[0], sample) if len(samples) > 1 else None

    def forget(self) -> None:
        """Begins anew, where samples are missing; trends stay."""
        self._samples.clear()


class Trends:
    """The share of each job in the last views, for sparklines. Keyed like ``JobRow``."""

    def __init__(self, length: int = HISTORY) -> None:
        self._length = length
        self._shares: dict[str, deque[float]] = {}

    def add(self, seen: View) -> None:
        """Takes a view; forgets jobs that it does not have."""
        self._shares = {
            job.key: self._shares.get(job.key, deque(maxlen=self._length))
            for job in seen.jobs
        }
        for job in seen.jobs:
            self._shares[job.key].append(job.scheduled)

    def of(self, key: str) -> tuple[float, ...]:
        """Oldest first."""
        return tuple(self._shares.get(key, ()))
