"""Holds the facts about a node that ``cosched doctor`` collects and judges.

Facts are plain values, so they travel between nodes as JSON and the checks need no node.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Clock:
    """The kernel's view of the clock."""

    synchronised: bool  #: a time service disciplines the clock
    #: The greatest error of the clock in seconds; None if it is not synchronised.
    error_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Daemon:
    """A scheduler daemon that answers."""

    version: str  #: the version of cosched that it runs
    class_scheduler: str  #: the name of the class scheduler
    mode: str  #: how the class scheduler enforces shares: proportional or strict
    priority: str  #: the name of the daemon's scheduling priority
    settings: dict[str, str]  #: texts as for ``config set``, by the names of the settings
    slice_s: float  #: the slice in seconds
    gmet_s: float  #: the GMET in seconds
    timer_up: bool  #: the timer process runs
    timer_restarts: int  #: the number of times that the timer was started again
    timer_ticks: int  #: the number of ticks that the timer has sent
    timer_late_s: float  #: how late a tick comes, the mean in seconds
    memory_guarded: bool  #: the daemon starts a job only if its memory is free
    #: The node's memory pressure in percent of the time; None: unknown.
    memory_pressure_percent: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class MpiFacts:
    """An MPI that ``cosched-run`` would find."""

    title: str  #: its name for users
    version: str  #: the version that its launcher prints
    mpiexec: str  #: the path of its launcher
    mpicc: str | None  #: the path of its compiler wrapper; None if it has none
    no_shim: str = ""  #: why the wrapper compiles no program of MPI; empty if it does
    site_shim: str = ""  #: the path of the installation's own shim; empty if it has none
    pmi2: bool | None = None  #: whether it speaks PMI2; None: unknown
    pmix: bool | None = None  #: whether it speaks PMIx; None: unknown


#: Stands for a limit that is not set.
UNLIMITED = "UNLIMITED"


@dataclass(frozen=True, slots=True, kw_only=True)
class Partition:
    """A partition of Slurm."""

    name: str  #: its name
    nodes: str  #: its nodes as Slurm writes them; empty: none
    shared: int  #: the most jobs that a CPU may take; 1: a job shares with no other
    forced: bool  #: jobs share CPUs even if they do not ask for it
    most_s: float | None  #: its time limit in seconds; None: without
    default_memory: bool = False  #: a job that asks for no memory gets a certain amount


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmFacts:
    """Slurm's configuration."""

    config: dict[str, str]  #: the settings as ``scontrol`` prints them, keys in lower case
    #: The partitions, in the order in which ``scontrol`` prints them.
    partitions: tuple[Partition, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeFacts:
    """One node."""

    node: str  #: its host name
    version: str  #: the version of cosched that is installed
    abi: int  #: the version of the shared memory
    python: str  #: the version of Python that runs cosched
    kernel: str  #: the kernel's release
    cgroup: int  #: the version of cgroups that has the cpu controller: 2 or 1; 0: none
    #: Where cgroup2 is mounted, if the kernel moves tasks slowly; empty: it does not, or
    #: nothing is known of it.
    slow_moves: str = ""
    clock: Clock  #: the kernel's view of the clock
    run_dir: str  #: the path of the run directory
    #: Why the run directory cannot be used; empty if it is in order.
    run_dir_problem: str = ""
    history: str = ""  #: the directory that keeps the records of ended jobs
    history_problem: str = ""  #: why the records cannot be kept; empty if they are in order
    run_dir_free_bytes: int  #: free bytes where the run directory is
    shm_free_bytes: int  #: free bytes in /dev/shm
    memory_bytes: int  #: bytes of memory in the machine
    swap_bytes: int  #: bytes of swap in the machine; 0: it has none
    #: The state of cosched.service that systemd reports (``enabled``, ``disabled``,
    #: ``not-found``); empty without systemd.
    unit: str = ""
    daemon: Daemon | None = None  #: the scheduler daemon; None if none answers
    no_daemon: str = ""  #: why no daemon answers; empty if one does
    of_lab: bool = False  #: the node belongs to the lab in the run directory
    #: The CPUs of each half, if a domain divided this node; (): it cannot be divided.
    halves: tuple[tuple[int, ...], ...] = ()
    halves_why: str = ""  #: by which hardware, or why it cannot; empty: not known
    #: The MPIs that are found; None: they were not looked for.
    mpis: tuple[MpiFacts, ...] | None = None


@dataclass(frozen=True, slots=True)
class Seen:
    """A node as it is seen from here."""

    name: str  #: the node's host name
    facts: NodeFacts | None = None  #: the node's facts; None if it did not answer
    silent: str = ""  #: why the node did not answer; empty if it did
    offset_s: float = 0.0  #: its clock is ahead of this one by this time in seconds
    within_s: float = 0.0  #: ``offset_s`` is right to plus or minus this time in seconds


#: States of cosched.service where no operator has installed it.
_NO_UNIT = ("", "not-found")


@dataclass(frozen=True, slots=True)
class Site:
    """All nodes that are examined together, and their Slurm."""

    nodes: tuple[Seen, ...]  #: the nodes, with those that did not answer
    #: Slurm's configuration; None without Slurm, or if it did not answer.
    slurm: SlurmFacts | None = None
    slurm_silent: str = ""  #: why Slurm did not answer; empty if it did, or without Slurm
    #: No nodes were named, so this may be a user's own machine.
    unnamed: bool = False

    def is_personal(self, facts: NodeFacts) -> bool:
        """Returns whether a node is a user's own machine: no operator runs daemons there,
        and commands start private ones."""
        without_slurm = self.slurm is None and not self.slurm_silent
        return self.unnamed and without_slurm and facts.unit in _NO_UNIT

    @property
    def facts(self) -> tuple[NodeFacts, ...]:
        """The facts of the nodes that answered."""
        return tuple(seen.facts for seen in self.nodes if seen.facts is not None)
