"""Reads from Open MPI's files of parameters which variables ranks get.

Open MPI takes the parameter ``mca_base_env_list`` from its command line, the environment,
files of ``--tune`` and files of parameters. Each place replaces those behind it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

from cosched.launch.given.line import Line
from cosched.launch.given.preloads import PRELOAD
from cosched.launch.program import which

ENV_LIST = "mca_base_env_list"
_FILES_VARIABLE = "OMPI_MCA_mca_base_param_files"
_NAME = "openmpi-mca-params.conf"
#: Where distributions keep the file of the whole machine.
_OF_DISTRIBUTION = Path("/etc/openmpi") / _NAME
_IN_PARAMETERS = rf"(?m)^[ \t]*{ENV_LIST}[ \t]*=[ \t]*(.*?)[ \t]*$"
_IN_TUNE = rf"-g?mca\s+{ENV_LIST}\s+(?:\"([^\"]*)\"|'([^']*)'|(\S+))"

_PRELOAD = rf"\b{PRELOAD}=[\"']?([^\s;\"']+)"


def lists_in_files(line: Line) -> Iterator[str]:
    """Yields the lists in the files that a launcher reads; the last one counts."""
    for path in _parameter_files(line):
        yield from re.findall(_IN_PARAMETERS, _text(path))[-1:]
    for text in _tunings(line):
        yield from ("".join(found) for found in re.findall(_IN_TUNE, text))


def tuned_preload(line: Line) -> str | None:
    """Returns the LD_PRELOAD that files of ``--tune`` set; None if none does."""
    found = (re.search(_PRELOAD, text) for text in _tunings(line))
    return next((match[1] for match in found if match), None)


def _tunings(line: Line) -> Iterator[str]:
    for option in line.named(line.grammar.tunes):
        for value in option.values:
            yield from (_text(Path(name)) for name in value.split(","))


def _parameter_files(line: Line) -> Iterator[Path]:
    named = line.environ.get(_FILES_VARIABLE)
    if named:
        yield from map(Path, reversed(named.split(os.pathsep)))
        return
    yield _OF_DISTRIBUTION
    launcher = which(line.argv[0], line.environ)
    if launcher is not None:
        yield launcher.resolve().parent.parent / "etc" / _NAME
    if line.environ.get("HOME"):
        yield Path(line.environ["HOME"], ".openmpi", "mca-params.conf")


def _text(path: Path) -> str:
    """Returns the text of a file; "" if there is none, as the launcher reports."""
    try:
        return path.read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return ""
