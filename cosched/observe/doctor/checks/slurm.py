"""Judges the settings of Slurm that disturb coscheduling. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from cosched.launch.family import Family
from cosched.launch.spoken_pmi import SpokenPmi, better_kind
from cosched.observe.doctor.facts import UNLIMITED, MpiFacts, Partition, SlurmFacts
from cosched.observe.doctor.findings import Finding, good, note, problem, warning

#: The effect of an interface that an MPI does not speak.
_ALONE = "each rank of 'srun ./app' runs alone as rank 0 of 1, or MPI_Init fails"


def check_slurm(slurm: SlurmFacts, mpis: Sequence[MpiFacts] = ()) -> Iterator[Finding]:
    """Yields a finding for each setting that matters. mpis: those of the nodes."""
    config = slurm.config
    yield _check_gang(config.get("preemptmode", ""))
    yield _check_select(config)
    if _counts_memory(config):
        yield _check_memory(slurm)
    yield from _check_tracking(config)
    yield _check_mpi(config.get("mpidefault", "none"), mpis)
    yield from _check_partitions(slurm.partitions)


def _check_gang(mode: str) -> Finding:
    if "GANG" in mode.upper():
        return problem(
            "gang",
            f"PreemptMode={mode}: Slurm suspends jobs that cosched schedules",
            "PreemptMode=OFF for the cluster; a partition's OFF does not switch it off",
        )
    return good("gang", f"PreemptMode={mode or 'OFF'}")


def _check_select(config: dict[str, str]) -> Finding:
    select = config.get("selecttype", "")
    given = config.get("selecttypeparameters", "")
    if select not in ("select/cons_tres", "select/cons_res"):
        return warning(
            "select",
            f"SelectType={select}: jobs share whole nodes, not cores",
            "SelectType=select/cons_tres with CR_Core_Memory",
        )
    if not _counts_memory(config):
        return warning(
            "select",
            f"SelectTypeParameters={given}: Slurm does not count memory, but jobs that "
            "share CPUs are in memory at once",
            "SelectTypeParameters=CR_Core_Memory and DefMemPerCPU",
        )
    return good("select", f"{select}, {given}")


def _counts_memory(config: dict[str, str]) -> bool:
    return "MEMORY" in config.get("selecttypeparameters", "").upper()


def _check_memory(slurm: SlurmFacts) -> Finding:
    """Without a default, a job that asks for no memory gets all of the node's."""
    keys = ("defmempercpu", "defmempernode")
    if any(slurm.config.get(key, UNLIMITED) != UNLIMITED for key in keys):
        return good("memory", "a job that asks for no memory gets a part of the node's")
    for one in slurm.partitions:
        if one.shared > 1 and not one.default_memory:
            return warning(
                "memory",
                f"partition {one.name}: a job that asks for no memory gets all of its "
                "node's, so no other job starts beside it",
                "DefMemPerCPU for the cluster or the partition",
            )
    return good("memory", "each partition that shares CPUs has a default of memory")


def _check_mpi(default: str, mpis: Sequence[MpiFacts]) -> Finding:
    if default == "none":
        return warning(
            "mpi",
            f"MpiDefault=none: {_ALONE}",
            "MpiDefault=pmi2 for MPICH, pmix for Open MPI; or srun --mpi=...",
        )
    served = {mpi: SpokenPmi(mpi.pmi2, mpi.pmix).is_served(default) for mpi in mpis}
    if unserved := [mpi for mpi in mpis if served[mpi] is False]:
        better = _better(unserved[0])
        return warning(
            "mpi",
            f"MpiDefault={default} does not serve {_names(unserved)}: {_ALONE}",
            f"srun --mpi={better} for programs of it, or MpiDefault={better}",
        )
    if unknown := [mpi for mpi in mpis if served[mpi] is None]:
        names, better = _names(unknown), _better(unknown[0])
        return note(
            "mpi",
            f"MpiDefault={default} may not serve {names}: that does not show here",
            f"check that 'srun -n 2' starts one job of two ranks; if not, --mpi={better}",
        )
    return good("mpi", f"MpiDefault={default}")


def _better(mpi: MpiFacts) -> str:
    is_open_mpi = mpi.title == Family.OPENMPI.title
    return better_kind(Family.OPENMPI if is_open_mpi else Family.MPICH)


def _names(mpis: Iterable[MpiFacts]) -> str:
    return ", ".join(sorted({f"{mpi.title} {mpi.version}" for mpi in mpis}))


def _check_tracking(config: dict[str, str]) -> Iterator[Finding]:
    track = config.get("proctracktype", "")
    if track == "proctrack/cgroup":
        yield good("tracking", "proctrack/cgroup: each job has a control group of its own")
    else:
        yield warning(
            "tracking",
            f"ProctrackType={track}: tasks have no control group of their job, so cosched "
            "moves them out of their group",
            "ProctrackType=proctrack/cgroup",
        )
    plugins = config.get("taskplugin", "")
    if "affinity" in plugins or "cgroup" in plugins:
        yield good("tasks", f"TaskPlugin={plugins}: tasks stay on the CPUs of their job")
    else:
        yield note(
            "tasks",
            f"TaskPlugin={plugins}: tasks are not bound, so jobs of a node compete for all "
            "of its CPUs",
            "TaskPlugin=task/cgroup,task/affinity with ConstrainCores=yes",
        )
    if "tmpfs" in config.get("jobcontainertype", ""):
        yield note(
            "container",
            "job_container/tmpfs: each job has a /tmp of its own, so private daemons of a "
            "user's jobs do not meet",
            "start the site's daemons on all nodes; theirs are in /run/cosched",
        )


def _check_partitions(partitions: tuple[Partition, ...]) -> Iterator[Finding]:
    shared = [one for one in partitions if one.shared > 1]
    if not shared:
        yield warning(
            "sharing",
            "no partition lets jobs share CPUs, so there is nothing to coschedule",
            "OverSubscribe=FORCE:3 for a partition",
        )
    alone = [one for one in partitions if one.shared == 1]
    for one in shared:
        if not one.forced:
            yield note(
                "sharing",
                f"partition {one.name} shares CPUs only among jobs with --oversubscribe",
                f"OverSubscribe=FORCE:{one.shared}",
            )
        yield _check_limit(one, alone)


def _check_limit(one: Partition, alone: list[Partition]) -> Finding:
    """The clock of a time limit runs while a job waits for its turn."""
    subject, name = "limits", f"partition {one.name}"
    if one.most_s is None:
        return good(subject, f"{name}: jobs share CPUs, without a time limit")
    limits = [other.most_s for other in alone if other.most_s is not None]
    longest = max(limits, default=None)
    if longest is None:
        return note(
            subject,
            f"{name}: {one.shared} jobs may share a CPU, so a job may take "
            f"{one.shared} times as long as alone, within {_hours(one.most_s)}",
            "choose MaxTime and DefaultTime for that",
        )
    if one.most_s < one.shared * longest:
        return warning(
            subject,
            f"{name}: MaxTime is {_hours(one.most_s)}, but a job that shares CPUs with "
            f"{one.shared - 1} others may take {one.shared} times as long as elsewhere",
            f"MaxTime of {_hours(one.shared * longest)} or more",
        )
    return good(subject, f"{name}: MaxTime allows for {one.shared} jobs a CPU")


def _hours(seconds: float) -> str:
    return f"{seconds / 3600:.4g} h"
