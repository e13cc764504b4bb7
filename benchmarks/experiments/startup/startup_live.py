"""Starts jobs by live agents over slow links, and sets the times beside the emulator.

The nodes of a lab share this machine's CPUs, so the links are made so slow that their time
counts and that of the CPUs hardly does. Each node's link sends so many bytes a second as
--rate allows. The tasks of a node put a table of 3,200 bytes, which is that of 128 tasks in
the paper. The job object has 200 KB.

Starts of two nodes calibrate the emulator: the speed of a link, and the CPU time of a
message. The time to start a node's tasks is not emulated: each point gets the median that
was measured there. The folder gets live-FIGURE.json, which ``dev bench startup --redraw``
puts into its page.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks import mpi
from benchmarks.domain_lab import domain, new_lab
from benchmarks.experiment import (
    Bench,
    in_one_line,
    numbers,
    positive,
    write_json,
)
from benchmarks.experiments.startup.documents import Point, document
from benchmarks.experiments.startup.live_comparison import beside
from benchmarks.experiments.startup.plans import TITLES
from benchmarks.progress_lines import counted_steps
from cosched.cluster.agent.steps import (
    OBJECT,
    PREPARED,
    TABLE,
    TABLES,
    StepNote,
    read_steps,
)
from cosched.cluster.client import Client
from cosched.cluster.submission import make_submission
from cosched.config.domain import LifeSettings, StartupSettings
from cosched.core.errors import CoschedError
from cosched.core.units import NS_PER_S
from cosched.lab.fabric import Bucket, limit_links
from cosched.lab.lab import Lab
from cosched.lab.plan import plan_crowded_nodes
from cosched.linux.cpu_surroundings import usable_siblings
from cosched.linux.namespaces import network_of
from cosched.sim.startup.costs import Costs
from cosched.tables import table

OBJECT_BYTES = 200_000
#: The job object without padding.
PLAIN_BYTES = 600
TABLE_BYTES = 128 * 25
_PAD = 50_000
#: More than a packet, and so little that no message of a chunk passes at once.
BURST_BYTES = 3000
QUEUE_BYTES = 64 << 20
#: The bytes of each connection that a node receives ahead of its reader.
WINDOW_BYTES = 16 << 10
#: That of the network in which the writing thread is.
RECEIVE_WINDOW = Path("/proc/sys/net/ipv4/tcp_rmem")
#: The exchanges of the program (exchange.c): with MPI_Init, and once all nodes are ready.
FIRST, LAST = 0, 2
CALIBRATED_AT = 2


@dataclass(frozen=True, slots=True)
class Way:
    """A design, live and in the emulator."""

    design: str  #: its name in the emulator, a key of DESIGNS
    object: str  #: the live object, as in StartupSettings
    tables: str  #: the live tables, as in StartupSettings
    chunk_bytes: int  #: the size of a chunk, in both


WAYS = {
    "old": Way("live-old", "store-and-forward", "through-root", 1 << 20),
    "new": Way("new", "store-and-forward", "siblings", 1 << 20),
    "pipelined": Way("pipelined", "pipeline", "siblings", 16 << 10),
    "4 KB": Way("pipelined", "pipeline", "siblings", 4 << 10),
}
#: The series of each figure by way, and its quantity.
FIGURES: Mapping[str, tuple[str, Mapping[str, str]]] = {
    "fig9a": ("total", {"old": "old", "new": "new", "pipelined": "pipelined"}),
    "fig10b": ("tables", {"pipelined": "16 KB", "4 KB": "4 KB"}),
    "fig11c": ("object", {"new": "new", "pipelined": "pipelined"}),
}


@dataclass(frozen=True, slots=True)
class Started:
    """The times of one start, in seconds."""

    total: float  #: from the submission until all nodes have the first tables
    object: float  #: from the submission until all nodes have the job object
    tables: float  #: the last exchange: from the first table to the last node with all
    #: The median of the nodes, from the whole job object to tasks that wait.
    prepare: float
    hop: float  #: from the root's job object to the last node's


def times_of(steps: Sequence[StepNote], submitted_ns: int) -> Started:
    """Returns the times of one start. steps: its own, of all its nodes."""
    at: dict[str, dict[str, int]] = {}
    for each in steps:
        at.setdefault(each.step, {})[each.node] = each.at_ns
    have, first, last = at[OBJECT], at[f"{TABLES} {FIRST}"], at[f"{TABLES} {LAST}"]
    prepared = [at[PREPARED][node] - have[node] for node in have]
    return Started(
        total=(max(first.values()) - submitted_ns) / NS_PER_S,
        object=(max(have.values()) - submitted_ns) / NS_PER_S,
        tables=(max(last.values()) - min(at[f"{TABLE} {LAST}"].values())) / NS_PER_S,
        prepare=statistics.median(prepared) / NS_PER_S,
        hop=(max(have.values()) - min(have.values())) / NS_PER_S,
    )


class Starter:
    """Starts jobs in a domain that is up. The first node has the controller alone."""

    def __init__(self, lab: Lab, program: Path, steps: Path) -> None:
        self._client = Client.connect(lab.run_dir, lab.nodes[0].name)
        self._client.drain([lab.nodes[0].name], "the controller's")
        self._program = program
        self._steps = steps

    def start(self, nodes: int, object_bytes: int, table_bytes: int) -> Started:
        """Runs one job and returns its times."""
        environ = dict(os.environ)
        size = object_bytes - sum(len(k) + len(v) + 5 for k, v in environ.items())
        for number, at in enumerate(range(0, size - PLAIN_BYTES, _PAD)):
            environ[f"PAD{number}"] = "x" * min(_PAD, size - PLAIN_BYTES - at)
        submission = make_submission(
            [str(self._program), str(table_bytes)],
            environ=environ,
            cwd="/",
            nodes=nodes,
            ppn=1,
            pmi="pmi1",
            output=os.devnull,
        )
        os.truncate(self._steps, 0)
        submitted_ns = time.time_ns()
        number = self._client.submit(submission)
        job = self._client.wait(number)
        if job["status"] != 0:
            raise CoschedError(f"a start on {nodes} nodes failed: {job['reason']}")
        steps = [each for each in read_steps(self._steps) if each.job == number]
        return times_of(steps, submitted_ns)


@contextmanager
def starter_of(lab: Lab, way: Way, program: Path) -> Iterator[Starter]:
    """Runs a domain of all nodes of a lab with one design."""
    steps = lab.run_dir / "steps.jsonl"
    startup = StartupSettings(2, way.chunk_bytes, way.object, way.tables)
    life_settings = LifeSettings(prepare_ns=600 * NS_PER_S)
    with domain(lab, steps, slots=1, startup=startup, life=life_settings):
        yield Starter(lab, program, steps)


def pace(lab: Lab, rate: int) -> None:
    """Lets each node's link send at most ``rate`` bytes a second, in equal parts to all
    connections: with large windows, TCP would give one of them most of a slow link."""
    for node in lab.nodes:
        with network_of(node.keeper.pid):
            RECEIVE_WINDOW.write_text(f"4096 {WINDOW_BYTES} {WINDOW_BYTES}")
    limit_links(lab.nodes, Bucket(rate, BURST_BYTES, QUEUE_BYTES))


def calibrate(starter: Starter, repeats: int) -> Costs:
    """Returns the emulator's costs by starts of two nodes."""
    large = [starter.start(CALIBRATED_AT, OBJECT_BYTES, 1) for _ in range(repeats)]
    small = [starter.start(CALIBRATED_AT, 0, 1) for _ in range(repeats)]
    hop_s = statistics.median(each.hop for each in large)
    # The child's table goes up, and the root's goes down: each is sent and received.
    message_s = statistics.median(each.tables for each in small) / 4
    return Costs(
        link_mb_s=OBJECT_BYTES / (hop_s - 2 * message_s) / 1e6,
        latency_us=0.0,
        message_us=message_s * 1e6,
        overhead_bytes=0.0,
        window_bytes=WINDOW_BYTES,
        codec_ns=0.0,
        assign_us=0.0,
        assign_task_us=0.0,
    )


