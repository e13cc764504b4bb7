"""How soon the ranks of a job leave MPI_Init: by agents, mpiexec, ssh and srun.

The time runs from the request (the start of mpiexec or srun, or the submission to a domain
that is up and idle) until the last rank has left MPI_Init. All start the same program on
the same nodes of a lab, in turn. The mpiexec of Open MPI 5 is prterun. With --srun Debian's
Slurm runs on these nodes, too, and srun starts a step in an allocation that is there
already. With --ssh each node has an sshd, too, and mpiexec reaches the nodes by ssh. Each
MPI has a lab of its own.

Where there are more nodes than CPUs the nodes share them, so the ratio shows the work of
both, not how a real cluster would overlap it. If ssh or srun fails at a point, the table
has a line there instead of a time.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

from benchmarks.commands import output_of
from benchmarks.domain_lab import crowded_domain
from benchmarks.experiment import Bench, numbers, positive
from benchmarks.mpi import PROGRAMS, build, find, places
from benchmarks.progress_lines import counted_steps
from cosched.cli.run.site import find_site
from cosched.cluster.client import Client
from cosched.cluster.submission import make_submission
from cosched.core.errors import CoschedError
from cosched.jobs.serving import pmi_of
from cosched.lab import slurm
from cosched.lab.lab import Lab
from cosched.lab.slurm_conf import SHARED
from cosched.launch.family import Family, Mpi
from cosched.launch.given.hosts import Hosts
from cosched.launch.program import inspect
from cosched.launch.resolved_job import Request, ResolvedJob, resolve
from cosched.tables import table
from tests.labs.ssh import ssh_servers

SLOTS = 64
#: Each rank is a process, and all of them start on this machine.
MOST_RANKS = 128
#: Ways that are measured if they are asked for, and that may fail.
OTHERS = ("ssh", "srun")

Start = Callable[[int, int], float]
Point = tuple[int, int]  #: nodes, tasks on each


class Starts:
    """Starts ``program`` on the first nodes of ``lab`` in each way."""

    def __init__(self, lab: Lab, mpi: Mpi, program: Path) -> None:
        self._lab = lab
        self._mpi = mpi
        self.program = program
        self._client = Client.connect(lab.run_dir, lab.nodes[0].name)
        library = inspect((str(program),), os.environ, program).library
        served = pmi_of(mpi, library, os.environ)
        if served is None:
            raise CoschedError(f"{mpi.mpiexec}: has no PMI that agents can serve")
        self._pmi, self._library = served.name, served.pmix_library

    def by_agents(self, nodes: int, tasks: int) -> float:
        """Returns the seconds until the last rank left MPI_Init."""
        output = self._lab.run_dir / "launch.out"
        output.unlink(missing_ok=True)
        submission = make_submission(
            [str(self.program)],
            environ={**os.environ, **self.transport(nodes, tasks)},
            cwd="/",
            nodes=nodes,
            ppn=tasks,
            pmi=self._pmi,
            pmix_library=self._library,
            output=str(output),
        )
        began = time.time()
        job = self._client.wait(self._client.submit(submission))
        if job["status"] != 0:
            raise CoschedError(f"a start by the agents failed: {job['reason']}")
        return float(output.read_text()) - began

    def by_mpiexec(self, nodes: int, tasks: int, shell: Path | None = None) -> float:
        """Returns the seconds until the last rank left MPI_Init. shell: the remote shell;
        None: one that enters nodes of a lab."""
        command = self._job(nodes, tasks).command({})
        environ = {**os.environ, **command.environ}
        words = list(command.argv)
        if shell is not None:
            words[words.index(str(self._lab.agent))] = str(shell)
        began = time.time()
        return float(output_of(words, "mpiexec", environ).split()[-1]) - began

    def transport(self, nodes: int, tasks: int) -> dict[str, str]:
        """Returns the variables that choose the transport which mpiexec gets as options."""
        if self._mpi.family is not Family.OPENMPI:
            return self._job(nodes, tasks).own_environment()
        return {
            "OMPI_MCA_pml": "ob1",
            "OMPI_MCA_btl": "tcp,self",
            "OMPI_MCA_btl_tcp_if_include": self._lab.network,
        }

    def slurm_environ(self) -> dict[str, str]:
        """Returns the environment of Slurm's daemons: they load the MPI's own libpmix."""
        environ = dict(os.environ)
        if self._library:
            environ["LD_LIBRARY_PATH"] = str(Path(self._library).parent)
        return environ

    def _job(self, nodes: int, tasks: int) -> ResolvedJob:
        """Returns the job as mpiexec starts it; the ranks use the same transport in both
        ways."""
        hosts = tuple(node.name for node in self._lab.nodes[:nodes])
        request = Request(
            (str(self.program),), nodes * tasks, tasks, str(self._mpi.mpiexec), root=True
        )
        return resolve(request, find_site(self._lab.run_dir, Hosts(hosts)), places())


class Srun:
    """Starts the program of ``starts`` by srun in an allocation of all nodes of the lab.

    conf: ``slurm.conf`` of the Slurm that is up. tasks: the most on a node. Raises
    CoschedError if this Slurm cannot start the MPI.
    """

    def __init__(self, lab: Lab, conf: Path, starts: Starts, mpi: Mpi, tasks: int) -> None:
        self._enter = lab.enter_argv(lab.nodes[0].name, "/")
        self._environ = {**starts.slurm_environ(), "SLURM_CONF": str(conf)}
        self._type = "pmix" if mpi.family is Family.OPENMPI else "pmi2"
        self._starts = starts
        known = self._run(("srun", "--mpi=list"), {}).split()
        if self._type not in known:
            raise CoschedError(
                f"srun cannot start {mpi.title}: this Slurm lacks the MPI type "
                f"'{self._type}' (scripts/slurm-lab names its packages)"
            )
        words = ["salloc", "--no-shell", "--quiet", "--job-name=launch", "--mem-per-cpu=1"]
        words += [f"--nodes={len(lab.nodes)}", f"--ntasks-per-node={tasks}"]
        self._run(words, {})
        self._job = self._run(("squeue", "--noheader", "--format=%A"), {}).strip()

    def __call__(self, nodes: int, tasks: int) -> float:
        """Returns the seconds until the last rank left MPI_Init."""
        transport = self._starts.transport(nodes, tasks)
        began = time.time()
        words = ["srun", f"--jobid={self._job}", "--overlap", f"--mpi={self._type}"]
        words += [f"--nodes={nodes}", f"--ntasks={nodes * tasks}"]
        words += [f"--ntasks-per-node={tasks}", str(self._starts.program)]
        return float(self._run(words, transport).split()[-1]) - began

    def _run(self, words: Sequence[str], environ: Mapping[str, str]) -> str:
        return output_of([*self._enter, *words], words[0], {**self._environ, **environ})


def points_of(nodes: list[int], tasks: list[int], most: int) -> list[Point]:
    """Returns all pairs of nodes and tasks on each with at most so many ranks. Raises
    CoschedError if there are none."""
    points = [(n, t) for n in nodes for t in tasks if n * t <= most]
    if not points:
        raise CoschedError(f"no point has at most {most} ranks")
    return points


def measure(
    run_dir: Path, mpi: Mpi, points: list[Point], repeats: int, more: Collection[str]
) -> list[dict[str, float]]:
    """Returns the medians, and the least and greatest ratio, of each point. more: further
    ways, ssh and srun."""
    program = build(PROGRAMS / "init.c", mpi)
    with contextlib.ExitStack() as up:
        lab = up.enter_context(crowded_domain(run_dir, max(n for n, _ in points), SLOTS))
        starts = Starts(lab, mpi, program)
        ways: dict[str, Start] = {"agents": starts.by_agents, "mpiexec": starts.by_mpiexec}
        if "ssh" in more:
            folder = Path(up.enter_context(tempfile.TemporaryDirectory()))
            shell = up.enter_context(ssh_servers(lab, folder)).shell
            ways["ssh"] = partial(starts.by_mpiexec, shell=shell)
        if "srun" in more:
            conf = slurm.up(run_dir, starts.slurm_environ(), SHARED, SLOTS)
            up.callback(slurm.down, run_dir, os.environ)
            ways["srun"] = Srun(lab, conf, starts, mpi, max(t for _, t in points))
        return _measure(ways, points, repeats)


def _measure(
    ways: Mapping[str, Start], points: list[Point], repeats: int
) -> list[dict[str, float]]:
    found = []
    with counted_steps("launch", len(points) * repeats) as advance:
        for n, t in points:
            seconds: dict[str, list[float]] = {way: [] for way in ways}
            for _ in range(repeats):
                for way in tuple(seconds):
                    try:
                        seconds[way].append(ways[way](n, t))
                    except CoschedError as error:
                        if way not in OTHERS:
                            raise
                        print(f"launch: {n} nodes, {t} tasks: {error}", file=sys.stderr)
                        del seconds[way]
                advance()
            pairs = zip(seconds["agents"], seconds["mpiexec"], strict=True)
            ratios = [a / m for a, m in pairs]
            medians = {way: statistics.median(each) for way, each in seconds.items()}
            found.append(
                {
                    "nodes": n,
                    "tasks": t,
                    **{f"{way}_s": median for way, median in medians.items()},
                    "ratio": medians["agents"] / medians["mpiexec"],
                    "ratio_least": min(ratios),
                    "ratio_greatest": max(ratios),
                }
            )
    return found


def _lines(points: list[dict[str, float]]) -> list[str]:
    found = {key for point in points for key in point}
    ways = [way for way in ("agents", "mpiexec", *OTHERS) if f"{way}_s" in found]
    rows = [
        (
            *(f"{p[name]}" for name in ("nodes", "tasks")),
            *(f"{p[f'{way}_s']:.3f}" if f"{way}_s" in p else "-" for way in ways),
            f"{p['ratio']:.2f} ({p['ratio_least']:.2f} to {p['ratio_greatest']:.2f})",
        )
        for p in points
    ]
    head = ("nodes", "tasks", *ways, "agents/mpiexec (least to greatest)")
    return table(head, rows, ">" * (2 + len(ways)) + "<")


def run(options: argparse.Namespace) -> tuple[Iterator[str], object]:
    """Returns the lines, each when its MPI is measured, and the rows of each MPI."""
    found: list[dict[str, object]] = []
    return _run(options, found), found


def _run(options: argparse.Namespace, found: list[dict[str, object]]) -> Iterator[str]:
    points = points_of(options.nodes, options.tasks, options.most_ranks)
    mpis = [find(name) for name in options.mpi.split(",")]
    more = [way for way in OTHERS if getattr(options, way)]
    for mpi in mpis:
        with tempfile.TemporaryDirectory(prefix="cosched-launch-") as folder:
            rows = measure(Path(folder) / "run", mpi, points, options.repeats, more)
        what = f"{mpi.title} {mpi.version}"
        yield f"{what}: seconds until the last rank left MPI_Init, medians"
        yield from _lines(rows)
        found.append({"mpi": what, "points": rows})
    left_out = len(options.nodes) * len(options.tasks) - len(points)
    if left_out:
        yield f"{left_out} points have more than {options.most_ranks} ranks: left out"


def main() -> None:
    """Runs the benchmark."""
    example = "--nodes 2,8 --tasks 1,4 --srun --mpi mpich,.venv-openmpi/bin/mpiexec"
    bench = Bench("launch", __doc__, example)
    add = bench.add_argument
    add("--nodes", type=numbers, default="1,2,8,32", help="(1,2,8,32)")
    add("--tasks", type=numbers, default="1,4", help="on each node (1,4)")
    add("--repeats", type=positive, default=5, help="(5)")
    most = f"leave out points with more, which this machine cannot bear ({MOST_RANKS})"
    add("--most-ranks", type=int, default=MOST_RANKS, help=most)
    add("--mpi", default="mpich", help="mpich, openmpi or paths, with commas (mpich)")
    add("--srun", action="store_true", help="measure srun, too; needs Debian's Slurm")
    add("--ssh", action="store_true", help="measure mpiexec by ssh, too; needs sshd")
    bench.run(run)


if __name__ == "__main__":
    main()
