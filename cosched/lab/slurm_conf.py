"""Writes ``slurm.conf`` for the nodes of a lab. Pure.

Two ways to share nodes are known. ``GANG``: slurmctld takes turns among the jobs of a node
every 5 s, the least that Slurm allows (a smaller value is silently replaced by 30).
``SHARED``: the jobs of a node run at once and cosched may divide their time, as
docs/cluster.md describes it for sites.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

SLICE_S = 5
#: Memory of a node in MiB, and what a job gets for a CPU if it does not say.
NODE_MIB = 1000
CPU_MIB = 100


@dataclass(frozen=True, slots=True)
class Sharing:
    """How jobs share the nodes. partition: its name; jobs: how many a CPU takes; lines: the
    settings that bring it about."""

    partition: str
    jobs: int
    lines: tuple[str, ...]


GANG = Sharing(
    "gang",
    64,
    (
        "SelectType=select/linear",
        "SchedulerType=sched/builtin",
        "PreemptMode=GANG",
        f"SchedulerTimeSlice={SLICE_S}",
    ),
)
SHARED = Sharing(
    "shared",
    3,
    (
        "SelectType=select/cons_tres",
        "SelectTypeParameters=CR_Core_Memory",
        f"DefMemPerCPU={CPU_MIB}",
        "SchedulerType=sched/backfill",
        "PreemptMode=OFF",
        "KillWait=5",
    ),
)
SHARINGS = {sharing.partition: sharing for sharing in (GANG, SHARED)}


def slurm_conf(
    folder: Path, nodes: Sequence[tuple[str, int]], sharing: Sharing, first_job: int
) -> str:
    """Returns the configuration. ``nodes``: name and number of CPUs of each. ``first_job``:
    number of the first job.

    MPICH names its shared memory after the number of its job. All labs of a machine share
    ``/dev/shm``, so each lab needs other numbers.

    TmpFS is a folder a node, since the nodes of a lab share /tmp and PMIx makes a folder of
    the same name on each.
    """
    lines = [
        "ClusterName=lab",
        f"SlurmctldHost={nodes[0][0]}",
        f"AuthInfo=socket={folder}/munge.socket",
        "SlurmUser=root",
        "SlurmdUser=root",
        f"StateSaveLocation={folder}/state",
        f"SlurmdSpoolDir={folder}/spool.%n",
        f"TmpFS={folder}/tmp.%n",
        f"SlurmctldPidFile={folder}/slurmctld.pid",
        f"SlurmdPidFile={folder}/slurmd.%n.pid",
        f"SlurmctldLogFile={folder}/slurmctld.log",
        f"SlurmdLogFile={folder}/slurmd.%n.log",
        "MailProg=/bin/true",
        "ProctrackType=proctrack/linuxproc",
        "TaskPlugin=task/none",
        "MpiDefault=pmi2",
        f"FirstJobId={first_job}",
        "PreemptType=preempt/none",
        *sharing.lines,
        "SlurmdParameters=config_overrides",
        "JobAcctGatherType=jobacct_gather/none",
        "ReturnToService=2",
        *(f"NodeName={name} CPUs={cpus} RealMemory={NODE_MIB}" for name, cpus in nodes),
        f"PartitionName={sharing.partition} Nodes=ALL Default=YES "
        f"OverSubscribe=FORCE:{sharing.jobs} State=UP",
    ]
    return "\n".join(lines) + "\n"
