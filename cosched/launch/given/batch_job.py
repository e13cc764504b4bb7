"""Reads from the environment which batch job a command runs in: of Slurm, Flux or PBS."""

from __future__ import annotations

import re
from collections.abc import Mapping

from cosched.core.decoding import is_whole, parse_integer
from cosched.core.hostlist import expand_hosts
from cosched.core.named_tuples import NamedTuple

_ID_MAX = 20
#: Slurm's numbers of a batch script and of an interactive shell come after this one.
_FIRST_SPECIAL_STEP = 4_000_000_000


class EngineJob(NamedTuple):
    """A job of the site's batch system."""

    engine: str  #: ``slurm``, ``flux`` or ``pbs``
    number: str  #: the engine's name for the job, with the step if the command runs in one
    #: Its nodes as Slurm writes them; empty: the engine does not name them.
    node_list: str = ""
    #: The number of tasks that the job asked for; None: it asked for none.
    ranks: int | None = None
    in_step: bool = False  #: the command is itself a task of the job

    @property
    def label(self) -> str:
        """The number as a part of a job's name."""
        return re.sub(r"[^A-Za-z0-9._]+", "-", self.number).strip("-.")[:_ID_MAX]

    def nodes(self) -> tuple[str, ...]:
        """Returns the names of its nodes. Raises CoschedError for a list that does not
        parse."""
        return expand_hosts(self.node_list) if self.node_list else ()


#: The most tasks of a batch job; other numbers count as none.
TASKS_MOST = 1 << 31


def _tasks(text: str) -> int | None:
    if not is_whole(text, 1, TASKS_MOST):
        return None
    return parse_integer(text, "SLURM_NTASKS", 1, TASKS_MOST)


def engine_job(environ: Mapping[str, str]) -> EngineJob | None:
    """Returns the job that ``environ`` describes; None outside of a batch job."""
    number = environ.get("SLURM_JOB_ID")
    if number:
        step = environ.get("SLURM_STEP_ID", "")
        in_step = is_whole(step, most=_FIRST_SPECIAL_STEP - 1)
        return EngineJob(
            "slurm",
            f"{number}.{step}" if in_step else number,
            environ.get("SLURM_JOB_NODELIST", ""),
            _tasks(environ.get("SLURM_NTASKS", "")),
            in_step,
        )
    if environ.get("FLUX_JOB_ID"):
        return EngineJob("flux", environ["FLUX_JOB_ID"])
    if environ.get("PBS_JOBID"):
        return EngineJob("pbs", environ["PBS_JOBID"].partition(".")[0])
    return None
