"""Decides whether a job's ranks run on this node alone, as far as its command line shows.

Private daemons help ranks of their own node only. Ranks of other nodes look for the daemons
there, in the run directories that are usual.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

from cosched.core.errors import CoschedError
from cosched.jobs.places import Place
from cosched.launch.command import BATCH_LAUNCHERS
from cosched.launch.given.engine_job import EngineJob
from cosched.launch.job import Job

_HOST_OPTIONS = ("-host", "--host", "-hosts", "--hosts", "-H")
_FILE_OPTIONS = (
    *("-f", "-hostfile", "--hostfile", "-machinefile", "--machinefile", "-machine"),
    *("--default-hostfile", "-default-hostfile"),
)


def local_names(hostname: str) -> frozenset[str]:
    """Returns the names by which a launcher may call this node."""
    return frozenset((hostname, hostname.partition(".")[0], "localhost", "127.0.0.1"))


def ranks_stay_here(job: Job, engine: EngineJob | None, local: frozenset[str]) -> bool:
    """Whether all ranks surely run on this node. local: this node's names."""
    if job.site.agent is not None:
        return False  # virtual nodes
    if job.site.names:
        return local.issuperset(job.site.names)
    named = _named_hosts(job.argv[1:]) if job.wrapped else ()
    if named is None:
        return False
    if named:
        return local.issuperset(named)
    nodes = _nodes_of(engine)
    if nodes:
        return local.issuperset(nodes)
    return os.path.basename(job.argv[0]) not in BATCH_LAUNCHERS or not job.wrapped


def place_of(job: Job, engine: EngineJob | None) -> Place | None:
    """Returns where the ranks of a job of other nodes run; None if that is not known here,
    or if these are virtual nodes, which all answer here."""
    if job.site.agent is not None:
        return None
    hosts = job.site.names or (_named_hosts(job.argv[1:]) if job.wrapped else ()) or ()
    slurm = ""
    if engine is not None and engine.engine == "slurm" and not job.site.names:
        slurm = engine.number.partition(".")[0]
    hosts = hosts or _nodes_of(engine)
    return Place(slurm, hosts) if slurm or hosts else None


def _nodes_of(engine: EngineJob | None) -> tuple[str, ...]:
    try:
        return () if engine is None else engine.nodes()
    except CoschedError:
        return ()


def _named_hosts(words: Sequence[str]) -> tuple[str, ...] | None:
    """Returns the hosts that a launcher's command line names; () for none, None if a file
    names them."""
    found: list[str] = []
    for option, value in _options(words):
        if option in _FILE_OPTIONS:
            return None
        if option in _HOST_OPTIONS:
            found += [host.partition(":")[0] for host in value.split(",")]
    return tuple(found)


def _options(words: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yields each word that looks like an option, with its value or the next word."""
    for index, word in enumerate(words):
        if word.startswith("-"):
            option, equals, value = word.partition("=")
            following = words[index + 1] if index + 1 < len(words) else ""
            yield option, value if equals else following
