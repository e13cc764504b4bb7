"""Measures the cost of an array in the queue and the job store, as ratios in one process.

An array is submitted once, and the same number of jobs one by one, into stores of their
own. Then a pass of the queue is timed while an array waits: one with a bound, whose tasks
are kept back, one without, whose tasks all wait, and a single job. Each pass follows the
end of a job, so it looks at the whole queue. Medians; the ways take turns.
"""

from __future__ import annotations

import argparse
import secrets
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.experiment import Bench, positive
from cosched.cluster.record import Record, State
from cosched.cluster.store import JobStore
from cosched.cluster.submission import Submission
from cosched.core.cluster.queue.batches import Terms
from cosched.core.cluster.queue.job import Job
from cosched.core.cluster.queue.machine import QueueMachine
from cosched.core.cluster.queue.places.ledger import Ledger
from cosched.core.cluster.queue.policies import POLICIES
from cosched.core.cluster.queue.queue_commands import StartJob
from cosched.core.cluster.queue.queue_events import JobEnded, JobSubmitted, Ticked
from cosched.tables import table

_NODES = 8
_AT_ONCE = 16
_WALLTIME_NS = 10**12
#: The variables of a usual shell.
_ENVIRON = {f"VARIABLE_{number}": "x" * 60 for number in range(60)}


def _record(array: str = "") -> Record:
    job = Submission(
        token=secrets.token_hex(12),
        name="a",
        argv=("/bin/true",),
        environ=_ENVIRON,
        cwd="/",
        array=array,
    )
    return Record(0, 1000, 1000, job, time.time_ns(), State.QUEUED)


def store_times(folder: Path, tasks: int, repeat: int) -> tuple[float, float]:
    """Returns the seconds in which a store takes an array, and as many single jobs."""
    ways: tuple[list[float], list[float]] = ([], [])
    for number in range(repeat):
        store = JobStore(folder / f"jobs-{number}.sqlite", ["n0"])
        record = _record(f"1-{tasks}")
        singles = [_record() for _ in range(tasks)]
        began = time.perf_counter()
        store.add_array(record.submission.token, record, range(1, tasks + 1))
        between = time.perf_counter()
        for each in singles:
            store.add(each.submission.token, each)
        ways[0].append(between - began)
        ways[1].append(time.perf_counter() - between)
        store.close()
    return statistics.median(ways[0]), statistics.median(ways[1])


class Passes:
    """A queue with an array, whose running tasks end one after the other."""

    def __init__(self, tasks: int, at_once: int) -> None:
        self._queue = QueueMachine(Ledger(((0, _NODES - 1),)), POLICIES["easy"])
        self._now_ns = 0
        self._running: list[int] = []
        terms = Terms(1, at_once) if at_once else None
        for number in range(1, tasks + 1):
            job = Job(number, 1, _WALLTIME_NS, 0)
            self._queue.handle(JobSubmitted(0, job, terms))
        self.tick()

    def tick(self) -> None:
        """Ends a job, if one runs, and makes a pass."""
        self._now_ns += 1
        if self._running:
            self._queue.handle(JobEnded(self._now_ns, self._running.pop(0)))
        for command in self._queue.handle(Ticked(self._now_ns)):
            if isinstance(command, StartJob):
                self._running.append(command.job.number)


def pass_times(tasks: int, repeat: int) -> dict[str, float]:
    """Returns the median seconds of a pass, by what waits."""
    ways = {
        "one job": Passes(_NODES + repeat + 1, 0),
        "array with %": Passes(tasks, _AT_ONCE),
        "array without %": Passes(tasks, 0),
    }
    found: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(repeat):
        for name, queue in ways.items():
            began = time.perf_counter()
            queue.tick()
            found[name].append(time.perf_counter() - began)
    return {name: statistics.median(times) for name, times in found.items()}


def run(options: argparse.Namespace) -> tuple[list[str], object]:
    """Returns all ratios, and a table of them."""
    with tempfile.TemporaryDirectory(prefix="cosched-arrays-") as folder:
        array_s, singles_s = store_times(Path(folder), options.tasks, options.repeat)
    passes = pass_times(options.queued, options.passes)
    few_s = passes["one job"]
    found: dict[str, Any] = {
        "submissions_per_s": options.tasks / singles_s,
        "tasks_of_an_array_per_s": options.tasks / array_s,
        "array_to_single_jobs": array_s / singles_s,
        "pass_s": passes,
        "pass_with_bound_to_few": passes["array with %"] / few_s,
        "pass_without_bound_to_few": passes["array without %"] / few_s,
    }
    rows = [
        ("storing an array / single jobs", options.tasks, found["array_to_single_jobs"]),
        (
            "a pass, array with % / few jobs",
            options.queued,
            found["pass_with_bound_to_few"],
        ),
        ("the same without %", options.queued, found["pass_without_bound_to_few"]),
    ]
    shown = [(what, str(tasks), f"{ratio:.3f}") for what, tasks, ratio in rows]
    return table(("ratio", "tasks", "value"), shown, "<>>"), found


def main() -> None:
    """Runs the benchmark."""
    bench = Bench("arrays", __doc__, "--tasks 1000 --queued 10000")
    bench.add_argument("--tasks", type=positive, default=1000, help="stored (1000)")
    bench.add_argument("--queued", type=positive, default=10_000, help="in a queue (10000)")
    bench.add_argument("--passes", type=positive, default=400, help="timed (400)")
    bench.add_repeat(5, "stores")
    bench.run(run)


if __name__ == "__main__":
    main()
