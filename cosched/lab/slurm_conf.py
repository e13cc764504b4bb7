"""Writes ``slurm.conf`` for the nodes of a lab. Pure.

Two ways to share nodes are known. ``GANG``: slurmctld takes turns among the jobs of a node
every 5 s, the least that Slurm allows (a smaller value is silently replaced by 30).
``SHARED``: the jobs of a node run at once and cosched may divide their time, as
docs/cluster.md describes it for sites.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cosched.core.decoding import parse_integer
from cosched.core.errors import CoschedError

SLICE_S = 5
#: Memory of a node in MiB, and what a job gets for a CPU if it does not say.
NODE_MIB = 1000
CPU_MIB = 100
MOST_JOBS = NODE_MIB // CPU_MIB


@dataclass(frozen=True, slots=True)
class Sharing:
    """How jobs share the nodes."""

    partition: str  #: the partition's name
    jobs: int  #: the most jobs that a CPU takes
    lines: tuple[str, ...]  #: the lines of ``slurm.conf`` that bring it about


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


def partition(conf: Path) -> str:
    """Returns the name of the partition in a configuration that this module wrote."""
    found = re.search(
        r"^PartitionName=(\S+)", conf.read_text(errors="replace"), re.MULTILINE
    )
    return found.group(1) if found else ""


def all_cpus(conf: Path) -> int:
    """Returns the CPUs that Slurm counts on all nodes, by a configuration that this module
    wrote."""
    text = conf.read_text(errors="replace")
    found = re.findall(r"(?am)^NodeName=\S+ CPUs=(\d{1,9})", text)
    return sum(parse_integer(count, "CPUs", 0, 10**9) for count in found)


def checked_jobs(jobs: int) -> int:
    """Returns the number of jobs that a CPU takes; CoschedError if memory has no room."""
    if not 1 <= jobs <= MOST_JOBS:
        raise CoschedError(f"--jobs {jobs}: a CPU takes 1 to {MOST_JOBS}")
    return jobs


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
