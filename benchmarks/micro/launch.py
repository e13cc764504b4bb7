"""How soon the ranks of a job leave MPI_Init: started by a domain's agents, and by mpiexec.

The time runs from the request (the start of mpiexec, or the submission to a domain that is
up and idle) until the last rank has left MPI_Init. Both start the same program on the same
nodes of a lab, in turn. Where there are more nodes than CPUs the nodes share them, so the
ratio shows the work of both, not how a real cluster would overlap it.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from rich.progress import Progress

from cosched.bench.workload.build import build_program
from cosched.cli.run.site import find_site
from cosched.cluster.client import Client, make_submission
from cosched.cluster.config import PORT, DomainConfig
from cosched.cluster.paths import DomainPaths
from cosched.cluster.pmi.pmix_installation import find_installation
from cosched.cluster.up import lab_places, start_domain, stop_domain, write_domain
from cosched.core.errors import CoschedError
from cosched.lab import life
from cosched.lab.lab import Lab
from cosched.lab.plan import plan_crowded_nodes
from cosched.launch.family import Family, Mpi
from cosched.launch.job import Request, resolve
from cosched.launch.mpi import Places, find_mpi
from cosched.launch.program import Program

SOURCE = Path(__file__).parents[1] / "programs" / "init.c"
SLOTS = 64

Start = Callable[[int, int], float]


class Bench:
    """Starts ``program`` on the first nodes of ``lab`` in both ways."""

    def __init__(self, lab: Lab, mpi: Mpi, program: Path) -> None:
        self._lab = lab
        self._mpi = mpi
        self._program = program
        self._client = Client.connect(lab.run_dir, lab.nodes[0].name)
        self._library = ""
        if mpi.family is Family.OPENMPI:
            found = find_installation(mpi.mpiexec, os.environ)
            if found is None:
                raise CoschedError(f"{mpi.mpiexec}: has no libpmix that can be served")
            self._library = str(found.libpmix)

    def by_agents(self, nodes: int, tasks: int) -> float:
        """Returns the seconds until the last rank left MPI_Init."""
        output = self._lab.run_dir / "launch.out"
        output.unlink(missing_ok=True)
        submission = make_submission(
            [str(self._program)],
            environ=os.environ,
            cwd="/",
            nodes=nodes,
            ppn=tasks,
            pmi="pmix" if self._library else "pmi1",
            pmix_library=self._library,
            output=str(output),
        )
        began = time.time()
        job = self._client.wait(self._client.submit(submission))
        if job["status"] != 0:
            raise CoschedError(f"a start by the agents failed: {job['reason']}")
        return float(output.read_text()) - began

    def by_mpiexec(self, nodes: int, tasks: int) -> float:
        """Returns the seconds until the last rank left MPI_Init."""
        hosts = tuple(node.name for node in self._lab.nodes[:nodes])
        request = Request(
            (str(self._program),), nodes * tasks, tasks, str(self._mpi.mpiexec), root=True
        )
        places = Places(Path(sys.executable).parent, os.environ)
        command = resolve(request, find_site(self._lab.run_dir, hosts), places).command({})
        environ = {**os.environ, **command.environ}
        began = time.time()
        done = subprocess.run(
            command.argv, env=environ, capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            raise CoschedError(f"mpiexec failed: {done.stderr.strip()[-200:]}")
        return float(done.stdout.split()[-1]) - began


def measure(
    run_dir: Path, mpi: Mpi, nodes: list[int], tasks: list[int], repeats: int
) -> list[dict[str, float]]:
    """Returns the medians, and the least and greatest ratio, of each point."""
    planned = plan_crowded_nodes(max(nodes), 1, life.usable_siblings())
    lab = life.make_lab(run_dir, planned, daemons=False)
    try:
        paths, places = DomainPaths(run_dir), lab_places(lab, PORT + 1)
        first = lab.nodes[0]
        addresses = {place.name: place.address for place in places}
        config = DomainConfig("launch", f"{first.address}:{PORT}", addresses, SLOTS)
        write_domain(paths, config)
        start_domain(paths, places)
        try:
            if mpi.mpicc is None:
                raise CoschedError(f"no mpicc beside {mpi.mpiexec}")
            program = build_program(SOURCE, mpi.mpicc, os.environ)
            return _measure(Bench(lab, mpi, program), nodes, tasks, repeats)
        finally:
            stop_domain(paths, first.name, end_jobs=True)
    finally:
        life.down(run_dir)


def _measure(
    bench: Bench, nodes: list[int], tasks: list[int], repeats: int
) -> list[dict[str, float]]:
    points = [(n, t) for n in nodes for t in tasks]
    found = []
    with Progress(transient=True, disable=not sys.stderr.isatty()) as progress:
        task = progress.add_task("launch", total=len(points) * repeats)
        for n, t in points:
            agents, mpiexec = [], []
            for _ in range(repeats):
                agents.append(bench.by_agents(n, t))
                mpiexec.append(bench.by_mpiexec(n, t))
                progress.advance(task)
            ratios = [a / m for a, m in zip(agents, mpiexec, strict=True)]
            found.append(
                {
                    "nodes": n,
                    "tasks": t,
                    "agents_s": statistics.median(agents),
                    "mpiexec_s": statistics.median(mpiexec),
                    "ratio": statistics.median(agents) / statistics.median(mpiexec),
                    "ratio_least": min(ratios),
                    "ratio_greatest": max(ratios),
                }
            )
    return found


def main() -> None:
    """Runs the benchmark."""
    options = argparse.ArgumentParser(
        prog="scripts/dev bench launch",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="example: scripts/dev bench launch --nodes 2,8,32 --tasks 1,4",
    )
    options.add_argument("--nodes", default="1,2,8,32", help="(1,2,8,32)")
    options.add_argument("--tasks", default="1,4", help="on each node (1,4)")
    options.add_argument("--repeats", type=int, default=5, help="(5)")
    options.add_argument("--mpi", default="mpich", help="mpich, openmpi or a path (mpich)")
    options.add_argument("--json", type=Path, metavar="FILE")
    given = options.parse_args()
    places = Places(Path(sys.executable).parent, os.environ)
    try:
        mpi = find_mpi(Program((), None, ""), given.mpi, places)
        with tempfile.TemporaryDirectory(prefix="cosched-launch-") as folder:
            points = measure(
                Path(folder) / "run",
                mpi,
                [int(n) for n in given.nodes.split(",")],
                [int(n) for n in given.tasks.split(",")],
                given.repeats,
            )
    except CoschedError as error:
        sys.exit(f"launch: {error}")
    print(f"{mpi.title} {mpi.version}: seconds until the last rank left MPI_Init, medians")
    print("nodes  tasks  agents  mpiexec  ratio (least to greatest)")
    for p in points:
        print(
            f"{p['nodes']:5}  {p['tasks']:5}  {p['agents_s']:6.3f}  {p['mpiexec_s']:7.3f}"
            f"  {p['ratio']:5.2f} ({p['ratio_least']:.2f} to {p['ratio_greatest']:.2f})"
        )
    if given.json:
        given.json.write_text(json.dumps({"mpi": mpi.title, "points": points}, indent=1))


if __name__ == "__main__":
    main()
