"""Compares the claims of Brelsford et al. (2010) with our figures. Pure.

The times of the paper's figures are those of its own program, so claims are about ratios.
An emulated ratio is judged over all costs (``plans.COSTS``).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise

import msgspec

from benchmarks.experiments.claims import (
    MISSING,
    TUNED,
    Claim,
    counted,
    judged,
    near,
)
from benchmarks.experiments.startup.documents import (
    Document,
    extent,
    growth,
    measured,
    ratio,
    values,
    xs,
)
from benchmarks.experiments.startup.plans import COSTS, LARGER, LARGEST, SMALLER
from benchmarks.experiments.verdicts import (
    EQUAL_WITHIN,
    Above,
    Below,
    Judge,
    Measured,
    over_cases,
)

Documents = Mapping[str, Document]
FORM = "{:.3g}"
#: No figures at all.
NO_DOCUMENTS: Documents = {}
#: The largest job of the live starts, and their claim about the size of chunks.
LIVE_NODES, LIVE_CHUNKS = 31, "10B, live"
#: The likely reasons of verdicts.
NO_THREADS = "Python runs one thread at a time"
BLOCKS = "the emulation divides equal blocks among four, so it can give little else"
NO_SQUARE = "the old job object has each table once, so it grows with the nodes alone"
NO_LINEAR = (
    "5 ms of each time, the start of a node's tasks, do not grow with the nodes; from 248 "
    "to 1,024 nodes the exponent is 1.00"
)
COSTS_9 = (
    "the paper gives no costs of reading a byte; at 20 ns the ratio is below the bound, "
    "and from 50 ns on above it"
)
NO_HALF = "a parent leaves out its child's own tables, and below the root these are few"
CHUNKS = (
    "a message costs 5 to 20 us in the nine sets of costs, and at 20 us many small ones "
    "are slower"
)


def claims(documents: Documents, live: Documents = NO_DOCUMENTS) -> list[Claim]:
    """Returns all claims; one without a figure reports that. live: the live figures."""
    found = [claim for make in _CLAIMS for claim in make(documents)]
    chunks = live.get("fig10b")
    finer = chunks and ratio(chunks, "4 KB", "16 KB", LIVE_NODES)
    what = f"the same (4 KB to 16 KB, {LIVE_NODES} nodes)"
    return [*found, _one(LIVE_CHUNKS, what, "below 1", finer, Below(1.0, EQUAL_WITHIN))]


def aims(documents: Documents) -> list[Claim]:
    """Returns our own aims for the largest machine, and whether they are met."""
    return [
        _aim(documents, "fig8-16k", "CPU time, ms", 50, 1e3),
        _aim(documents, "fig7-16k", "memory, MB", 16, 1e-6),
    ]


def _aim(documents: Documents, figure: str, what: str, most: float, factor: float) -> Claim:
    name = f"{what}, any number of tasks"
    if figure not in documents:
        return Claim("", name, f"below {most}", MISSING)
    key = "cpu_s" if figure.startswith("fig8") else "memory_bytes"
    runs = [run for run in documents[figure]["runs"] if run["design"] == "new"]
    ours = over_cases(run[key] * factor for run in runs)
    return judged("", name, f"below {most}", ours, Below(most), FORM)


# -- the central part -------------------------------------------------------------------


def _memory(documents: Documents) -> list[Claim]:
    small, large = documents.get("fig7"), documents.get("fig7-16k")
    less = small and ratio(small, "old", "new", 64)
    linear = small and _exponent(small, "old", 128, 32)
    projected = None
    if small and large:
        most, fewer = measured(large, "old", 64), measured(small, "old", 64)
        if most is not None and fewer is not None:
            projected = _each(most.over(fewer), lambda value: value / (LARGEST / LARGER))
    flat = small and growth(small, "new", 128, 1)
    return [
        _one(
            "7",
            "old to new at 496 nodes with 64 tasks",
            "5.5",
            less,
            near(5.5, no_effect=1),
        ),
        _one("7", "the old one's growth with tasks, exponent", "1", linear, near(1.0)),
        _one(
            "7",
            "old at 16,384 nodes to a linear projection from 496",
            "1",
            projected,
            near(1.0),
        ),
        _one("7", "new with 128 tasks to one", "", flat),
    ]


def _scheduling(documents: Documents) -> list[Claim]:
    by_nodes, by_tasks = documents.get("fig8a"), documents.get("fig8b")
    faster = by_nodes and [
        _less(by_nodes, "new", "old", nodes) for nodes in xs(by_nodes, "new")
    ]
    linear = by_tasks and growth(by_tasks, "old", 128, 64)
    flat = by_tasks and growth(by_tasks, "new", 128, 2)
    largest = documents.get("fig8-16k")
    flat_largest = largest and growth(largest, "new", 128, 2)
    at_32 = by_nodes and ratio(by_nodes, "old", "new", SMALLER)
    return [
        _cases("8A", "new takes less time than old, at each number of nodes", faster),
        _one("8A", "old to new at 248 nodes with 32 tasks", "", at_32),
        _one(
            "8B",
            "old with 128 tasks to 64: grows linearly",
            "2",
            linear,
            near(2.0, no_effect=1),
        ),
        _one("8B", "new with 128 tasks to two: constant", "1", flat, near(1.0)),
        _one("8B", "with 16,384 nodes constant, too", "1", flat_largest, near(1.0)),
        *_workers(documents.get("fig6")),
    ]


def _workers(found: Document | None) -> list[Claim]:
    threads = found and growth(found, "threads", 1, 4)
    cores = found and growth(found, "cores", 1, 4)
    one = _shown_at(found, "threads", 1, 1e3, "ms")
    what = "four threads make the choice of 10,000 nodes faster"
    return [
        _one(
            "6",
            f"{what}: Python's, live",
            "3.5 (14 to 4 s)",
            threads,
            near(3.5, no_effect=1),
            NO_THREADS,
        ),
        msgspec.structs.replace(
            _one(
                "6",
                f"{what}: a core each, emulated",
                "3.5 (14 to 4 s)",
                cores,
                near(3.5, no_effect=1),
                BLOCKS,
            ),
            apart=TUNED,
        ),
        Claim("6", "one thread chooses 10,000 nodes in", "", one),
    ]


# -- the dispatch -----------------------------------------------------------------------


def _dispatch(documents: Documents) -> list[Claim]:
    by_nodes, by_tasks = documents.get("fig9a"), documents.get("fig9b")
    at_32 = by_nodes and ratio(by_nodes, "old", "new", SMALLER)
    at_128 = by_tasks and ratio(by_tasks, "old", "new", 128)
    at_1 = by_tasks and ratio(by_tasks, "old", "new", 1)
    both = by_nodes and ratio(by_nodes, "old", "pipelined", SMALLER)
    network = documents.get("fig9-network")
    alone = network and ratio(network, "old", "new", 32)
    alone_both = network and ratio(network, "old", "pipelined", 32)
    quadratic = by_nodes and _exponent(by_nodes, "old", SMALLER, 62)
    linear = by_nodes and _exponent(by_nodes, "new", SMALLER, 62)
    return [
        _one(
            "9A", "old to new at 248 nodes, 32 tasks", "above 5", at_32, Above(5), COSTS_9
        ),
        _one("9A", "old to pipelined there", "", both),
        _one("9A", "old to new if reading costs nothing", "", alone),
        _one("9A", "old to pipelined if reading costs nothing", "", alone_both),
        _one(
            "9A",
            "old grows with the square of the nodes",
            "2",
            quadratic,
            near(2.0),
            NO_SQUARE,
        ),
        _one("9A", "new grows linearly", "1", linear, near(1.0), NO_LINEAR),
        _one(
            "9B",
            "old to new at 248 nodes, 128 tasks",
            "above 6",
            at_128,
            Above(6),
            COSTS_9,
        ),
        _one(
            "4.1",
            "new is faster even with one task a node (old to new, 248 nodes)",
            "substantial",
            at_1,
            Above(1.0, EQUAL_WITHIN),
        ),
    ]


def _tables(documents: Documents) -> list[Claim]:
    by_node, by_chunk = documents.get("fig10a"), documents.get("fig10b")
    faster = by_node and _summary_ratio(by_node, "new", "pipelined", "tables")
    steadier = by_node and _summary_ratio(by_node, "pipelined", "new", "variation")
    half = by_node and _summary_ratio(by_node, "pipelined", "through-root", "bytes")
    fine = by_chunk and ratio(by_chunk, "1 KB", "16 KB", SMALLER)
    finer = by_chunk and ratio(by_chunk, "4 KB", "64 KB", SMALLER)
    return [
        _one(
            "10A", "the tables' time, new to pipelined", "5", faster, near(5.0, no_effect=1)
        ),
        _one(
            "10A",
            "the nodes' times vary less with pipelining (variation, pipelined to new)",
            "below 1",
            steadier,
            Below(1.0, EQUAL_WITHIN),
        ),
        _one(
            "4.1",
            "bytes, siblings to through-root (binary tree)",
            "0.5",
            half,
            near(0.5, no_effect=1),
            NO_HALF,
        ),
        _one(
            "10B",
            "small chunks are faster (1 KB to 16 KB, 248 nodes)",
            "below 1",
            fine,
            Below(1.0, EQUAL_WITHIN),
            CHUNKS,
        ),
        _one("10B", "4 KB to 64 KB", "", finer),
    ]


def _objects(documents: Documents) -> list[Claim]:
    by_depth = documents.get("fig11a")
    by_nodes = documents.get("fig11b")
    constant = documents.get("fig11c")
    faster = by_nodes and ratio(by_nodes, "new", "pipelined", SMALLER)
    large = constant and ratio(constant, "new", "pipelined", 1024)
    flat = constant and growth(constant, "pipelined", 496, 31)
    return [
        _cases(
            "11A",
            "store and forward: each level takes less time than the one above",
            by_depth and _shrinking(by_depth),
        ),
        _one(
            "11B",
            "store and forward to pipelined, 248 nodes",
            "7",
            faster,
            near(7.0, no_effect=1),
        ),
        _one(
            "5",
            "200 KB to 1,024 nodes, store and forward to pipelined",
            "10",
            large,
            near(10.0, no_effect=1),
        ),
        _one("5", "pipelined: 200 KB to 496 nodes to 31: constant", "1", flat, near(1.0)),
    ]


def _shrinking(found: Document) -> list[bool]:
    """Returns, for each two successive levels below the root and each case of costs,
    whether the lower one takes less time. The last level has few nodes and is left out."""
    depths = xs(found, "new")[:-1]
    cases = [values(found, "new", depth) for depth in depths]
    result = []
    for costs in COSTS:
        steps = [lower[costs] - upper[costs] for upper, lower in pairwise(cases)]
        result += [later < earlier for earlier, later in pairwise(steps)]
    return result


_CLAIMS: Sequence[Callable[[Documents], list[Claim]]] = (
    _memory,
    _scheduling,
    _dispatch,
    _tables,
    _objects,
)


# -- helpers ----------------------------------------------------------------------------


def _one(
    figure: str,
    what: str,
    paper: str,
    ours: Measured | Document | None,
    by: Judge | None = None,
    why: str = "",
) -> Claim:
    """Returns a claim about one figure. A document stands for one without the figure."""
    found = ours if isinstance(ours, Measured) else None
    return judged(figure, what, paper, found, by, FORM, why)


def _cases(figure: str, what: str, found: Sequence[bool | None] | Document | None) -> Claim:
    if not isinstance(found, list) or not found:
        return Claim(figure, what, "yes", MISSING)
    claim = counted(figure, what, "yes", found)
    return msgspec.structs.replace(claim, ours=claim.ours.partition(";")[0])


def _less(found: Document, series: str, other: str, x: int) -> bool | None:
    one, two = measured(found, series, x), measured(found, other, x)
    return None if one is None or two is None else one.less_than(two)


def _exponent(found: Document, series: str, x: int, from_x: int) -> Measured | None:
    """Returns the power of x with which a series grows between two places."""
    grown = growth(found, series, x, from_x)
    if grown is None:
        return None
    return _each(grown, lambda value: math.log(value) / math.log(x / from_x))


def _summary_ratio(found: Document, one: str, other: str, key: str) -> Measured:
    by_series: dict[str, dict[str, float]] = {}
    for row in found["summary"]:
        by_series.setdefault(row["series"], {})[row["costs"]] = row[key]
    top, bottom = by_series[one], by_series[other]
    found_ratio = extent({costs: top[costs] / bottom[costs] for costs in top})
    assert found_ratio is not None
    return found_ratio


def _each(found: Measured, change: Callable[[float], float]) -> Measured:
    """Returns a figure with its middle and both ends changed."""
    middle, low, high = map(change, (found.middle, found.low, found.high))
    return Measured(middle, low, high, found.repeated)


def _shown_at(found: Document | None, series: str, x: int, factor: float, unit: str) -> str:
    here = found and measured(found, series, x)
    return f"{here.middle * factor:.3g} {unit}" if isinstance(here, Measured) else MISSING
