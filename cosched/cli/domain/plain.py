"""Reads a plain command line of ``cosched submit``.

It knows the usual options. Any other command line is left to ``submit`` beside this file,
which also reports mistakes, and so is a script with options of its own.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from cosched.cli.domain.given import WORDS, Given
from cosched.cli.domain.script_lines import file_of, read_script
from cosched.cli.plain_words import PlainWords, Reader, count, run_time
from cosched.cluster.submission_request import FROM_CLIENT
from cosched.core.errors import CoschedError
from cosched.core.units import NS_PER_S, parse_bytes
from cosched.jobs.job import Job
from cosched.linux.files.owners import without_links
from cosched.rundir.directories import domain_dir_to_ask

#: By the field of ``Job``: the reader of the option's value. None: a flag.
_OF_JOB: Mapping[str, Reader | None] = {
    "ranks": count,
    "nodes": count,
    "ppn": count,
    "time_s": lambda text: run_time(text) / NS_PER_S,
    "name": str,
    "label": None,
    "bind": None,
    "exclusive": None,
    "share": None,
    "held": None,
    "requeue": None,
    "mpi": str,
    "memory_bytes": parse_bytes,
    "shim": None,
}
#: The same of ``Given``.
_OPTIONS: Mapping[str, Reader | None] = {
    "output": str,
    "error": str,
    "input": str,
    "waits": None,
    "run_dir": lambda text: without_links(Path(text).absolute()),
    "as_json": None,
}
_WORDS = PlainWords({**_OF_JOB, **_OPTIONS}, WORDS)


def read_plain(words: Sequence[str]) -> Given | None:
    """Returns the options; None for a command line that is not plain, or has a mistake."""
    read = _WORDS.read(words)
    if read is None:
        return None
    found, argv = read
    if _may_contradict(found) or _has_options(argv[0]):
        return None
    of_job = {name: found.pop(name) for name in _OF_JOB if name in found}
    if "shim" in of_job:
        of_job["shim"] = False  # --no-shim
    if "run_dir" not in found:
        found["run_dir"] = domain_dir_to_ask(os.environ, os.geteuid()).absolute()
    return Given(Job(argv, **of_job), **found)


def _may_contradict(found: Mapping[str, object]) -> bool:
    return {"exclusive", "share"} <= found.keys() or found.get("input") == FROM_CLIENT


def _has_options(program: str) -> bool:
    """Returns whether a program is a batch script with options, or with a mistake."""
    path = file_of(program)
    try:
        return path is not None and bool(read_script(path)[0])
    except CoschedError:
        return True
