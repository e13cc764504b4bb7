"""Plans the figures: which job is measured or emulated at which point."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product

from benchmarks.experiments.startup.documents import MIDDLE, Title
from cosched.sim.startup.costs import Costs
from cosched.sim.startup.model import StartupRun

#: Up to so many nodes each start is emulated with all costs, and otherwise with the middle.
ALL_COSTS_UP_TO = 496
NODES = (2, 8, 16, 31, 62, 124, 248, 496, 1024, 2048, 4096, 8192, 16384)
TASKS = (1, 2, 4, 8, 16, 32, 64, 128)
LARGEST = 16384
WORKERS = (1, 2, 3, 4)
SHARED_BY_WORKERS = 10_000  #: nodes
#: The clusters of the paper.
SMALLER, LARGER = 248, 496

#: Costs without those of a byte: the network alone counts.
NETWORK = "network alone"
#: The paper has a range for the bandwidth alone. The others are a range of four to five.
COSTS = {
    MIDDLE: Costs(),
    **{
        f"{link} MB/s, {codec} ns, {message} us": replace(
            Costs(), link_mb_s=link, codec_ns=codec, message_us=message
        )
        for link, codec, message in product((100, 200), (20, 100), (5, 20))
    },
}
ALONE = {NETWORK: replace(Costs(), codec_ns=0)}

SECONDS, MILLISECONDS, MEGABYTES = 1.0, 1e3, 1e-6
TITLES = {
    title.figure: title
    for title in (
        Title(
            "fig6", "Time to choose 10,000 nodes, by blocks", "workers", "ms", MILLISECONDS,
            logarithmic=False,
        ),
        Title("fig7", "Memory of the central part, 496 nodes", "tasks", "MB", MEGABYTES),
        Title(
            "fig7-16k", "Memory of the central part, 16,384 nodes", "tasks", "MB", MEGABYTES
        ),
        Title(
            "fig8a", "CPU time of scheduling, 32 tasks a node", "nodes", "ms", MILLISECONDS
        ),
        Title("fig8b", "CPU time of scheduling, 248 nodes", "tasks", "ms", MILLISECONDS),
        Title(
            "fig8-16k", "CPU time of scheduling, 16,384 nodes", "tasks", "ms", MILLISECONDS
        ),
        Title("fig9a", "Dispatch time, 32 tasks a node", "nodes", "ms", MILLISECONDS),
        Title("fig9b", "Dispatch time, 248 nodes", "tasks", "ms", MILLISECONDS),
        Title(
            "fig9-network", "Dispatch time, 248 nodes, reading costs nothing", "tasks",
            "ms", MILLISECONDS,
        ),
        Title("fig9-16k", "Dispatch time, 16,384 nodes", "tasks", "ms", MILLISECONDS),
        Title(
            "fig10a", "Tables by node, leaves first", "node", "ms", MILLISECONDS,
            logarithmic=False,
        ),
        Title("fig10b", "Tables by chunk, 32 tasks a node", "nodes", "ms", MILLISECONDS),
        Title(
            "fig11a", "Job object by depth, 248 nodes", "depth", "ms", MILLISECONDS,
            logarithmic=False,
        ),
        Title("fig11b", "Job object of 0.8 KB a node", "nodes", "ms", MILLISECONDS),
        Title("fig11c", "Job object of 200 KB", "nodes", "ms", MILLISECONDS),
    )
}  # fmt: skip
MEASURED = ("fig6", "fig7", "fig7-16k", "fig8a", "fig8b", "fig8-16k")


@dataclass(frozen=True, slots=True)
class Emulated:
    """A point to emulate."""

    figure: str  #: the key of its figure: fig9a
    series: str  #: the line that it is on
    x: int  #: its place on the axis
    start: StartupRun  #: the start, at the usual costs
    quantity: str  #: the figure's quantity, a key of QUANTITIES
    costs: str = MIDDLE  #: the costs to emulate, a key of COSTS or ALONE

    @property
    def name(self) -> str:
        """The name in the progress display."""
        return f"{self.figure} {self.series} {self.x}, {self.costs}"

    @property
    def run(self) -> StartupRun:
        """The start at its costs."""
        return replace(self.start, costs={**COSTS, **ALONE}[self.costs])


def chunk_of(nodes: int) -> int:
    """Returns the chunk's bytes. Large jobs have large chunks: fewer messages in all."""
    return (16 if nodes <= 1024 else 64) << 10


