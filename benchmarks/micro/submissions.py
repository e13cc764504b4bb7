"""How many jobs a second a domain and Slurm accept, and how many short jobs they run.

Both queue the same jobs, /bin/true on one node each, on the same nodes of a lab: the domain
by its Python client and by ``cosched submit``, Slurm by ``sbatch``. The nodes share the
CPUs of this machine, so the figures show the work of both, not what a real cluster does.
Each way is measured while the other one is up and idle. Needs root and Debian's Slurm.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks.commands import output_of
from benchmarks.domain_lab import crowded_domain
from benchmarks.experiment import Bench, positive
from cosched.cluster.client import Client
from cosched.cluster.submission import make_submission
from cosched.lab import slurm
from cosched.lab.lab import Lab
from cosched.lab.slurm_conf import SHARED
from cosched.tables import table

_POLL_S = 0.05


class Sender:
    """Sends jobs to the domain and to the Slurm of a lab."""

    def __init__(self, lab: Lab, conf: Path, folder: Path) -> None:
        self._enter = lab.enter_argv(lab.nodes[0].name, str(folder))
        self._client = Client.connect(lab.run_dir, lab.nodes[0].name)
        self._environ = {
            **os.environ,
            "SLURM_CONF": str(conf),
            "COSCHED_RUN_DIR": str(lab.run_dir),
            "COSCHED_NODE": lab.nodes[0].name,
        }
        (folder / "true.sh").write_text("#!/bin/sh\nexec /bin/true\n")

    def by_client(self) -> None:
        """Submits a job by the Python client."""
        job = make_submission(
            ["/bin/true"], environ={}, cwd="/", pmi="none", output="/dev/null"
        )
        self._client.submit(job)

    def by_command(self) -> None:
        """Submits a job by ``cosched submit``."""
        words = (sys.executable, "-m", "cosched.cli.main", "submit", "--no-shim")
        self._run(*words, "--output", "/dev/null", "/bin/true")

    def by_sbatch(self) -> None:
        """Submits a job by ``sbatch``."""
        self._run("sbatch", "--quiet", "--nodes=1", "--output=/dev/null", "true.sh")

    def domain_is_empty(self) -> bool:
        """Whether all jobs of the domain have ended."""
        return not self._client.queue()

    def slurm_is_empty(self) -> bool:
        """Whether all jobs of Slurm have ended."""
        return not self._run("squeue", "--noheader")

    def _run(self, *words: str) -> str:
        return output_of([*self._enter, *words], words[0], self._environ)


def measure(run_dir: Path, nodes: int, jobs: int) -> dict[str, dict[str, float]]:
    """Returns the submissions and the jobs a second of each way."""
    with contextlib.ExitStack() as up:
        lab = up.enter_context(crowded_domain(run_dir, nodes, 1))
        conf = slurm.up(run_dir, os.environ, SHARED)
        up.callback(slurm.down, run_dir, os.environ)
        sender = Sender(lab, conf, run_dir)
        return {
            "client": _time(sender.by_client, sender.domain_is_empty, jobs),
            "cosched submit": _time(sender.by_command, sender.domain_is_empty, jobs),
            "sbatch": _time(sender.by_sbatch, sender.slurm_is_empty, jobs),
        }


def _time(
    submit: Callable[[], None], is_empty: Callable[[], bool], jobs: int
) -> dict[str, float]:
    began = time.monotonic()
    for _ in range(jobs):
        submit()
    accepted = time.monotonic()
    while not is_empty():
        time.sleep(_POLL_S)
    ended = time.monotonic()
    return {
        "submissions_per_s": jobs / (accepted - began),
        "jobs_per_s": jobs / (ended - began),
    }


def run(options: argparse.Namespace) -> tuple[list[str], object]:
    """Returns the rates, and a table of them."""
    with tempfile.TemporaryDirectory(prefix="cosched-submissions-") as folder:
        found = measure(Path(folder) / "run", options.nodes, options.jobs)
    rows = [
        (way, f"{rates['submissions_per_s']:.1f}", f"{rates['jobs_per_s']:.1f}")
        for way, rates in found.items()
    ]
    title = f"{options.jobs} jobs of /bin/true on {options.nodes} nodes"
    return [title, *table(("way", "submissions/s", "jobs/s"), rows, "<>>")], found


def main() -> None:
    """Runs the benchmark."""
    bench = Bench("submissions", __doc__, "--nodes 4 --jobs 200")
    bench.add_argument("--nodes", type=positive, default=4, help="(4)")
    bench.add_argument("--jobs", type=positive, default=200, help="(200)")
    bench.run(run)


if __name__ == "__main__":
    main()
