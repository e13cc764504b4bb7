"""Holds the facts about a node that ``cosched doctor`` collects and judges.

Facts are plain values, so they travel between nodes as JSON and the checks need no node.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Clock:
    """The kernel's view of the clock. ``error_s``: its greatest error; None if unknown."""

    synchronised: bool
    error_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Daemon:
    """A scheduler daemon that answers. ``settings``: texts as for ``config set``."""

    version: str
    class_scheduler: str
    mode: str
    priority: str
    settings: dict[str, str]
    slice_s: float
    gmet_s: float
    timer_up: bool
    timer_restarts: int
    timer_ticks: int
    timer_late_s: float
    memory_guarded: bool
    memory_pressure_percent: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class MpiFacts:
    """An MPI that ``cosched-run`` would find. ``mpicc``: its compiler; None if it has none.
    ``no_shim``: why that compiles no program of MPI; empty if it does."""

    title: str
    version: str
    mpiexec: str
    mpicc: str | None
    no_shim: str = ""


#: Stands for a limit that is not set.
UNLIMITED = "UNLIMITED"


@dataclass(frozen=True, slots=True, kw_only=True)
class Partition:
    """A partition of Slurm. ``shared``: how many jobs a CPU may take; 1: none beside it.
    ``most_s``: its time limit; None: without. ``default_memory``: a job that asks for no
    memory gets a certain amount."""

    name: str
    nodes: str
    shared: int
    forced: bool
    most_s: float | None
    default_memory: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmFacts:
    """Slurm's configuration as ``scontrol`` prints it, keys in lower case."""

    config: dict[str, str]
    partitions: tuple[Partition, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeFacts:
    """One node.

    abi: version of the shared memory. cgroup: 2, 1, or 0 for neither with a cpu controller.
    daemon: None if none answers; ``no_daemon`` is the reason. unit: what systemd reports of
    cosched.service (``enabled``, ``disabled``, ``not-found``); empty without systemd.
    run_dir_problem, history_problem: empty if they are in order.
    """

    node: str
    version: str
    abi: int
    python: str
    kernel: str
    cgroup: int
    clock: Clock
    run_dir: str
    run_dir_problem: str = ""
    history: str = ""
    history_problem: str = ""
    run_dir_free_bytes: int
    shm_free_bytes: int
    memory_bytes: int
    swap_bytes: int
    unit: str = ""
    daemon: Daemon | None = None
    no_daemon: str = ""
    mpis: tuple[MpiFacts, ...] | None = None


@dataclass(frozen=True, slots=True)
class Seen:
    """A node as it is seen from here. ``facts``: None if it did not answer, for the reason
    in ``silent``. Its clock is ahead of this one by ``offset_s``, plus or minus
    ``within_s``."""

    name: str
    facts: NodeFacts | None = None
    silent: str = ""
    offset_s: float = 0.0
    within_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Site:
    """All nodes that are examined together, and their Slurm: None without one, or if it
    did not answer for the reason in ``slurm_silent``."""

    nodes: tuple[Seen, ...]
    slurm: SlurmFacts | None = None
    slurm_silent: str = ""

    @property
    def facts(self) -> tuple[NodeFacts, ...]:
        """The facts of the nodes that answered."""
        return tuple(seen.facts for seen in self.nodes if seen.facts is not None)
