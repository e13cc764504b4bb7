"""Declares ``domain.toml`` of a coupled domain whose jobs Slurm queues."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from cosched.config.coupling import Coupled, CouplingTable
from cosched.core.config.kinds import LINE, TEXT, duration_s, one_of
from cosched.core.config.mistakes import Mistake, Problem, placed
from cosched.core.config.tables import REQUIRED, key, table
from cosched.core.decoding import printable
from cosched.core.errors import CoschedError
from cosched.core.units import NS_PER_MS, NS_PER_S
from cosched.documents import is_there, load_file, read_document, read_toml
from cosched.linux.users import find_uid

#: ``engine`` in domain.toml; without it the domain has nodes of its own.
SLURM = "slurm"
_LONGEST_NS = 30 * 86400 * NS_PER_S
_AHEAD_S = 10.0
#: A try runs the job's prolog.
_YIELD_WAIT_NS = 30 * NS_PER_S


@dataclass(frozen=True, slots=True)
class SlurmSettings:
    """[slurm]: how the controller uses Slurm. Times are seconds."""

    conf: str = key(TEXT, "", "The cluster's slurm.conf; empty: Slurm's own default.")
    user: str = key(LINE, "slurm", "SlurmUser, as whom gates run.")
    poll_s: float = key(
        duration_s(50 * NS_PER_MS, _LONGEST_NS), 2.0, "How often squeue runs."
    )
    command_s: float = key(
        duration_s(500 * NS_PER_MS, _LONGEST_NS),
        10.0,
        "How long a command of Slurm may take.",
    )
    try_s: float = key(
        duration_s(500 * NS_PER_MS, _LONGEST_NS),
        5.0,
        "How long a job may take from the order to start now until it has nodes.",
    )
    longest_hold_s: float = key(
        duration_s(NS_PER_S, _LONGEST_NS),
        3600.0,
        "A job yields after this hold, even if the controller does not answer. "
        "One that cannot yield starts.",
    )
    controller_lost_after_s: float = key(
        duration_s(0, _LONGEST_NS),
        60.0,
        "After this absence of the controller, a job with mates does as ``then``.",
    )
    then: str = key(
        one_of("start", "yield"),
        "start",
        "Such a job starts without its mates, or yields.",
    )
    cannot_yield: str = key(
        one_of("refuse", "hold"),
        "refuse",
        "srun and salloc jobs, and those with --no-requeue, cannot wait in the queue "
        "again. Such a job with mates is refused, or it only holds.",
    )

    @property
    def ahead_s(self) -> float:
        """How long before the end of a hold the controller starts a job that cannot
        yield."""
        return min(self.longest_hold_s / 2, _AHEAD_S)


@dataclass(frozen=True, slots=True)
class SlurmDomain:
    """The whole file."""

    name: str = key(LINE, REQUIRED, "The domain's name for the others.")
    engine: str = key(one_of(SLURM), REQUIRED, "Slurm queues the jobs.")
    coupling: CouplingTable = table(CouplingTable)
    slurm: SlurmSettings = table(SlurmSettings)

    def contradictions(self) -> Iterator[Mistake]:
        """Yields why the domain cannot have its name."""
        yield from self.coupling.own_name_mistakes(self.name)


@dataclass(frozen=True, slots=True)
class Waits:
    """How long a job gets no nodes after it gave them back."""

    yield_s: float  #: after it yielded, in seconds
    release_s: float  #: after its hold had lasted too long, in seconds


@dataclass(frozen=True)
class CoupledConfig(Coupled):
    """A coupled domain whose jobs Slurm queues."""

    slurm: SlurmSettings  #: how the controller uses Slurm
    waits: Waits  #: how long a job rests after it gave nodes back
    document: SlurmDomain  #: the file that all of this was read from


def is_coupled(path: Path) -> bool:
    """Returns whether this ``domain.toml`` is of a domain whose jobs Slurm queues."""
    return is_there(path) and read_toml(path).get("engine") == SLURM


def load_coupled(path: Path) -> CoupledConfig:
    """Reads the file. CoschedError names the file and what is wrong in it."""
    return coupled_config(load_file(path, SlurmDomain))


def load_here(path: Path) -> CoupledConfig:
    """Reads the file for a controller on this machine. Raises CoschedError also for a
    ``slurm.conf`` or a user that is not here: each command of Slurm would fail, or the
    controller would refuse each gate."""
    loaded = load_coupled(path)
    for problem in problems_here(path, loaded.slurm):
        raise CoschedError(str(problem))
    return loaded


def problems_here(path: Path, settings: SlurmSettings) -> list[Problem]:
    """Returns the mistakes in the settings of a file that this machine shows."""
    mistakes = []
    if settings.conf and not os.path.isfile(os.path.join("/", settings.conf)):
        conf = printable(settings.conf)
        text = f"'{conf}' is no file here; write the path of the cluster's slurm.conf"
        mistakes.append(Mistake("slurm.conf", text))
    if find_uid(settings.user) is None:
        user = printable(settings.user)
        text = f"there is no user '{user}' here; write SlurmUser of its slurm.conf"
        mistakes.append(Mistake("slurm.user", text))
    return placed(mistakes, read_document(path), str(path))


def coupled_config(document: SlurmDomain) -> CoupledConfig:
    """Returns the configuration of a file."""
    coupling = document.coupling
    coupled = coupling.of(document.name, rest_ns=0)  # Slurm lets jobs rest
    rest_ns = coupling.yield_wait_ns
    rest_ns = _YIELD_WAIT_NS if rest_ns is None else rest_ns
    waits = Waits(rest_ns / NS_PER_S, coupling.settings.pause_ns / NS_PER_S)
    return CoupledConfig(
        **vars(coupled), slurm=document.slurm, waits=waits, document=document
    )
