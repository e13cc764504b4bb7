"""Builds the command lines that start a job's tasks, one form for a kind of launcher.

There are two cases. If cosched-run gets program, ranks and hosts, this module builds the
launcher's whole command line. If the user gives a launcher's command line, it stays as it
is. In both cases ``given/carried.py`` adds the tasks' variables.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from cosched.core.errors import CoschedError
from cosched.core.named_tuples import NamedTuple
from cosched.launch import intel
from cosched.launch.family import Family, LauncherKind, Mpi
from cosched.launch.given.carried import carry
from cosched.launch.given.first_word import INHERITING
from cosched.launch.given.line import Line, read_line
from cosched.launch.given.wrapping_programs import sets_variables

_BY_NAME = {
    "orterun": LauncherKind.ORTE,
    "prterun": LauncherKind.PRRTE,
    "prun": LauncherKind.PRRTE,
    **dict.fromkeys(INHERITING, LauncherKind.INHERIT),
}


class Site(NamedTuple):
    """A job's hosts, and the way in which a launcher reaches them.

    A virtual site (the lab) has ``agent``, ``enter`` and ``network`` besides.
    """

    #: The hosts' names, for users and sockets; (): this machine, or the launcher chooses.
    names: tuple[str, ...] = ()
    #: The hosts' addresses, for the launcher, in the order of ``names``.
    addresses: tuple[str, ...] = ()
    #: Starts commands on a host as rsh does; None: the launcher's own way.
    agent: Path | None = None
    #: The words that run the launcher itself on the first host; (): it runs here.
    enter: tuple[str, ...] = ()
    #: The only network that the tasks may use, in CIDR notation, because shared memory
    #: would bypass it; empty: any.
    network: str = ""
    transport_chosen: bool = False  #: whether the user's environment names a transport
    #: The most ranks on each host, in the order of ``names``; (): no list of hosts limits
    #: them.
    slots: tuple[int, ...] = ()
    #: How the user's environment binds ranks to CPUs; empty: it does not.
    binding: str = ""


class Layout(NamedTuple):
    """The number of a job's tasks, and the most on each host."""

    ranks: int  #: all tasks of the job
    per_host: int | None  #: the most tasks on a host; None: the site or launcher chooses


class Command(NamedTuple):
    """The command to execute, and its environment."""

    argv: tuple[str, ...]  #: the program and its arguments
    #: Variables to add to the launcher's own environment.
    environ: Mapping[str, str] = {}


