"""Finds the hosts that a launcher's command line or its environment names.

Only the launcher's own options count; see ``line.py``. Files of hosts are read.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from cosched.core.errors import CoschedError
from cosched.launch.family import LauncherKind
from cosched.launch.given.hosts import host_of, read_hostfile
from cosched.launch.given.line import Context, Line

_RANK = r"(?i)rank\s+\S+\s*=\s*([^\s#]+)"
#: MCA parameters that name a hostfile have this end.
_HOSTFILE_PARAMETER = "default_hostfile"
_VARIABLES = {
    LauncherKind.HYDRA: ("HYDRA_HOST_FILE", "I_MPI_HYDRA_HOST_FILE"),
    LauncherKind.ORTE: ("OMPI_MCA_orte_default_hostfile",),
    LauncherKind.PRRTE: (
        "PRTE_MCA_prte_default_hostfile",
        "OMPI_MCA_prte_default_hostfile",
    ),
}


class UnknownHosts(CoschedError):
    """The ranks run on hosts that are not known here."""


def hosts_on_line(line: Line) -> tuple[tuple[str, ...], ...]:
    """Returns the hosts of each app context; () for a context without any. Raises
    UnknownHosts if a file cannot be read, or if an option chooses hosts by itself."""
    if not line.is_complete:
        raise UnknownHosts("a file with app contexts cannot be read")
    everywhere = _of_all_contexts(line)
    found = []
    for context in line.all_contexts:
        if any(context.named(line.grammar.elsewhere)):
            raise UnknownHosts("the ranks do not run on this node")
        found.append(_hosts_of(line, context) or everywhere)
    return tuple(found)


def hosts_in_environment(
    engine: LauncherKind, environ: Mapping[str, str]
) -> tuple[str, ...]:
    """Returns the hosts of the file that the launcher reads by default; () for none.
    Raises UnknownHosts if it cannot be read."""
    for name in _VARIABLES.get(engine, ()):
        if environ.get(name):
            return _in_file(environ[name])
    return ()


def _of_all_contexts(line: Line) -> tuple[str, ...]:
    """Returns the hosts that hold for all contexts: Hydra takes one list, in any of them,
    and Open MPI a parameter."""
    found: tuple[str, ...] = ()
    for context in (*line.contexts, *line.from_files):
        if line.engine is LauncherKind.HYDRA:
            found = found or _hosts_of(line, context)
        for option in context.named(line.grammar.lists):
            if len(option.values) == 2 and option.values[0].endswith(_HOSTFILE_PARAMETER):
                found = found or _in_file(option.values[1])
    return found


def _hosts_of(line: Line, context: Context) -> tuple[str, ...]:
    grammar = line.grammar
    found: list[str] = []
    for option in context.options:
        if not option.values:
            continue
        value = option.values[0]
        if option.name in grammar.hosts:
            found += filter(None, map(host_of, value.split(",")))
        elif option.name in grammar.hostfiles:
            found += _in_file(value)
        elif option.name in grammar.rankfiles:
            found += _in_rankfile(value)
    return tuple(found)


def _in_file(name: str) -> tuple[str, ...]:
    try:
        return read_hostfile(Path(name)).names
    except CoschedError as error:
        raise UnknownHosts(str(error)) from None


def _in_rankfile(name: str) -> tuple[str, ...]:
    try:
        text = Path(name).read_text(encoding="utf-8", errors="surrogateescape")
    except OSError as error:
        raise UnknownHosts(f"rankfile {name}: {error.strerror}") from None
    return tuple(re.findall(_RANK, text))
