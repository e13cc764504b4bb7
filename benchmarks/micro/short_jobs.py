"""How long many short jobs take on one machine, by cosched, GNU parallel and HyperQueue.

Each job sleeps, and at its end adds a byte to a file. As many run at a time as there are
CPUs. The ideal is the time that the sleeps alone take then. The ways take turns:

array       one array by `cosched submit --array`
commands    a `cosched submit` for each job
client      the Python client, one job after the other
map         Client.map with a command
parallel    GNU parallel, if it is there
hyperqueue  HyperQueue by its Python package, one job of many tasks; --hyperqueue names a
            Python that has it

accepted is the number of jobs divided by the time that their submission took. overhead is
the time above the ideal, times the CPUs, for each job. The domain, HyperQueue's server
and its worker are up before the clock starts. GNU parallel has none, and accepts a job when
it starts. Any user may run it.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.commands import output_of
from benchmarks.experiment import Bench, above_zero, positive
from benchmarks.progress_lines import counted_steps
from cosched import Client, Job
from cosched.cluster.paths import DomainPaths
from cosched.cluster.up.domain import stop_domain
from cosched.core.errors import CoschedError
from cosched.core.names import member_of
from cosched.linux.waiting import comes_true
from cosched.tables import table

COSCHED = Path(sys.executable).parent / "cosched"
#: Beyond the ideal time.
_PATIENCE_S = 300.0
_LOOK_S = 0.01
#: Serves each line of its input as one job of many tasks: the command and their number.
_HYPERQUEUE = """
import sys, shlex
from hyperqueue import Job, LocalCluster
from hyperqueue.cluster import WorkerConfig
with LocalCluster() as cluster:
    cluster.start_worker(WorkerConfig(cores=int(sys.argv[1])))
    client = cluster.client()
    print("up", flush=True)
    for line in sys.stdin:
        *words, tasks = shlex.split(line)
        job = Job()
        for _ in range(int(tasks)):
            job.program(words, stdout=None, stderr=None)
        client.submit(job)
        print("accepted", flush=True)
