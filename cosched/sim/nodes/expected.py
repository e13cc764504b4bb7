"""Gives simulated jobs the expectations that the nodes have of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import count
from pathlib import Path

from cosched.core.errors import CoschedError
from cosched.core.expectation import LENGTHS_MAX
from cosched.core.node.knowledge import Expectation
from cosched.core.units import LENGTH_MAX_NS, NS_PER_S
from cosched.documents import read_json
from cosched.sim.nodes.model import Cluster, Program
from cosched.sim.nodes.node_runs import alone_s


def exact(programs: Iterable[Program], cluster: Cluster) -> dict[str, Expectation]:
    """Returns for each job the time that it takes alone."""
    lengths_s = {program.name: (alone_s(program, cluster),) for program in programs}
    return _expectations(lengths_s)


def read_lengths(path: Path, names: Iterable[str]) -> dict[str, Expectation]:
    """Returns the expectations in a JSON file such as ``{"solver": [12.5, 13], "a": 2}``.

    A key is the name of a job, with or without the number of its instance. A value is the
    length of an earlier run in seconds, or a list of them. Other jobs are unknown. Raises
    CoschedError with one line for a file that is wrong, or that names another job.
    """
    read = read_json(path)
    if not isinstance(read, dict):
        raise CoschedError(f'{path}: must be an object such as {{"solver": [12.5, 13]}}')
    lengths_s = {key: _lengths(path, key, value) for key, value in read.items()}
    known, found = set(), {}
    for name in names:
        key = name if name in lengths_s else name.rpartition(".")[0]
        if key in lengths_s:
            known.add(key)
            found[name] = lengths_s[key]
    for key in lengths_s:
        if key not in known:
            raise CoschedError(f"{path}: no job of this run is named '{key}'")
    return _expectations(found)


def _lengths(path: Path, key: str, value: object) -> tuple[float, ...]:
    lengths = value if isinstance(value, list) else [value]
    for length in lengths:
        if isinstance(length, bool) or not isinstance(length, int | float):
            raise CoschedError(f"{path}: '{key}': {length!r} is not a number of seconds")
        if not 0 < length <= LENGTH_MAX_NS / NS_PER_S:
            raise CoschedError(f"{path}: '{key}': {length} s is not a length of a job")
    return tuple(map(float, lengths[-LENGTHS_MAX:]))


def _expectations(
    lengths_s: Mapping[str, tuple[float, ...]],
) -> dict[str, Expectation]:
    """Jobs of one program, which differ in the number of the instance, are of one kind."""
    kinds: dict[str, int] = {}
    numbers = count(1)
    found = {}
    for name, lengths in lengths_s.items():
        program = name.rpartition(".")[0] or name
        kind = kinds.setdefault(program, next(numbers))
        lengths_ns = tuple(round(length * NS_PER_S) for length in lengths)
        found[name] = Expectation(kind, lengths_ns)
    return found
