"""Finds the inputs of a report, traces and results, among given paths."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cosched.core.decoding import Malformed, decode_json
from cosched.core.errors import CoschedError
from cosched.observe.report.simulations import has_courses
from cosched.observe.timeline.trace import trace_files

_BENCH = "cosched-bench-"
_NEITHER = "neither a trace nor a result of cosched bench, sim queue or sim share"


@dataclass(frozen=True, slots=True)
class Inputs:
    """The contents of a report."""

    traces: tuple[Path, ...]  #: trace files; (): none
    benches: tuple[dict[str, Any], ...]  #: the contents of bench results; (): none
    #: The contents of results of cosched sim queue and share; (): none.
    simulations: tuple[dict[str, Any], ...] = ()


def find_inputs(paths: Sequence[Path]) -> Inputs:
    """Sorts the paths; a directory means the traces in it and in its folders.

    Raises CoschedError for a path that is neither a trace nor a result.
    """
    traces: list[Path] = []
    benches: list[dict[str, Any]] = []
    simulations: list[dict[str, Any]] = []
    for path in paths:
        if path.is_dir():
            traces += _traces_in(path)
        elif (result := _result(path)) is None:
            traces.append(path)
        else:
            (simulations if has_courses(result) else benches).append(result)
    return Inputs(tuple(dict.fromkeys(traces)), tuple(benches), tuple(simulations))


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


def _result(path: Path) -> dict[str, Any] | None:
    """Returns the result in this file, None if the file is a trace."""
    try:
        with path.open(encoding="utf-8", errors="replace") as stream:
            if not stream.read(1) == "{":
                raise CoschedError(f"{path}: {_NEITHER}")
            stream.seek(0)
            if stream.readline().startswith('{"cosched_trace"'):
                return None
            stream.seek(0)
            content = decode_json(stream.read(), str(path))
    except OSError as error:
        raise CoschedError(f"{path}: cannot be read ({error.strerror})") from None
    except Malformed:
        raise CoschedError(f"{path}: {_NEITHER}") from None
    if isinstance(content, dict) and (has_courses(content) or _is_bench(content)):
        return dict(content)
    raise CoschedError(f"{path}: {_NEITHER}")


def _is_bench(content: dict[str, Any]) -> bool:
    return str(content.get("format")).startswith(_BENCH)
