"""Keeps the finished runs of a bench in a store, so that an interrupted bench can resume.

The first line describes the bench: workloads, machine, MPI, nodes, settings. Each further
line is one run::

    {"format": "cosched-runs-1", "made_with": {...}}
    {"workload": "mix", "cell": "cosched gmet=50ms", "run": {"repeat": 1, ...}}

Invariants
* Only a bench with the same description may continue a file, and only one at a time.
* A failed run is kept and made again: the interruption may have been its failure.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from cosched.bench.results.results import Run
from cosched.bench.results.store import Store
from cosched.core.decoding import Malformed, convert, decode_json
from cosched.core.errors import CoschedError

FORMAT = "cosched-runs-1"
SHOWN_MAX = 40

Key = tuple[str, str, int]


class RunStore:
    """The runs that are over, by workload, setup and repeat.

    store: where further ones go; None keeps them in memory alone.
    """

    def __init__(self, runs: Mapping[Key, Run], store: Store | None = None) -> None:
        self._runs = dict(runs)
        self._store = store

    def find(self, workload: str, setup: str, repeat: int) -> Run | None:
        """The run, if it is over and ended well."""
        run = self._runs.get((workload, setup, repeat))
        return run if run is not None and run.failure is None else None

    def add(self, workload: str, setup: str, run: Run) -> None:
        """Keeps a run that is over."""
        self._runs[workload, setup, run.repeat] = run
        if self._store is not None:
            found = msgspec.to_builtins(run)
            self._store.add({"workload": workload, "cell": setup, "run": found})


@contextmanager
def open_run_store(path: Path | None, made_with: Mapping[str, Any]) -> Iterator[RunStore]:
    """The store in ``path``, begun if there is none; without a path, one in memory.

    CoschedError if the file was made with anything else, or another bench writes to it.
    """
    if path is None:
        yield RunStore({})
        return
    store = Store(path)
    with store.alone():
        yield RunStore(_continue(store, made_with), store)


def _continue(store: Store, made_with: Mapping[str, Any]) -> dict[Key, Run]:
    """Returns the runs in the file, and begins it if it is empty."""
    no_store = CoschedError(
        f"'{store.path}' is no list of finished runs of a bench; name another file"
    )
    try:
        lines = store.lines()
        if lines:
            _check_same(store.path, lines[0], made_with)
            return dict(map(_entry, lines[1:]))
    except (Malformed, ValueError, KeyError, TypeError, AttributeError) as error:
        raise no_store from error
    first = {"format": FORMAT, "made_with": dict(made_with)}
    if not json.dumps(first).encode().startswith(store.torn):
        raise no_store
    store.add(first)
    return {}


def _entry(found: Mapping[str, Any]) -> tuple[Key, Run]:
    run: Run = convert(found["run"], Run, "a run")
    return (found["workload"], found["cell"], run.repeat), run


def _check_same(path: Path, head: Mapping[str, Any], made_with: Mapping[str, Any]) -> None:
    if head["format"] != FORMAT:
        raise ValueError(head["format"])
    # As it reads after a way through JSON, where tuples become lists.
    now = decode_json(json.dumps(dict(made_with)), "settings")
    then = head["made_with"]
    for name in sorted({*now, *then}):
        if then.get(name) != now.get(name):
            raise CoschedError(
                f"'{path}' cannot be continued: {_difference(name, then, now)}; go on as "
                "it was begun, or name another file"
            )


def _difference(name: str, then: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    path, old, new = _first_difference(name, then.get(name), now.get(name))
    was, is_now = json.dumps(old), json.dumps(new)
    if max(len(was), len(is_now)) > SHOWN_MAX:
        return f"'{path}' differs from today's"
    return f"'{path}' was {was}, now it is {is_now}"


def _first_difference(path: str, old: Any, new: Any) -> tuple[str, Any, Any]:
    """Returns the path of the first value inside that differs, and both values."""
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        for name in sorted({*old, *new}):
            if old.get(name) != new.get(name):
                return _first_difference(f"{path}.{name}", old.get(name), new.get(name))
    if isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for number, (was, is_now) in enumerate(zip(old, new, strict=True), 1):
            if was != is_now:
                return _first_difference(f"{path}.{number}", was, is_now)
    return path, old, new
