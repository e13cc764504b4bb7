"""Converts a node's status into Prometheus metrics, by the conventions of Prometheus: base
units, ``_total`` for counters, one metric with labels for several kinds of one thing.

Counters start at 0 with the daemon, whose start is ``cosched_start_time_seconds``. The
counters of a job end with the job. Jobs have few labels (series.py).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from cosched.core.node.messages import Branch, Refusal
from cosched.core.units import NS_PER_S
from cosched.node.sockets.client import request
from cosched.observe.series import JobLabels, Labels
from cosched.rundir.paths import NodePaths

#: The daemon gets at most one question in this time, however often Prometheus asks.
FRESH_S = 0.5

SWITCHES = {
    "slice": Branch.CSW_SWITCHED,
    "message": Branch.SCH_GRANTED,
    "given": Branch.TURN_GIVEN,
}
REFUSALS = {reason.value: f"sch_refused_{reason.value}" for reason in Refusal}
# Not "job": Prometheus adds a label of that name to every sample.
_JOB = ("job_name", "uid", "lane")
#: Nodes report which jobs had the CPUs at the last multiple of this by the wall clock.
MARK_NS = 30 * NS_PER_S
#: Task counters whose sum is a job's metric: name, counter, size of the unit, help.
_TASK_SUMS = (
    ("messages_sent", "sent", 1, "Messages that carried a status"),
    ("messages_received", "received", 1, "Messages whose status was read"),
    ("messages_trapped", "trapped", 1, "Arrivals from a scheduled peer while unscheduled"),
    ("requests_posted", "posted", 1, "Requests to be scheduled that tasks posted"),
    ("waits", "waits", 1, "Blocking calls that did not complete at once"),
    ("wait_seconds", "waited_ns", 1e9, "Time of the tasks inside calls that wait"),
    ("paused_seconds", "paused_ns", 1e9, "Time that unscheduled waiting tasks slept"),
)

Status = Mapping[str, Any]
Labelled = tuple[Status, Labels]


class NodeCollector(Collector):
    """Asks the node's daemon when Prometheus asks."""

    def __init__(self, paths: NodePaths) -> None:
        self._paths = paths
        self._lock = threading.Lock()
        self._asked_s = 0.0
        self._labels = JobLabels()
        self._status: Status = {}

    def describe(self) -> Iterable[Metric]:
        """Returns nothing: at registration the daemon may not serve yet."""
        return ()

    def collect(self) -> Iterator[Metric]:
        """Returns the metrics now; raises CoschedError if the daemon does not answer."""
        with self._lock:
            if time.monotonic() - self._asked_s > FRESH_S or not self._status:
                since_wall_ns = last_mark_ns(time.time_ns())
                self._status = request(self._paths, "status", since_wall_ns=since_wall_ns)
                self._asked_s = time.monotonic()
            labelled = list(self._labels.label(self._status["jobs"], self._asked_s))
            status = self._status
        return metrics_of(status, time.time(), labelled)


def last_mark_ns(wall_ns: int) -> int:
    """Returns the last moment of which all nodes report the scheduled jobs."""
    return wall_ns - wall_ns % MARK_NS


def metrics_of(status: Status, now_s: float, jobs: Iterable[Labelled]) -> Iterator[Metric]:
    """Returns all metrics of a status that was read at ``now_s`` (seconds since 1970).

    ``jobs``: those of the status that have series, with their labels.
    """
    yield from _node_metrics(status, now_s)
    yield from _decision_metrics(status["counters"])
    yield from _timer_metrics(status["timer"])
    yield from _expectation_metrics(status["expectations"])
    yield from _job_metrics(jobs)
    yield _marks(status, jobs)


def _node_metrics(status: Status, now_s: float) -> Iterator[Metric]:
    classes, settings = status["class_scheduler"], status["settings"]
    yield _one("cosched_build_info", "Version", labels={"version": status["version"]})
    yield _one(
        "cosched_node_info",
        "Node, and what enforces the shares",
        labels={
            "node": status["node"],
            "class_scheduler": classes["name"],
            "mode": classes["mode"],
        },
    )
    yield _one(
        "cosched_settings_lent", "Settings on loan to a bench", len(settings["lent"])
    )
    start_s = now_s - status["uptime_s"]
    yield _one("cosched_start_time_seconds", "Start of the scheduler daemon", start_s)
    yield _counter(
        "cosched_daemon_cpu_seconds", "CPU time of the daemon", status["daemon_cpu_s"]
    )
    yield _one(
        "cosched_slice_seconds",
        "Slice, or the least one where it adapts",
        settings["slice_s"],
    )
    yield _one("cosched_gmet_seconds", "Guaranteed time, or its least", settings["gmet_s"])
    yield _one(
        "cosched_align", "1: slices start at wall-clock multiples", settings["align"]
    )
    jobs = status["jobs"]
    yield _one("cosched_jobs", "Jobs on the node", len(jobs))
    yield _one("cosched_tasks", "Their tasks here", sum(len(j["tasks"]) for j in jobs))
    waiting, memory = len(status["waiting"]), status["memory"]
    yield _one("cosched_jobs_waiting", "Jobs that wait for memory", waiting)
    usable, free = memory["usable_bytes"], memory["free_bytes"]
    yield _one("cosched_memory_usable_bytes", "Memory that jobs may have", usable)
    yield _one("cosched_memory_free_bytes", "What is left of it", free)


