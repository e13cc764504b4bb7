"""Holds the options of a command line of ``cosched-run``."""

from __future__ import annotations

from pathlib import Path

from cosched.cli.run.choices import Asked
from cosched.core.named_tuples import NamedTuple

#: The options that have not only the name of their field.
WORDS = {
    "ranks": ("-n", "-np", "--ranks"),
    "name": ("--job",),
    "memory_bytes": ("--memory",),
    "minimum": ("--min",),
    "time_ns": ("--time",),
    "verbose": ("-v", "--verbose"),
}


class Given(NamedTuple):
    """The options of ``cosched-run``. None: not given."""

    argv: tuple[str, ...]  #: the program and its arguments
    run_dir: Path  #: the directory of the daemons' sockets
    names_run_dir: bool  #: whether the command line has it
    ranks: int | None = None  #: how many ranks
    hosts: tuple[str, ...] = ()  #: the nodes that they run on
    hostfile: Path | None = None  #: a file with these nodes
    ppn: int | None = None  #: the most ranks on a host
    name: str | None = None  #: the job's name
    mpi: str | None = None  #: an mpiexec, a prefix or a family
    asked: Asked = Asked()  #: how the job takes part in coscheduling
    register: str = "start"  #: when ranks register: ``start`` or ``init``
    memory_bytes: int = 0  #: the memory that the job needs on each node; 0: not known
    time_ns: int | None = None  #: how long the job runs alone
    domain: bool = False  #: the agents of a domain start the ranks
    minimum: int | None = None  #: the least nodes of a malleable job
    #: The nodes beyond which a malleable job grows only while no job waits.
    preferred: int | None = None
    ideal: int | None = None  #: the most nodes of a malleable job
    account: bool = False  #: print at the end how the job's time was spent
    verbose: bool = False  #: print what is done
    dry_run: bool = False  #: only print the command and the environment
    as_json: bool = False  #: print them as JSON
