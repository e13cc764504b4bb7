"""Finds the options of ``sbatch`` for a new job like another one. Pure."""

from __future__ import annotations

import re

from cosched.cluster.engines.slurm.jobs import SlurmJob, number

#: Why jobs wait that Slurm would start if it had nodes for them.
_FOR_NODES = ("Resources", "Priority")
#: In front of each device of a node: later versions write ``gres/gpu:2``.
_GRES = r"\bgres[:/]"
#: The option for each way to share nodes, as squeue shows it.
_SHARING = {
    "none": "--exclusive",
    "user": "--exclusive=user",
    "mcs": "--exclusive=mcs",
    "shared": "--oversubscribe",
    "oversubscribe": "--oversubscribe",
}


def waits_for_nodes(job: SlurmJob) -> bool:
    """Returns whether a job only waits for nodes, so that one like it starts as late. It
    does not if it depends on others, has reached a limit, or is not eligible."""
    return job.state_reason in _FOR_NODES


def can_be_described(job: SlurmJob) -> bool:
    """Returns whether ``options`` describes all that a job needs. It cannot describe
    devices for each task or socket, or for the job as a whole."""
    return not any(
        "gres" in (wanted or "")
        for wanted in (job.tres_per_job, job.tres_per_socket, job.tres_per_task)
    )


def options(job: SlurmJob) -> list[str]:
    """Returns the options for a new job that needs the same."""
    values = {
        "partition": job.partition,
        "nodes": str(job.nodes),
        "ntasks": _whole(number(job.tasks, 0)),
        "ntasks-per-node": _whole(number(job.tasks_per_node, 0)),
        "cpus-per-task": _whole(_cpus_per_task(job)),
        "mem": _megabytes(number(job.memory_per_node, 0)),
        "mem-per-cpu": _megabytes(number(job.memory_per_cpu, 0)),
        "time": _whole(number(job.time_limit, 0)),
        "account": job.account,
        "qos": job.qos,
        "constraint": job.features,
        "nodelist": job.required_nodes,
        "exclude": job.excluded_nodes,
        "reservation": job.resv_name,
        "licenses": job.licenses,
        "gres": re.sub(_GRES, "", job.tres_per_node or ""),
    }
    shared = job.shared if isinstance(job.shared, list) else [job.shared]
    return [
        *(f"--{key}={value}" for key, value in values.items() if value),
        *(_SHARING[str(word)] for word in shared if word in _SHARING),
    ]


def _cpus_per_task(job: SlurmJob) -> float:
    """Returns the CPUs of a task; 0: not shown. Slurm 22.05 often shows only their sum."""
    tasks, cpus = number(job.tasks, 0), number(job.cpus, 0)
    shown = number(job.cpus_per_task, 0)
    return shown or (cpus // tasks if tasks and cpus > tasks else 0)


def _whole(value: float) -> str:
    return f"{value:.0f}" if value else ""


def _megabytes(value: float) -> str:
    return f"{value:.0f}M" if value else ""