"""


@dataclass(frozen=True, slots=True)
class Run:
    """Holds one run of all jobs."""

    way: str  #: how they were run
    accepted_s: float  #: until all were submitted
    makespan_s: float  #: until the last one had ended


class Jobs:
    """Many short jobs. folder: a place for files."""

    def __init__(self, folder: Path, count: int, seconds: float) -> None:
        self.count, self.seconds = count, seconds
        self.cpus = len(os.sched_getaffinity(0))
        self._ends = folder / "ends"
        script = f"sleep {seconds}; printf . >> {self._ends}"
        self.words = ("/bin/sh", "-c", script)

    @property
    def ideal_s(self) -> float:
        """The time of the sleeps alone."""
        return -(-self.count // self.cpus) * self.seconds

    def run(self, way: str, submit: Callable[[Jobs], None]) -> Run:
        """Runs all jobs once. Raises CoschedError if some do not end."""
        self._ends.write_bytes(b"")
        began = time.time()
        submit(self)
        accepted_s = time.time() - began
        if not comes_true(self._are_over, self.ideal_s + _PATIENCE_S, _LOOK_S):
            ran = self._ends.stat().st_size
            raise CoschedError(f"{way}: {ran} of {self.count} jobs have ended")
        return Run(way, accepted_s, self._ends.stat().st_mtime - began)

    def _are_over(self) -> bool:
        return self._ends.stat().st_size >= self.count


class Domain:
    """The private domain of this machine in ``run_dir``."""

    def __init__(self, run_dir: Path) -> None:
        self._environ = {**os.environ, "COSCHED_RUN_DIR": str(run_dir)}
        self._client = Client.connect(run_dir)

    def array(self, jobs: Jobs) -> None:
        """Submits an array."""
        self._submit(jobs, "--array", f"1-{jobs.count}")

    def commands(self, jobs: Jobs) -> None:
        """Submits each job by a command."""
        for _ in range(jobs.count):
            self._submit(jobs)

    def client(self, jobs: Jobs) -> None:
        """Submits each job by the Python client."""
        for _ in range(jobs.count):
            self._client.submit(Job(jobs.words, output=os.devnull, cwd="/"))

    def map(self, jobs: Jobs) -> None:
        """Runs all jobs by ``Client.map``; returns when it has their results."""
        for _ in self._client.map([*jobs.words, "{}"], range(jobs.count)):
            pass

    def is_empty(self) -> bool:
        """Returns whether no job waits or runs."""
        return not self._client.queue()

    def _submit(self, jobs: Jobs, *options: str) -> None:
        words = (str(COSCHED), "submit", "--output", os.devnull, *options, *jobs.words)
        output_of(words, "cosched submit", self._environ)


@contextlib.contextmanager
def private_domain(run_dir: Path) -> Iterator[Domain]:
    """Runs a private domain of this machine."""
    domain = Domain(run_dir)
    try:
        yield domain
    finally:
        stop_domain(DomainPaths(run_dir), member_of(os.uname().nodename), end_jobs=True)


def by_parallel(jobs: Jobs) -> None:
    """Runs all jobs by GNU parallel; returns at their end."""
    words = ["parallel", "--will-cite", "-j", str(jobs.cpus), "-n0", "-q", *jobs.words]
    numbers = map(str, range(jobs.count))
    output_of([*words, ":::", *numbers], "parallel")


@contextlib.contextmanager
def hyperqueue(python: Path, cpus: int, folder: Path) -> Iterator[Callable[[Jobs], None]]:
    """Runs HyperQueue's server and one worker; yields a function that submits all jobs."""
    with subprocess.Popen(
        [str(python), "-c", _HYPERQUEUE, str(cpus)],
        cwd=folder,
        text=True,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        answers = process.stdout
        if not any(line == "up\n" for line in answers):
            raise CoschedError(f"{python}: HyperQueue does not start there")
        requests = process.stdin

        def submit(jobs: Jobs) -> None:
            shell, option, script = jobs.words
            requests.write(f'{shell} {option} "{script}" {jobs.count}\n')
            requests.flush()
            if not any(line == "accepted\n" for line in answers):
                raise CoschedError("HyperQueue took no jobs")

        yield submit
        requests.close()


def measure(folder: Path, options: argparse.Namespace) -> tuple[Jobs, list[Run]]:
    """Returns the jobs and all runs."""
    jobs = Jobs(folder, options.jobs, options.seconds)
    with contextlib.ExitStack() as up:
        domain = up.enter_context(private_domain(folder / "run"))
        ways: dict[str, Callable[[Jobs], None]] = {
            "array": domain.array,
            "commands": domain.commands,
            "client": domain.client,
            "map": domain.map,
        }
        if shutil.which("parallel"):
            ways["parallel"] = by_parallel
        if options.hyperqueue:
            queue = hyperqueue(options.hyperqueue, jobs.cpus, folder)
            ways["hyperqueue"] = up.enter_context(queue)
        found = []
        with counted_steps("runs", len(ways) * options.repeat) as advance:
            for _ in range(options.repeat):
                for way, submit in ways.items():
                    found.append(jobs.run(way, submit))
                    comes_true(domain.is_empty, _PATIENCE_S, _LOOK_S)
                    advance()
    return jobs, found


def summary(jobs: Jobs, runs: Sequence[Run]) -> dict[str, dict[str, float]]:
    """Returns the figures of each way: medians, and the least and greatest makespan."""
    found = {}
    for way in dict.fromkeys(run.way for run in runs):
        own = [run for run in runs if run.way == way]
        spans = [run.makespan_s for run in own]
        middle = statistics.median(spans)
        found[way] = {
            "submissions_per_s": jobs.count / statistics.median(r.accepted_s for r in own),
            "makespan_s": middle,
            "to_ideal": middle / jobs.ideal_s,
            "least": min(spans) / jobs.ideal_s,
            "greatest": max(spans) / jobs.ideal_s,
            "overhead_ms": 1e3 * (middle - jobs.ideal_s) * jobs.cpus / jobs.count,
        }
    return found


def text(jobs: Jobs, found: Mapping[str, Mapping[str, float]]) -> list[str]:
    """Returns the lines of the table."""
    rows = [
        (
            way,
            f"{row['submissions_per_s']:.1f}",
            f"{row['makespan_s']:.2f} s",
            f"{row['to_ideal']:.2f} ({row['least']:.2f} - {row['greatest']:.2f})",
            f"{row['overhead_ms']:.1f} ms",
        )
        for way, row in found.items()
    ]
    title = (
        f"{jobs.count} jobs of {jobs.seconds:g} s, {jobs.cpus} at a time: ideal "
        f"{jobs.ideal_s:.2f} s; load {os.getloadavg()[0]:.1f}"
    )
    head = ("way", "accepted/s", "makespan", "to the ideal", "overhead a job")
    return [title, *table(head, rows, "<>>>>")]


def run(options: argparse.Namespace) -> tuple[list[str], object]:
    """Returns all runs with their summary, and a table of it."""
    with tempfile.TemporaryDirectory(prefix="cosched-s-") as name:
        jobs, runs = measure(Path(name), options)
    found = summary(jobs, runs)
    return text(jobs, found), {"runs": runs, "summary": found, "ideal_s": jobs.ideal_s}


def main() -> None:
    """Runs the benchmark."""
    example = "--jobs 100 --repeat 3 --hyperqueue hq/bin/python"
    bench = Bench("short_jobs", __doc__, example)
    add = bench.add_argument
    add("--jobs", type=positive, default=100, help="(100)")
    add("--seconds", type=above_zero, default=0.2, help="of each job (0.2)")
    add("--hyperqueue", type=Path, metavar="PYTHON", help="measure HyperQueue, too")
    bench.add_repeat(3, "runs of each way")
    bench.run(run)


if __name__ == "__main__":
    main()
