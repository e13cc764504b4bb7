"""Computes the figures of ``cosched top`` from two samples of the nodes' status. Pure.

Fractions are of the time between the samples. While its job is scheduled, a task either
waits or does useful work: it waits as long as its MPI calls wait, less its sleep while
unscheduled. A job is entitled to an equal part of its CPUs, one part for each job that
wants them. Jobs of the same name and owner on several nodes are one job. The nodes agree
on it for the fraction of its time in which it is scheduled on all of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from cosched.core.node.messages import Branch, Refusal
from cosched.core.units import NS_PER_S
from cosched.observe.timeline.overlap import Shared, clipped, shared
from cosched.observe.top.sample import Sample, Status

#: The time that figures cover: several slices.
WINDOW_NS = 10 * NS_PER_S

_SWITCHED = (Branch.CSW_SWITCHED, Branch.SCH_GRANTED, Branch.TURN_GIVEN)
_REFUSED = tuple(f"sch_refused_{reason.value}" for reason in Refusal)


@dataclass(frozen=True, slots=True)
class NodeRow:
    """One node. Rates are a second."""

    name: str  #: its host name
    slice: str  #: the slice as ``config set`` has it
    gmet: str  #: the GMET as ``config set`` has it
    align: bool  #: its slices start at multiples of the slice
    enforced_by: str  #: the class scheduler and its mode
    jobs: int  #: the number of its jobs, without those that wait for memory
    running: tuple[str, ...]  #: the names of the jobs that are scheduled now; (): none
    waiting: tuple[str, ...]  #: the names of jobs that wait for memory; (): none
    switches_rate: float  #: switches to a job, a second
    refused_rate: float  #: requests for a switch that were refused, a second
    daemon_cpu: float  #: the CPU time of its daemon, as a fraction of the time that passed
    late_max_us: float  #: how late its timer was at most, in microseconds


@dataclass(frozen=True, slots=True)
class JobRow:
    """One job on all its nodes. The time is that between the two samples."""

    name: str  #: the job's name
    uid: int  #: the job's user
    nodes: tuple[str, ...]  #: the nodes that it is on
    tasks: int  #: the number of its tasks on all nodes
    scheduled_on: int  #: the number of nodes on which it is scheduled now
    state: str  #: its state on most of its nodes
    #: The fraction of the time in which its tasks were scheduled.
    scheduled: float
    #: Its equal part of the time on its CPUs, a fraction, the mean of its nodes.
    entitled: float
    #: The fraction of the time in which its tasks were scheduled and did not wait.
    useful: float
    #: The fraction of the time in which its tasks were scheduled and waited.
    waiting: float
    #: The fraction of its waits that other jobs filled; None if it did not wait.
    filled: float | None
    #: How long after its command it began on its first node; None: unknown.
    began_after_s: float | None
    #: The time on all its nodes, as a fraction of the time on any; None if it did not run.
    agreement: float | None
    switches_rate: float  #: switches to the job, a second, a sum over the nodes
    refused_rate: float  #: its requests that were refused, a second, a sum over the nodes
    messages_rate: float  #: messages that its tasks sent, a second
    ran_s: float  #: how long it was scheduled until now, on the node where that is longest
    #: How long it will be scheduled in all, on the node where that is longest; None:
    #: unknown.
    expected_s: float | None

    @property
    def key(self) -> str:
        """The job's key in the daemons."""
        return f"{self.uid}.{self.name}"


@dataclass(frozen=True, slots=True)
class View:
    """All figures."""

    elapsed_s: float  #: the time between the two samples, in seconds
    nodes: tuple[NodeRow, ...]  #: the nodes, in the order of their names
    jobs: tuple[JobRow, ...]  #: the jobs, in the order of their names and users
    #: The agreement of all jobs on more than one node; None if none of them ran.
    agreement: float | None


def view(before: Sample, now: Sample) -> View:
    """Compares two samples.

    A node or job that is not in the first sample, or that restarted between the two, has
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
    """A job on one of its nodes. before: equal to ``now`` if the job is new."""

    node: str
    before: Status
    now: Status
    entitled: float
    intervals: list[tuple[int, int]]
    waited_ns: int

    def grown(self, name: str) -> float:
        """Returns the increase of a number of the job."""
        return max(0.0, float(self.now[name] - self.before[name]))

    def grown_filling(self, name: str) -> float:
        """Returns the increase of a number in ``filling``; 0 if a daemon has none."""
        before, now = (status.get("filling", {}) for status in (self.before, self.now))
        return max(0.0, float(now.get(name, 0) - before.get(name, 0)))

    def refused(self) -> int:
        """Returns how many of its requests were refused between the samples."""
        return _sum_grown(self.before["refused"], self.now["refused"])

    def sent(self) -> int:
        """Returns how many messages its tasks sent between the samples."""
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
            earlier = job  # a new job of the same name
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


def _expected_s(part: _Part) -> float:
    """Returns the expected length of a job on one node, 0 if it is unknown."""
    return float(part.now.get("order", {}).get("expected_s") or 0)


def _filled(parts: Sequence[_Part]) -> float | None:
    """Returns which part of a job's waits other jobs filled between the samples."""
    waits_s = sum(part.grown_filling("waits_s") for part in parts)
    filled_s = sum(part.grown_filling("filled_s") for part in parts)
    return min(1.0, filled_s / waits_s) if waits_s else None


def _job_row(parts: Sequence[_Part], elapsed_s: float) -> JobRow:
    now = parts[0].now
    tasks = sum(len(part.now["tasks"]) for part in parts)
    # The sum over tasks: each task counts its job's time on its node.
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
    began = (part.now.get("began_after_s") for part in parts)
    began_after = [seconds for seconds in began if seconds is not None]
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
        filled=_filled(parts),
        began_after_s=min(began_after, default=None),
        agreement=_shared(parts).fraction,
        switches_rate=switches / elapsed_s,
        refused_rate=refused / elapsed_s,
        messages_rate=sum(part.sent() for part in parts) / elapsed_s,
        ran_s=max(part.now["scheduled_s"] for part in parts),
        expected_s=max(map(_expected_s, parts)) or None,
    )
