"""How many jobs a second go through a domain, and what that costs its members.

All jobs are submitted at once, each is one task that sleeps. At the end each one must have
run once. Meanwhile ``cosched queue`` runs again and again. The nodes are those of a lab.
"""

from __future__ import annotations

import argparse
import collections
import itertools
import os
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from benchmarks.commands import output_of
from benchmarks.domain_lab import crowded_domain
from benchmarks.experiment import Bench, above_zero, positive
from benchmarks.progress_lines import counted_steps
from cosched.cluster.client import Client
from cosched.cluster.submission import make_submission
from cosched.config.queue import QueueSettings
from cosched.core.errors import CoschedError
from cosched.lab.lab import Lab
from cosched.tables import table

SUBMITTERS = 4
#: ``cosched queue`` runs so long after it has ended.
PAUSE_S = 1.0
ENVIRON = {"PATH": os.defpath}
MIB = 1 << 20


@dataclass(frozen=True)
class Plan:
    """Describes the load of a measurement."""

    jobs: int  #: number of jobs
    seconds: float  #: time that each job sleeps
    nodes: int  #: number of nodes
    per_node: int  #: number of jobs that share a node


@dataclass(frozen=True)
class Usage:
    """Holds the cost of all members of one kind."""

    cpu_s: float  #: CPU seconds of all of them
    memory_mib: float  #: largest memory that one of them had, in MiB


def usage(run_dir: Path, module: str) -> Usage:
    """Returns the usage of the members that ``module`` runs."""
    seconds, most = 0.0, 0
    words = (f"cosched_daemons.{module}\0".encode(), f"{run_dir}\0".encode())
    for place in Path("/proc").iterdir():
        try:
            line = (place / "cmdline").read_bytes() if place.name.isdecimal() else b""
            if line and all(word in line for word in words):
                fields = (place / "stat").read_text().rpartition(")")[2].split()
                seconds += (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
                status = (place / "status").read_text()
                most = max(most, int(status.partition("VmHWM:")[2].split()[0]) * 1024)
        except OSError:
            continue  # it has ended
    return Usage(seconds, most / MIB)


def machine_cpu_s() -> float:
    """Returns the CPU seconds that all processes of this machine have had."""
    user, nice, system = map(int, Path("/proc/stat").read_text().split()[1:4])
    return (user + nice + system) / os.sysconf("SC_CLK_TCK")


class Observer:
    """Runs ``cosched queue`` again and again within its context. delays_s: how long each
    run took. Its end raises CoschedError if a run failed."""

    def __init__(self, run_dir: Path, node: str) -> None:
        self.delays_s: list[float] = []
        self._command = [sys.executable, "-m", "cosched.cli.main", "queue"]
        self._environ = {
            **os.environ,
            "COSCHED_RUN_DIR": str(run_dir),
            "COSCHED_NODE": node,
        }
        self._over = threading.Event()
        self._pool = ThreadPoolExecutor(1)

    def __enter__(self) -> Observer:
        self._looks = self._pool.submit(self._look)
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        with self._pool:
            self._looks.result()

    def _look(self) -> None:
        while not self.delays_s or not self._over.wait(PAUSE_S):
            began = time.monotonic()
            output_of(self._command, "the observer", self._environ)
            self.delays_s.append(time.monotonic() - began)


def submit_all(lab: Lab, plan: Plan, ran: Path, advance: Callable[[], None]) -> list[int]:
    """Submits all jobs; returns their numbers. Each adds its number to the file ``ran``."""
    script = f"echo $COSCHED_DOMAIN_JOB >> {ran}; exec sleep {plan.seconds}"
    left = itertools.count()

    def submit(_: int) -> list[int]:
        numbers = []
        with Client.connect(lab.run_dir, lab.nodes[0].name) as client:
            while next(left) < plan.jobs:
                submission = make_submission(
                    ["/bin/sh", "-c", script], environ=ENVIRON, cwd="/", output="/dev/null"
                )
                numbers.append(client.submit(submission))
                advance()
        return numbers

    with ThreadPoolExecutor(SUBMITTERS) as pool:
        return sorted(itertools.chain(*pool.map(submit, range(SUBMITTERS))))


def check(client: Client, numbers: list[int], ran: Path) -> list[str]:
    """Returns one line for each job that was lost, failed or ran twice."""
    runs = collections.Counter(map(int, ran.read_text().split()))
    problems = []
    for number in numbers:
        job = client.job(number)
        if job["state"] != "done" or job["starts"] != 1:
            problems.append(f"job {number}: {job['state']}, {job['starts']} starts")
        if runs[number] != 1:
            problems.append(f"job {number}: ran {runs[number]} times")
    return problems + [f"job {number}: is unknown" for number in runs.keys() - {*numbers}]


def measure(run_dir: Path, plan: Plan) -> dict[str, float]:
    """Runs all jobs; returns the figures. Raises CoschedError if one is lost."""
    ran = run_dir.parent / "ran"
    queue = QueueSettings(jobs_per_node=plan.per_node)
    with crowded_domain(run_dir, plan.nodes, 1, queue) as lab:
        node = lab.nodes[0].name
        before = {kind: usage(run_dir, kind) for kind in ("controller", "agent")}
        with (
            Observer(run_dir, node) as observer,
            Client.connect(run_dir, node) as client,
        ):
            began, cpu_s = time.monotonic(), machine_cpu_s()
            with counted_steps("accepted", plan.jobs) as advance:
                numbers = submit_all(lab, plan, ran, advance)
            submitted = time.monotonic()
            with counted_steps("ended", plan.jobs) as advance:
                for number in numbers:
                    client.wait(number)
                    advance()
            ended, cpu_s = time.monotonic(), machine_cpu_s() - cpu_s
            problems = check(client, numbers, ran)
        after = {kind: usage(run_dir, kind) for kind in before}
    if problems:
        raise CoschedError("; ".join(problems[:10]))
    return {
        "jobs": len(numbers),
        "submissions_per_s": len(numbers) / (submitted - began),
        "jobs_per_s": len(numbers) / (ended - began),
        "jobs_per_s_at_most": plan.nodes * plan.per_node / plan.seconds,
        "seconds": ended - began,
        "controller_cpu_s": after["controller"].cpu_s - before["controller"].cpu_s,
        "controller_mib": after["controller"].memory_mib,
        "agents_cpu_s": after["agent"].cpu_s - before["agent"].cpu_s,
        "agent_mib": after["agent"].memory_mib,
        "machine_cpu_s": cpu_s,
        "queue_s_greatest": max(observer.delays_s),
    }


def run(options: argparse.Namespace) -> tuple[list[str], object]:
    """Returns the figures, and a table of them."""
    plan = Plan(options.jobs, options.seconds, options.nodes, options.per_node)
    with tempfile.TemporaryDirectory(prefix="cosched-throughput-") as folder:
        found = measure(Path(folder) / "run", plan)
    rows = [(name, f"{value:.2f}") for name, value in found.items()]
    return table((), rows, "<>"), found


def main() -> None:
    """Runs the benchmark."""
    bench = Bench("throughput", __doc__, "--jobs 10000 --nodes 8 --per-node 16")
    add = bench.add_argument
    add("--jobs", type=positive, default=1000, help="(1000)")
    add("--seconds", type=above_zero, default=1.0, help="of each job (1)")
    add("--nodes", type=positive, default=8, help="(8)")
    add("--per-node", type=positive, default=16, help="jobs at a time (16)")
    bench.run(run)


if __name__ == "__main__":
    main()