def emulated(figure: str, way: Way, nodes: int) -> dict[str, Any]:
    """Returns the arguments of the start to emulate."""
    alone = figure == "fig10b"  # its exchange begins on all nodes at once
    return {
        "design": way.design,
        "nodes": nodes,
        "tasks": 1,
        "chunk_bytes": way.chunk_bytes,
        "object_bytes": 0 if alone else OBJECT_BYTES,
        "table_bytes": TABLE_BYTES,
        "order": "paper" if alone else "live",
    }


def measure(run_dir: Path, options: argparse.Namespace) -> dict[str, Any]:
    """Returns the live figures."""
    program = mpi.build(mpi.PROGRAMS / "exchange.c", mpi.find("mpich"))
    planned = plan_crowded_nodes(max(options.nodes) + 1, 1, usable_siblings())
    with new_lab(run_dir, planned, daemons=False) as lab:
        pace(lab, options.rate)
        return _measure(lab, program, options)


def _measure(lab: Lab, program: Path, options: argparse.Namespace) -> dict[str, Any]:
    found: dict[tuple[str, int], list[Started]] = {}
    costs = Costs()
    steps = options.repeat * len(WAYS) * len(options.nodes)
    with counted_steps("starts", steps) as advance:
        for number, (name, way) in enumerate(WAYS.items()):
            with starter_of(lab, way, program) as starter:
                if number == 0:
                    costs = calibrate(starter, options.repeat)
                for _ in range(options.repeat):
                    for nodes in options.nodes:
                        started = starter.start(nodes, OBJECT_BYTES, TABLE_BYTES)
                        found.setdefault((name, nodes), []).append(started)
                        advance()
    return {figure: figure_of(figure, found, costs, options.rate) for figure in FIGURES}


