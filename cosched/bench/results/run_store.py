"""Keeps the finished runs of a bench in a file, so that an interrupted bench can resume.

The file is JSON lines. The first line describes the bench: workloads, machine, MPI, nodes,
settings. Each further line is one run, forced to disk as soon as the run ends::

    {"format": "cosched-runs-1", "made_with": {...}}
    {"workload": "mix", "cell": "cosched gmet=50ms", "run": {"repeat": 1, ...}}

Invariants
* Only a bench with the same description may continue a file.
* If the interruption cut the last line, the line is dropped and its run is made again.
* A failed run is kept and made again: the interruption may have been its failure.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from cosched.bench.results.results import Run
from cosched.bench.results.run_codec import decode_run, encode_run
from cosched.core.decoding import Malformed, decode_json
from cosched.core.errors import CoschedError

FORMAT = "cosched-runs-1"
SHOWN_MAX = 40

Key = tuple[str, str, int]


class RunStore:
    """The runs that are over, by workload, setup and repeat.

    stream: where further ones go; None keeps them in memory alone.
    """

    def __init__(self, runs: Mapping[Key, Run], stream: BinaryIO | None = None) -> None:
        self._runs = dict(runs)
        self._stream = stream

    def find(self, workload: str, setup: str, repeat: int) -> Run | None:
        """The run, if it is over and ended well."""
        run = self._runs.get((workload, setup, repeat))
        return run if run is not None and run.failure is None else None

    def add(self, workload: str, setup: str, run: Run) -> None:
        """Keeps a run that is over."""
        self._runs[workload, setup, run.repeat] = run
        if self._stream is not None:
            entry = {"workload": workload, "cell": setup, "run": encode_run(run)}
            _append(self._stream, _line(entry))


@contextmanager
def open_run_store(path: Path | None, made_with: Mapping[str, Any]) -> Iterator[RunStore]:
    """The store in ``path``, begun if there is none; without a path, one in memory.

    CoschedError if the file was made with anything else, or another bench writes to it.
    """
    if path is None:
        yield RunStore({})
        return
    try:
        stream = path.open("a+b")
    except OSError as error:
        raise CoschedError(f"cannot write '{path}': {error.strerror}") from error
    with stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise CoschedError(
                f"'{path}' is being written by another bench; wait, or name another file"
            ) from error
        runs = _continue(stream, path, made_with)
        yield RunStore(runs, stream)


def _continue(stream: BinaryIO, path: Path, made_with: Mapping[str, Any]) -> dict[Key, Run]:
    """The runs in the file, which is then ready to be appended to."""
    stream.seek(0)
    text = stream.read()
    whole = text[: text.rfind(b"\n") + 1]
    if not whole and not _first_line(made_with).startswith(text):
        raise _not_a_store(path)
    if not whole:
        os.ftruncate(stream.fileno(), 0)
        _append(stream, _first_line(made_with))
        return {}
    head, *lines = whole.splitlines()
    try:
        _check_same(path, decode_json(head, str(path)), made_with)
        runs = dict(map(_entry, lines))
    except (Malformed, ValueError, KeyError, TypeError, AttributeError) as error:
        raise _not_a_store(path) from error
    os.ftruncate(stream.fileno(), len(whole))
    return runs


def _not_a_store(path: Path) -> CoschedError:
    return CoschedError(
        f"'{path}' is no list of finished runs of a bench; name another file"
    )


def _first_line(made_with: Mapping[str, Any]) -> bytes:
    return _line({"format": FORMAT, "made_with": dict(made_with)})


def _entry(line: bytes) -> tuple[Key, Run]:
    found = decode_json(line, "a run")
    run = decode_run(found["run"])
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
    old, new = (json.dumps(side.get(name)) for side in (then, now))
    if max(len(old), len(new)) > SHOWN_MAX:
        return f"its {name} differs from today's"
    return f"its {name} was {old}, now it is {new}"


def _line(what: Mapping[str, Any]) -> bytes:
    return json.dumps(what).encode() + b"\n"


def _append(stream: BinaryIO, line: bytes) -> None:
    stream.write(line)
    stream.flush()
    os.fsync(stream.fileno())
