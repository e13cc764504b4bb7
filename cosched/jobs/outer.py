"""Removes from an environment what another job has put there.

A task that finds variables of two jobs may join the wrong one. A user's own settings stay.
"""

from __future__ import annotations

from collections.abc import Mapping

_PREFIXES = (
    "PMI_",
    "PMI2_",
    "PMIX_",
    "HYDI_",
    "MPI_LOCAL",
    "OMPI_COMM_WORLD_",
    "OMPI_MCA_ess",
    "OMPI_MCA_orte_",
    "OMPI_MCA_pmix",
    "PRTE_",
    "PALS_",
    "SLURM_STEP",
    "SLURM_CPU_BIND",
    "SLURM_SRUN_",
    "SLURM_PMI",
    "COSCHED_DOMAIN_",
    "COSCHED_ARRAY_",
)
#: MPI libraries read their users' settings from these.
_SETTINGS = ("PMIX_MCA_", "PRTE_MCA_")
_NAMES = {
    "COSCHED_EXPECTED",
    "COSCHED_LIMITED_BY",
    "COSCHED_JOB",
    "COSCHED_JOIN",
    "COSCHED_LAUNCHED",
    "COSCHED_LAUNCHER",
    "COSCHED_NODE",
    "COSCHED_STATUS",
    "OMPI_APP_CTX_NUM_PROCS",
    "OMPI_ARGV",
    "OMPI_COMMAND",
    "OMPI_FILE_LOCATION",
    "OMPI_FIRST_RANKS",
    "OMPI_NUM_APP_CTX",
    "OMPI_UNIVERSE_SIZE",
    "OMPI_WORLD_LOCAL_SIZE",
    "OMPI_WORLD_SIZE",
    "SLURM_GTIDS",
    "SLURM_LAUNCH_NODE_IPADDR",
    "SLURM_LOCALID",
    "SLURM_NODEID",
    "SLURM_PROCID",
    "SLURM_TASK_PID",
    "SLURMD_NODENAME",
}


#: The mates of a job of a domain.
_MATES = ("COSCHED_MATES", "COSCHED_MATES_FILE")
#: Slurm's number of the job whose mates they are.
_MATES_OF_SLURM = "COSCHED_MATES_OF"


def without_outer_job(environ: Mapping[str, str]) -> dict[str, str]:
    """Returns the environment without the variables of an outer job and its ranks.

    Mates of a job of Slurm stay: inside such a job a domain of its own runs the programs.
    """
    mates = () if _MATES_OF_SLURM in environ else _MATES
    return {
        name: text
        for name, text in environ.items()
        if name not in mates and not _is_of_job(name)
    }


def _is_of_job(name: str) -> bool:
    if name in _NAMES:
        return True
    return name.startswith(_PREFIXES) and not name.startswith(_SETTINGS)