def _decision_metrics(counters: Mapping[str, int]) -> Iterator[Metric]:
    switches = CounterMetricFamily(
        "cosched_switches", "Switches of the CPUs to another job", labels=["cause"]
    )
    for cause, branch in SWITCHES.items():
        switches.add_metric([cause], counters.get(branch.value, 0))
    yield switches
    refused = CounterMetricFamily(
        "cosched_requests_refused", "Requests to be scheduled, refused", labels=["reason"]
    )
    for reason, branch_name in REFUSALS.items():
        refused.add_metric([reason], counters.get(branch_name, 0))
    yield refused
    granted = counters.get(Branch.SCH_GRANTED.value, 0)
    yield _counter("cosched_requests_granted", "Requests to be scheduled, granted", granted)
    started = counters.get(Branch.REG_NEW_JOB.value, 0)
    yield _counter("cosched_jobs_registered", "Jobs that came to the node", started)


def _timer_metrics(timer: Mapping[str, Any]) -> Iterator[Metric]:
    yield _counter("cosched_timer_ticks", "Ends of slices", timer["ticks"])
    yield _counter("cosched_timer_restarts", "Timer daemons that died", timer["restarts"])
    late_s = timer["ticks"] * timer["late_mean_us"] / 1e6
    yield _counter("cosched_timer_late_seconds", "Lateness of all ends of slices", late_s)


def _expectation_metrics(expectations: Mapping[str, float]) -> Iterator[Metric]:
    ended = CounterMetricFamily(
        "cosched_jobs_ended", "Jobs that ended with a complete record", labels=["expected"]
    )
    ended.add_metric(["yes"], expectations["known"])
    ended.add_metric(["no"], expectations["unknown"])
    yield ended
    met, error_s = expectations["met"], expectations["error_s"]
    yield _counter("cosched_expectations_met", "Expectations met within a quarter", met)
    about = "Differences of expected and real lengths"
    yield _counter("cosched_expectation_error_seconds", about, error_s)
    about = "Lengths of jobs with an expectation"
    yield _counter("cosched_expected_jobs_seconds", about, expectations["scheduled_s"])


def _marks(status: Status, jobs: Iterable[Labelled]) -> Metric:
    """Returns whether each job had the CPUs at the last mark before the status was read."""
    mark_ns = last_mark_ns(status["wall_ns"])
    family = GaugeMetricFamily(
        "cosched_job_scheduled_mark",
        "1 if the job had the CPUs at the last full 30 s of the wall clock",
        labels=_JOB,
    )
    for job, labels in jobs:
        spans = status["scheduled"].get(job["key"], ())
        on = [from_ns <= mark_ns < (to_ns or status["wall_ns"]) for from_ns, to_ns in spans]
        family.add_metric(labels, float(any(on)))
    return family


def _job_metrics(jobs: Iterable[Labelled]) -> Iterator[Metric]:
    gauges = {
        "scheduled": GaugeMetricFamily(
            "cosched_job_scheduled", "1 while the job has the CPUs", labels=_JOB
        ),
        "share": GaugeMetricFamily(
            "cosched_job_share_ratio", "Share of its CPUs now", labels=_JOB
        ),
    }
    counters = {
        name: CounterMetricFamily(f"cosched_job_{name}", about, labels=_JOB)
        for name, about in (
            ("scheduled_seconds", "Time for which the job had the CPUs"),
            ("cpu_seconds", "CPU time of its tasks here"),
            ("filled_seconds", "Waits of the job that other jobs filled"),
            ("fills_seconds", "Waits of other jobs that the job filled"),
            ("switches", "Times it was given the CPUs"),
            ("requests_granted", "Requests of it, granted"),
            *((name, about) for name, _, _, about in _TASK_SUMS),
        )
    }
    refused = CounterMetricFamily(
        "cosched_job_requests_refused", "Requests of it, refused", labels=[*_JOB, "reason"]
    )
    for job, who in jobs:
        gauges["scheduled"].add_metric(who, float(job["scheduled"]))
        if job["share_percent"] is not None:
            gauges["share"].add_metric(who, job["share_percent"] / 100)
        counters["scheduled_seconds"].add_metric(who, job["scheduled_s"])
        if job["cpu_s"] is not None:
            counters["cpu_seconds"].add_metric(who, job["cpu_s"])
        for name in ("filled", "fills"):
            counters[f"{name}_seconds"].add_metric(who, job["filling"][f"{name}_s"])
        counters["switches"].add_metric(who, job["switches"])
        counters["requests_granted"].add_metric(who, job["granted"])
        for name, counter, size, _ in _TASK_SUMS:
            # Includes tasks that have left, since a counter must not fall.
            total = job["left"].get(counter, 0)
            total += sum(task["counters"][counter] for task in job["tasks"])
            counters[name].add_metric(who, total / size)
        for reason, count in job["refused"].items():
            refused.add_metric([*who, reason], count)
    yield from gauges.values()
    yield from counters.values()
    yield refused


def _one(
    name: str, about: str, value: float = 1, labels: Mapping[str, str] | None = None
) -> Metric:
    family = GaugeMetricFamily(name, about, labels=list(labels or {}))
    family.add_metric(list((labels or {}).values()), float(value))
    return family


def _counter(name: str, about: str, value: float) -> Metric:
    return CounterMetricFamily(name, about, value=float(value))