def make_layout(
    ranks: int | None, per_host: int | None, hosts: int, slots: Sequence[int] = ()
) -> Layout:
    """Completes the user's numbers; CoschedError if the ranks do not fit. slots: the most
    ranks on each host, unless ``per_host`` gives another number."""
    if slots and per_host is None:
        most = sum(slots)
        if ranks is not None and ranks > most:
            raise CoschedError(
                f"{ranks} ranks do not fit into the {most} slots of the hostfile; "
                "give it more slots, or set --ppn"
            )
        return Layout(most if ranks is None else ranks, None)
    if ranks is None:
        ranks = max(hosts, 1) * (per_host or 1)
    if hosts:
        if per_host is None:
            per_host = -(-ranks // hosts)
        if ranks > hosts * per_host:
            raise CoschedError(
                f"{ranks} ranks do not fit on {hosts} hosts with {per_host} each; "
                "raise --ppn or name more --hosts"
            )
    return Layout(ranks, per_host)


def launcher_kind_of(word: str) -> LauncherKind | None:
    """Returns the launcher's kind if its name alone determines it."""
    return _BY_NAME.get(os.path.basename(word))


def job_command(
    mpi: Mpi,
    site: Site,
    layout: Layout,
    tasks: Mapping[str, str],
    program: Sequence[str],
    environ: Mapping[str, str],
    *,
    root: bool,
) -> Command:
    """Returns the command that starts ``program``, with ``tasks`` for every rank. environ:
    the user's environment."""
    if mpi.engine is LauncherKind.HYDRA:
        argv = _hydra(site, layout)
    elif mpi.engine in (LauncherKind.ORTE, LauncherKind.PRRTE):
        argv = _open_mpi(mpi.engine, site, layout, root=root)
    else:
        raise CoschedError(
            f"{mpi.mpiexec}: unknown kind of launcher; write the launcher yourself: "
            f"cosched-run -- {mpi.mpiexec} ..."
        )
    line = read_line((str(mpi.mpiexec), *argv, *program), mpi.engine, environ)
    carried = carry(line, tasks, environ)
    return Command((*site.enter, *carried.argv), carried.environ)


def wrapped_command(
    line: Line,
    tasks: Mapping[str, str],
    environ: Mapping[str, str],
    front: Sequence[str] = (),
) -> Command:
    """Returns the user's launcher command with ``tasks`` in every rank's environment.

    environ: the user's environment. front: the words in front of the launcher, which start
    it.
    """
    carried = carry(line, tasks, environ)
    if not carried.environ or not sets_variables(front):
        return Command((*front, *carried.argv), carried.environ)
    # Behind it, so that it cannot remove them.
    added = (f"{name}={value}" for name, value in carried.environ.items())
    return Command((*front, "env", *added, *carried.argv))


def own_environment(site: Site, mpi: Mpi) -> dict[str, str]:
    """Returns the variables that an MPI's tasks need even without cosched.

    They keep tasks on a virtual site's network, and unbound from CPUs if the user did not
    choose a binding.
    """
    if mpi.intel:
        virtual = intel.VIRTUAL_TASKS if site.agent is not None else {}
        return {**({} if site.binding else intel.TASKS), **virtual}
    if site.agent is None or mpi.family is not Family.MPICH or site.transport_chosen:
        return {}
    return {"UCX_TLS": "tcp,self"}


#: The variables by which a user chooses what carries messages on a virtual site.
TRANSPORT_VARIABLES = {
    Family.MPICH: ("UCX_TLS",),
    Family.OPENMPI: ("OMPI_MCA_pml", "OMPI_MCA_btl"),
}


def binding_in(environ: Mapping[str, str], mpi: Mpi) -> str:
    """Returns how the user's environment binds ranks to CPUs; empty if it does not."""
    names = intel.BINDING_VARIABLES if mpi.intel else _BINDING_VARIABLES.get(mpi.engine, ())
    return next((environ[name] for name in names if environ.get(name)), "")


#: The variables by which a user chooses the binding, the stronger one first. Hydra binds
#: nothing by default, so its own variable needs no help.
_BINDING_VARIABLES = {
    LauncherKind.ORTE: ("OMPI_MCA_hwloc_base_binding_policy",),
    LauncherKind.PRRTE: (
        "PRTE_MCA_hwloc_default_binding_policy",
        "OMPI_MCA_hwloc_base_binding_policy",
    ),
}


def _hydra(site: Site, layout: Layout) -> list[str]:
    argv: list[str] = []
    if site.agent is not None:
        argv += ["-launcher", "rsh", "-launcher-exec", str(site.agent)]
        argv += ["-localhost", site.addresses[0]]
    if site.addresses:
        argv += ["-hosts", ",".join(_hosts_with_slots(site, layout))]
    if layout.per_host is not None:
        argv += ["-ppn", str(layout.per_host)]
    return [*argv, "-n", str(layout.ranks)]


def _open_mpi(engine: LauncherKind, site: Site, layout: Layout, *, root: bool) -> list[str]:
    """Both generations of Open MPI's launcher.

    Unless the user's environment binds them, ranks are not bound. Two jobs bound to one
    core would share it while other cores are idle, and on virtual nodes every rank would
    land on core 0. PRRTE ignores the user's variable if ranks may share CPUs, so the
    binding is an option in both cases.
    """
    argv = ["--allow-run-as-root"] if root else []
    if site.agent is not None:
        argv += _open_mpi_agent(engine, site)
    if site.addresses:
        argv += ["--host", ",".join(_hosts_with_slots(site, layout, layout.per_host or 1))]
        mapping = "slot"
    else:
        mapping = "slot" if layout.per_host is None else f"ppr:{layout.per_host}:node"
    argv += ["--map-by", f"{mapping}:OVERSUBSCRIBE", "--bind-to", site.binding or "none"]
    return [*argv, "-n", str(layout.ranks)]


def _hosts_with_slots(
    site: Site, layout: Layout, otherwise: int | None = None
) -> list[str]:
    """Returns HOST:SLOTS for each host; HOST alone if there is no number for it."""
    if site.slots and layout.per_host is None:
        pairs = zip(site.addresses, site.slots, strict=True)
        return [f"{address}:{slots}" for address, slots in pairs]
    if otherwise is None:
        return list(site.addresses)
    return [f"{address}:{otherwise}" for address in site.addresses]


def _open_mpi_agent(engine: LauncherKind, site: Site) -> list[str]:
    if engine is LauncherKind.PRRTE:
        argv = ["--prtemca", "plm_ssh_agent", str(site.agent)]
        argv += ["--prtemca", "prte_if_include", site.network]
    else:
        argv = ["--mca", "plm_rsh_agent", str(site.agent)]
        argv += ["--mca", "oob_tcp_if_include", site.network]
    if not site.transport_chosen:
        argv += ["--mca", "pml", "ob1", "--mca", "btl", "tcp,self"]
    return [*argv, "--mca", "btl_tcp_if_include", site.network]