def cases_of(figure: str) -> list[tuple[str, int, int]]:
    """Returns design, nodes and tasks of each case of a measured figure. Of Fig. 6: the way
    in which workers share the choice of nodes, the nodes and the workers."""
    if figure == "fig6":
        ways = ("threads", "cores")
        return [(way, SHARED_BY_WORKERS, number) for way in ways for number in WORKERS]
    swept: dict[str, Sequence[tuple[int, int]]] = {
        "fig7": [(LARGER, tasks) for tasks in TASKS],
        "fig7-16k": [(LARGEST, tasks) for tasks in TASKS],
        "fig8a": [(nodes, 32) for nodes in NODES],
        "fig8b": [(SMALLER, tasks) for tasks in TASKS[1:]],
        "fig8-16k": [(LARGEST, tasks) for tasks in TASKS],
    }
    return [(way, nodes, tasks) for way in ("old", "new") for nodes, tasks in swept[figure]]


def points_of(figure: str) -> list[Emulated]:
    """Returns the points of an emulated figure, with all their costs."""
    made = _PLANS[figure](figure)
    return [replace(point, costs=name) for point in made for name in _costs_of(point)]


def _costs_of(point: Emulated) -> Iterable[str]:
    if point.figure == "fig9-network":
        return ALONE
    return COSTS if point.start.nodes <= ALL_COSTS_UP_TO else [MIDDLE]


def _start(design: str, nodes: int, tasks: int = 32) -> StartupRun:
    return StartupRun(design, nodes, tasks, chunk_bytes=chunk_of(nodes))


DESIGNS = ("old", "new", "pipelined")


def _dispatch(figure: str) -> Iterator[Emulated]:
    places = {
        "fig9a": [(nodes, nodes, 32) for nodes in NODES],
        "fig9b": [(tasks, SMALLER, tasks) for tasks in TASKS],
        "fig9-network": [(tasks, SMALLER, tasks) for tasks in TASKS],
        "fig9-16k": [(tasks, LARGEST, tasks) for tasks in (1, 8, 32, 128)],
    }
    for design, (x, nodes, tasks) in product(DESIGNS, places[figure]):
        yield Emulated(figure, design, x, _start(design, nodes, tasks), "total")


def _tables_by_node(figure: str) -> Iterator[Emulated]:
    for design in ("new", "pipelined", "through-root"):
        yield Emulated(figure, design, SMALLER, _start(design, SMALLER), "tables")


def _tables_by_chunk(figure: str) -> Iterator[Emulated]:
    for kib, nodes in product((1, 4, 16, 64), [n for n in NODES if 8 <= n <= 1024]):
        start = StartupRun("pipelined", nodes, 32, chunk_bytes=kib << 10)
        yield Emulated(figure, f"{kib} KB", nodes, start, "tables")


#: The paper's job object has some 200 KB for 248 nodes, which are trimmed.
TRIMMED = StartupRun("new", SMALLER, 32, object_bytes=1000, node_bytes=800)
#: The same size for any number of nodes: there is nothing to trim.
CONSTANT = StartupRun("new", SMALLER, 32, object_bytes=200_000)


def _object_by_depth(figure: str) -> Iterator[Emulated]:
    for design in ("new", "pipelined"):
        start = replace(TRIMMED, design=design, chunk_bytes=4 << 10)
        yield Emulated(figure, design, SMALLER, start, "object")


def _object_by_nodes(figure: str) -> Iterator[Emulated]:
    job = TRIMMED if figure == "fig11b" else CONSTANT
    for design, nodes in product(("new", "pipelined"), NODES):
        chunk = (4 if nodes <= 1024 else 64) << 10
        start = replace(job, design=design, nodes=nodes, chunk_bytes=chunk)
        yield Emulated(figure, design, nodes, start, "object")


_PLANS = {
    "fig9a": _dispatch,
    "fig9b": _dispatch,
    "fig9-network": _dispatch,
    "fig9-16k": _dispatch,
    "fig10a": _tables_by_node,
    "fig10b": _tables_by_chunk,
    "fig11a": _object_by_depth,
    "fig11b": _object_by_nodes,
    "fig11c": _object_by_nodes,
}