def figure_of(
    figure: str,
    found: Mapping[tuple[str, int], Sequence[Started]],
    costs: Costs,
    rate: int,
) -> dict[str, Any]:
    """Returns a live figure. found: the starts by the name of the way and nodes. rate: of
    the links, in bytes a second."""
    quantity, series = FIGURES[figure]
    made = document(
        TITLES[figure],
        [],
        "scripts/dev bench startup_live",
        quantity=quantity,
        costs=asdict(costs),
        rate=rate,
    )
    made["live"] = True
    for (name, nodes), started in found.items():
        if name not in series:
            continue
        values = {str(i): getattr(each, quantity) for i, each in enumerate(started, 1)}
        point = asdict(Point(series[name], nodes, values))
        prepare_s = statistics.median(each.prepare for each in started)
        point["run"] = emulated(figure, WAYS[name], nodes)
        point["costs"] = {"start_us": prepare_s * 1e6}
        made["points"].append(point)
    return made


def main(words: Sequence[str] | None = None) -> None:
    bench = Bench("startup_live", __doc__, "--out FOLDER --nodes 8,16 --repeat 5")
    add = bench.add_argument
    add("--nodes", type=numbers, default="8,16,31", help="(8,16,31)")
    bench.add_repeat(3, "starts of each point")
    add("--rate", type=positive, default=250_000, help="bytes a second of a link (250000)")
    bench.add_folder()
    options = bench.parse(words)
    with in_one_line("startup_live"):
        options.out.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix="cosched-paced-") as folder:
            figures = measure(Path(folder) / "run", options)
        rows = []
        for figure, made in figures.items():
            write_json(options.out / f"live-{figure}.json", made)
            rows += [
                (
                    *(figure, row.series, str(row.x), f"{row.live.middle:.3f} s"),
                    *(f"{row.emulated:.3f} s", f"{row.off:+.0%}"),
                )
                for row in beside(made)
            ]
        head = ("figure", "series", "at", "live", "emulated", "off")
        print("\n".join(table(head, rows, "<<>>>>")))


if __name__ == "__main__":
    main()
