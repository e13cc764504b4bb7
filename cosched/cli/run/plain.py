"""Reads a plain command line of ``cosched-run``.

A start may not wait for the library that knows help, mistakes and rare options. So this
reads the usual options, each word by itself, and leaves any other command line to that
library: it also reports mistakes.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from cosched.cli.run.choices import Asked
from cosched.cli.run.given import WORDS, Given
from cosched.core.decoding import parse_integer
from cosched.core.errors import CoschedError
from cosched.core.units import LENGTH_MAX_NS, parse_bytes, parse_run_time
from cosched.launch.given.hosts import parse_hosts
from cosched.linux.files.owners import without_links
from cosched.linux.here import this_node
from cosched.rundir.directories import run_dir_to_ask
from cosched.rundir.paths import check_job_name

_MOST = (1 << 31) - 1


def _count(text: str) -> int:
    return parse_integer(text, "", 1, _MOST)


#: By the field: the function that reads the value of the option. None: a flag.
_OPTIONS: Mapping[str, Callable[[str], Any] | None] = {
    "ranks": _count,
    "hosts": lambda text: parse_hosts(text).names,
    "ppn": _count,
    "name": check_job_name,
    "mpi": str,
    "memory_bytes": parse_bytes,
    "time_ns": parse_run_time,
    "run_dir": lambda text: without_links(Path(text).absolute()),
    "account": None,
    "verbose": None,
}
#: The same of ``Asked``.
_ASKED: Mapping[str, Callable[[str], Any] | None] = {
    "wait": str,
    "require_all": None,
    "no_shim": None,
}
_FIELDS = {
    word: name
    for name in (*_OPTIONS, *_ASKED)
    for word in WORDS.get(name, ("--" + name.replace("_", "-"),))
}


def read_plain(words: Sequence[str]) -> Given | None:
    """Returns the options; None for a command line that is not plain, or has a mistake."""
    found: dict[str, Any] = {}
    rest = list(words)
    while rest and rest[0].startswith("-") and rest[0] != "--":
        name = _FIELDS.get(rest.pop(0))
        if name is None:
            return None
        read = {**_OPTIONS, **_ASKED}[name]
        if read is None:
            found[name] = True
            continue
        try:
            found[name] = read(rest.pop(0))
        except (CoschedError, IndexError):
            return None
    argv = tuple(rest[1:] if rest[:1] == ["--"] else rest)
    asked = Asked(**{name: found.pop(name) for name in _ASKED if name in found})
    if not argv or not _fit(found, asked):
        return None
    names_run_dir = "run_dir" in found
    if not names_run_dir:
        found["run_dir"] = run_dir_to_ask(
            os.environ, os.geteuid(), this_node(os.environ)
        ).absolute()
    return Given(argv=argv, asked=asked, names_run_dir=names_run_dir, **found)


def _fit(found: Mapping[str, Any], asked: Asked) -> bool:
    """Returns whether the options allow each other, and the times their bounds."""
    if "memory_bytes" in found and not asked.coschedules:
        return False
    time_ns: int = found.get("time_ns", 1)
    return 0 < time_ns <= LENGTH_MAX_NS
