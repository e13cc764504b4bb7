"""What a job costs the queue simulator: memory at rest, and CPU time against the number of
jobs and the length of the queue.

Times of a shared machine say nothing by themselves, so each is given as a multiple of the
first of its row. What holds for any machine: how they grow. Each is the least of some runs.
"""

from __future__ import annotations

import argparse
import json
import time
import tracemalloc
from dataclasses import asdict, dataclass
from pathlib import Path

from cosched.core.units import NS_PER_S
from cosched.sim.generate import Recipe, generate
from cosched.sim.runs import simulate
from cosched.sim.swf import read_swf
from cosched.sim.workload import Estimates, Workload

POLICIES = ("fcfs", "easy", "wfp", "conservative")
JOBS = (2_500, 5_000, 10_000, 20_000, 40_000)
QUEUES = (10, 100, 1_000, 3_000)
OVERLOADED_JOBS = (1_000, 2_000, 4_000, 8_000)
LOAD, OVERLOAD = 0.7, 1.2
FEW_JOBS = 300


@dataclass(frozen=True, slots=True)
class Cost:
    """policy; count: jobs, or jobs that wait; us: CPU microseconds a job, the least."""

    policy: str
    count: int
    us: float


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


def cost(log: Workload, policy: str, repeats: int) -> float:
    """CPU microseconds a job."""
    taken = []
    for _ in range(repeats):
        began_s = time.process_time()
        simulate(log, policy, Estimates.LOG)
        taken.append(time.process_time() - began_s)
    return min(taken) / len(log) * 1e6


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


def measure(repeats: int) -> tuple[list[Cost], list[Cost], list[Cost]]:
    """Against the number of jobs, at a load that the machine can bear and at one that it
    cannot, so that ever more wait; and against the queue's length."""

    def of(jobs: int, load: float, policy: str) -> Cost:
        log = generate(Recipe(jobs, 128, load=load, seed=3))
        return Cost(policy, jobs, cost(log, policy, repeats))

    by_jobs = [of(jobs, LOAD, policy) for policy in POLICIES for jobs in JOBS]
    overloaded = [
        of(jobs, OVERLOAD, policy) for policy in POLICIES for jobs in OVERLOADED_JOBS
    ]
    by_queue = [
        Cost(policy, length, cost(queue_of(length), policy, repeats))
        for policy in ("fcfs", "easy", "wfp")
        for length in QUEUES
    ]
    return by_jobs, overloaded, by_queue


def render(title: str, costs: list[Cost]) -> str:
    """A row a policy: CPU time a job as multiples of the first."""
    counts = sorted({cost.count for cost in costs})
    lines = [f"{title:<22}" + "".join(f"{count:>9,}" for count in counts)]
    for policy in dict.fromkeys(cost.policy for cost in costs):
        row = {cost.count: cost.us for cost in costs if cost.policy == policy}
        cells = "".join(f"{row[count] / row[counts[0]]:>9.2f}" for count in counts)
        lines.append(f"{policy:<22}{cells}")
    return "\n".join(lines)


def draw(by_jobs: list[Cost], by_queue: list[Cost], path: Path) -> None:
    """Both tables as lines."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    figure, panels = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
    titles = ("jobs in the log", "jobs that wait")
    for panel, costs, title in zip(panels, (by_jobs, by_queue), titles, strict=True):
        for policy in dict.fromkeys(cost.policy for cost in costs):
            row = [cost for cost in costs if cost.policy == policy]
            heights = [cost.us / row[0].us for cost in row]
            panel.plot([cost.count for cost in row], heights, "o-", label=policy)
        panel.set_xscale("log")
        panel.set_yscale("log")
        panel.set_xlabel(title)
        panel.set_ylabel("CPU time a job / that of the first")
        panel.legend()
    figure.savefig(path, dpi=80)
    plt.close(figure)


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="dev bench cost",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("trace", type=Path, nargs="?", help="a log to measure besides")
    parser.add_argument("--repeat", type=int, default=3, help="of each (default 3)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write all here")
    parser.add_argument("--picture", type=Path, metavar="FILE.png")
    options = parser.parse_args()
    log = generate(Recipe(20_000, 128, seed=3))
    if options.trace:
        log = read_swf(options.trace, skip_bad=True).workload
        began_s = time.process_time()
        simulate(log, "easy", Estimates.LOG)
        taken_s = time.process_time() - began_s
        print(f"{log.name}: {len(log)} jobs, EASY in {taken_s:.1f} s of CPU time")
    read, both = bytes_a_job(log)
    print(f"{read:.0f} bytes a job read, {both:.0f} with its schedule")
    by_jobs, overloaded, by_queue = measure(options.repeat)
    print(render("jobs", by_jobs))
    print(render(f"jobs at load {OVERLOAD}", overloaded))
    print(render("jobs that wait", by_queue))
    if options.picture:
        draw(by_jobs, by_queue, options.picture)
    if options.json:
        document = {
            "bytes_a_job": {"read": read, "with_schedule": both},
            "by_jobs": [asdict(cost) for cost in by_jobs],
            "overloaded": [asdict(cost) for cost in overloaded],
            "by_queue": [asdict(cost) for cost in by_queue],
        }
        options.json.write_text(json.dumps(document))


if __name__ == "__main__":
    main()
