"""Chooses the hosts of a job that cosched-run starts itself: hosts that the user names,
otherwise those of the batch job in which it runs."""

from __future__ import annotations

from pathlib import Path

from cosched.cli.run.reports import warn
from cosched.core.errors import CoschedError
from cosched.core.named_tuples import NamedTuple
from cosched.launch.given.batch_job import EngineJob
from cosched.launch.given.hosts import Hosts, read_hostfile


class Chosen(NamedTuple):
    """The hosts of a job."""

    hosts: Hosts  #: the hosts; empty: none are named
    #: The number of ranks that the batch job asked for on them; None: it asked for none.
    ranks: int | None = None


def choose_hosts(
    named: tuple[str, ...],
    hostfile: Path | None,
    engine: EngineJob | None,
) -> Chosen:
    """Returns the hosts; none if the ranks run here. engine: the batch job whose hosts are
    used by default, unless the command is one of its tasks. Raises CoschedError for
    a bad hostfile."""
    if hostfile is not None:
        return Chosen(read_hostfile(hostfile))
    if named or engine is None or engine.in_step:
        return Chosen(Hosts(named))
    try:
        return Chosen(Hosts(engine.nodes()), engine.ranks)
    except CoschedError as error:
        warn(f"SLURM_JOB_NODELIST: {error}; the ranks run where mpiexec starts them")
        return Chosen(Hosts())
