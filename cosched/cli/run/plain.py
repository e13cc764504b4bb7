"""Reads a plain command line of ``cosched-run``.

It knows the usual options. Any other command line is left to ``command``, which also
reports mistakes.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from cosched.cli.plain_words import PlainWords, Reader, count, run_time
from cosched.cli.run.choices import Asked
from cosched.cli.run.given import WORDS, Given
from cosched.core.units import parse_bytes
from cosched.launch.given.hosts import parse_hosts
from cosched.linux.files.owners import without_links
from cosched.linux.here import this_node
from cosched.rundir.directories import run_dir_to_ask
from cosched.rundir.paths import check_job_name

#: By the field: the reader of the option's value. None: a flag.
_OPTIONS: Mapping[str, Reader | None] = {
    "ranks": count,
    "hosts": lambda text: parse_hosts(text).names,
    "ppn": count,
    "name": check_job_name,
    "mpi": str,
    "memory_bytes": parse_bytes,
    "time_ns": run_time,
    "run_dir": lambda text: without_links(Path(text).absolute()),
    "account": None,
    "verbose": None,
}
#: The same of ``Asked``.
_ASKED: Mapping[str, Reader | None] = {
    "wait": str,
    "require_all": None,
    "no_shim": None,
}
_WORDS = PlainWords({**_OPTIONS, **_ASKED}, WORDS)


def read_plain(words: Sequence[str]) -> Given | None:
    """Returns the options; None for a command line that is not plain, or has a mistake."""
    read = _WORDS.read(words)
    if read is None:
        return None
    found, argv = read
    asked = Asked(**{name: found.pop(name) for name in _ASKED if name in found})
    if "memory_bytes" in found and not asked.coschedules:
        return None
    names_run_dir = "run_dir" in found
    if not names_run_dir:
        found["run_dir"] = run_dir_to_ask(
            os.environ, os.geteuid(), this_node(os.environ)
        ).absolute()
    return Given(argv=argv, asked=asked, names_run_dir=names_run_dir, **found)
