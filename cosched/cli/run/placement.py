"""Decides whether a job's ranks run on this node alone, as far as its command line shows.

Private daemons help ranks of their own node only. Ranks of other nodes look for the daemons
there, in the run directories that are usual.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from cosched.core.errors import CoschedError
from cosched.jobs.job_nodes import JobNodes
from cosched.launch.given.batch_job import EngineJob
from cosched.launch.given.first_word import BATCH_LAUNCHERS
from cosched.launch.given.named_hosts import (
    UnknownHosts,
    hosts_in_environment,
    hosts_on_line,
)
from cosched.launch.resolved_job import ResolvedJob
from cosched.linux.here import Here


def ranks_stay_here(
    job: ResolvedJob, engine: EngineJob | None, here: Here, environ: Mapping[str, str]
) -> bool:
    """Whether all ranks surely run on this node. environ: the user's environment."""
    if job.site.agent is not None:
        return False  # virtual nodes
    if job.site.names:
        return here.are_all_meant_by(job.site.names)
    try:
        usual = hosts_in_environment(job.engine, environ) or _nodes_of(engine)
        named = ((),) if job.line is None else hosts_on_line(job.line)
    except UnknownHosts:
        return False
    if not usual and job.wrapped and os.path.basename(job.argv[0]) in BATCH_LAUNCHERS:
        return False
    return all(here.are_all_meant_by(hosts or usual) for hosts in named)


def place_of(
    job: ResolvedJob, engine: EngineJob | None, environ: Mapping[str, str]
) -> JobNodes | None:
    """Returns where the ranks of a job of other nodes run; None if that is not known here,
    or if these are virtual nodes, which all answer here."""
    if job.site.agent is not None:
        return None
    hosts = job.site.names or _hosts_of(job, environ)
    slurm = ""
    if engine is not None and engine.engine == "slurm" and not job.site.names:
        slurm = engine.number.partition(".")[0]
    hosts = hosts or _nodes_of(engine)
    return JobNodes(slurm, hosts) if slurm or hosts else None


def _hosts_of(job: ResolvedJob, environ: Mapping[str, str]) -> tuple[str, ...]:
    """Returns the hosts that a user's launcher gets, each once; () if not known."""
    try:
        named = () if job.line is None else hosts_on_line(job.line)
        usual = hosts_in_environment(job.engine, environ)
    except UnknownHosts:
        return ()
    return tuple(dict.fromkeys(host for hosts in named for host in hosts or usual))


def _nodes_of(engine: EngineJob | None) -> tuple[str, ...]:
    try:
        return () if engine is None else engine.nodes()
    except CoschedError:
        return ()
