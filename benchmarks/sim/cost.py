"""Measures what a job costs the queue simulator.

That is its memory at rest, and its CPU time against the number of jobs and queue length.

Times depend on the machine, so each is a multiple of the first of its row; their growth
holds for any machine. Each is the least of some runs. The runs are made in rounds, since a
machine may be slow for as long as a row takes.
"""

from __future__ import annotations

import argparse
import time
import tracemalloc
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from benchmarks.experiment import Bench
from benchmarks.progress_lines import steps_of
from cosched.core.units import NS_PER_S
from cosched.sim.logs.generate import Recipe, generate
from cosched.sim.logs.swf import read_swf
from cosched.sim.logs.workload import Estimates, Workload
from cosched.sim.queue.queue_runs import simulate
from cosched.tables import table

POLICIES = ("fcfs", "easy", "wfp", "conservative")
JOBS = (2_500, 5_000, 10_000, 20_000, 40_000)
QUEUES = (10, 100, 1_000, 3_000)
OVERLOADED_JOBS = (1_000, 2_000, 4_000, 8_000)
LOAD, OVERLOAD = 0.7, 1.2
FEW_JOBS = 300
BY_JOBS, OVERLOADED = "jobs", f"jobs at load {OVERLOAD}"
BY_QUEUE = "jobs that wait"


@dataclass(frozen=True, slots=True)
class Cost:
    """Holds the cost of one simulated queue."""

    policy: str  #: policy of the queue
    count: int  #: number of jobs, or of jobs that wait
    us: float  #: least CPU time a job, in microseconds


def bytes_a_job(log: Workload) -> tuple[float, float]:
    """Memory of the workload, and of the schedule beside it, a job."""
    tracemalloc.start()
    copy = log.moved(0)
    read, _ = tracemalloc.get_traced_memory()
    schedule, _ = simulate(copy, "easy", Estimates.LOG)
    both, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    del schedule
    return read / len(log), both / len(log)


@dataclass(frozen=True, slots=True)
class Case:
    """Describes a run that is timed."""

    table: str  #: title of the table that shows it
    policy: str  #: policy of the queue
    count: int  #: its number on the axis: jobs, or jobs that wait
    log: Workload  #: the jobs

    def cost_us(self) -> float:
        """CPU microseconds a job, once."""
        began_s = time.thread_time()  # not what the progress bar takes beside it
        simulate(self.log, self.policy, Estimates.LOG)
        return (time.thread_time() - began_s) / len(self.log) * 1e6


def queue_of(length: int) -> Workload:
    """One job on the whole machine; ``length`` of its size wait behind it; then short jobs
    that fit nowhere come one by one while it runs."""
    log = Workload("queue", 100)
    day_ns = 86400 * NS_PER_S
    for number in range(1 + length):
        log.append(number, 0, day_ns, 100, day_ns)
    for number in range(FEW_JOBS):
        log.append(1 + length + number, (1 + number) * NS_PER_S, NS_PER_S, 1, NS_PER_S)
    return log


def cases() -> list[Case]:
    """Against the number of jobs, at a load that the machine can bear and at one that it
    cannot, so that ever more wait; and against the queue's length."""

    def generated(table: str, load: float, counts: tuple[int, ...]) -> list[Case]:
        logs = [generate(Recipe(jobs, 128, load=load, seed=3)) for jobs in counts]
        return [Case(table, policy, len(log), log) for policy in POLICIES for log in logs]

    queues = [(length, queue_of(length)) for length in QUEUES]
    return [
        *generated(BY_JOBS, LOAD, JOBS),
        *generated(OVERLOADED, OVERLOAD, OVERLOADED_JOBS),
        *(
            Case(BY_QUEUE, policy, length, log)
            for policy in ("fcfs", "easy", "wfp")
            for length, log in queues
        ),
    ]


def measure(repeats: int) -> dict[str, list[Cost]]:
    """The tables, by their names."""
    timed = cases()
    taken: list[list[float]] = [[] for _ in timed]
    rounds = [*zip(timed, taken, strict=True)] * repeats
    for case, us in steps_of(rounds, "simulations"):
        us.append(case.cost_us())
    found: dict[str, list[Cost]] = {}
    for case, us in zip(timed, taken, strict=True):
        found.setdefault(case.table, []).append(Cost(case.policy, case.count, min(us)))
    return found


def render(title: str, costs: list[Cost]) -> list[str]:
    """Returns a row a policy: CPU time a job as multiples of the first."""
    counts = sorted({cost.count for cost in costs})
    rows = []
    for policy in dict.fromkeys(cost.policy for cost in costs):
        row = {cost.count: cost.us for cost in costs if cost.policy == policy}
        cells = (f"{row[count] / row[counts[0]]:.2f}" for count in counts)
        rows.append((policy, *cells))
    head = (title, *(f"{count:,}" for count in counts))
    return table(head, rows, "<" + ">" * len(counts))


def run(options: argparse.Namespace) -> tuple[Iterator[str], object]:
    """Returns the lines, each as soon as it is known, and all figures."""
    figures: dict[str, object] = {}
    return _run(options, figures), figures


def _run(options: argparse.Namespace, figures: dict[str, object]) -> Iterator[str]:
    log = generate(Recipe(20_000, 128, seed=3))
    if options.trace:
        log = read_swf(options.trace).workload
        began_s = time.process_time()
        simulate(log, "easy", Estimates.LOG)
        taken_s = time.process_time() - began_s
        yield f"{log.name}: {len(log)} jobs, EASY in {taken_s:.1f} s of CPU time"
    read, both = bytes_a_job(log)
    yield f"{read:.0f} bytes a job read, {both:.0f} with its schedule"
    tables = measure(options.repeat)
    for title, costs in tables.items():
        yield from render(title, costs)
    figures |= {
        "bytes_a_job": {"read": read, "with_schedule": both},
        "by_jobs": tables[BY_JOBS],
        "overloaded": tables[OVERLOADED],
        "by_queue": tables[BY_QUEUE],
    }


def main() -> None:
    bench = Bench("cost", __doc__)
    bench.add_argument("trace", type=Path, nargs="?", help="a log to measure besides")
    bench.add_repeat(3, "runs of each")
    bench.run(run)


if __name__ == "__main__":
    main()
