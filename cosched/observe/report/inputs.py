"""Finds the inputs of a report, traces and bench results, among given paths."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cosched.core.decoding import Malformed, decode_json
from cosched.core.errors import CoschedError
from cosched.observe.timeline.trace import trace_files

_BENCH = "cosched-bench-"


@dataclass(frozen=True, slots=True)
class Inputs:
    """The contents of a report."""

    traces: tuple[Path, ...]  #: trace files; (): none
    benches: tuple[dict[str, Any], ...]  #: the contents of bench results; (): none


def find_inputs(paths: Sequence[Path]) -> Inputs:
    """Sorts the paths; a directory means the traces in it and in its folders.

    Raises CoschedError for a path that is neither a trace nor a bench result.
    """
    traces: list[Path] = []
    benches: list[dict[str, Any]] = []
    for path in paths:
        if path.is_dir():
            traces += _traces_in(path)
        elif (bench := _bench(path)) is not None:
            benches.append(bench)
        else:
            traces.append(path)
    return Inputs(tuple(dict.fromkeys(traces)), tuple(benches))


def _traces_in(directory: Path) -> list[Path]:
    try:
        folders = [
            directory,
            *sorted(path for path in directory.iterdir() if path.is_dir()),
        ]
    except OSError as error:
        raise CoschedError(f"{directory}: cannot be read ({error.strerror})") from None
    found = [path for folder in folders for path in trace_files(folder)]
    if not found:
        raise CoschedError(
            f"{directory}: no trace in it nor in its folders; name a trace, a run "
            "directory or a result of cosched bench --json"
        )
    return found


def _bench(path: Path) -> dict[str, Any] | None:
    """Returns the bench result in this file, None if the file is a trace."""
    try:
        with path.open(encoding="utf-8", errors="replace") as stream:
            if not stream.read(1) == "{":
                raise CoschedError(f"{path}: neither a trace nor a result of cosched bench")
            stream.seek(0)
            if stream.readline().startswith('{"cosched_trace"'):
                return None
            stream.seek(0)
            content = decode_json(stream.read(), str(path))
    except OSError as error:
        raise CoschedError(f"{path}: cannot be read ({error.strerror})") from None
    except Malformed:
        raise CoschedError(
            f"{path}: neither a trace nor a result of cosched bench"
        ) from None
    if not isinstance(content, dict) or not str(content.get("format")).startswith(_BENCH):
        raise CoschedError(f"{path}: neither a trace nor a result of cosched bench")
    return dict(content)
