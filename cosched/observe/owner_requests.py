"""Sends an owner's request to every node of a run directory that has the job."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cosched.core.errors import CoschedError
from cosched.node.sockets.client import request
from cosched.observe.status import gather, no_daemons, nodes_of_job
from cosched.rundir.paths import NodePaths


@dataclass(frozen=True, slots=True)
class Steered:
    """One node's answer to a request about a job."""

    node: str  #: the node's host name
    job: str  #: the job's key; with an error, the job as the user named it
    before: str | None = None  #: the job's mode before the request; None with an error
    mode: str | None = None  #: the job's mode now; None with an error
    error: str | None = None  #: why the node refused; None if it did not


def steer(run_dir: Path, op: str, job: str, nodes: Sequence[str] = ()) -> list[Steered]:
    """Sends ``op`` (suspend, resume, raise, release) to the nodes where the job is.

    ``job`` is a name or a key. Raises CoschedError if no node has it, or if all refuse.
    """
    statuses = gather(run_dir, nodes)
    if not statuses:
        raise no_daemons(run_dir, os.geteuid())
    found = nodes_of_job(statuses, job)
    here = [status for status in found if status["jobs"]]
    if not here:
        reason = found[0]["waiting"][0]["reason"]
        raise CoschedError(f"{reason}; it can be steered once it runs")
    done = [_steer_one(NodePaths(run_dir, status["node"]), op, job) for status in here]
    if all(one.error is not None for one in done):
        raise CoschedError(str(done[0].error))
    return done


def _steer_one(paths: NodePaths, op: str, job: str) -> Steered:
    try:
        answer = request(paths, op, job=job)
    except CoschedError as error:
        return Steered(paths.node, job, error=str(error))
    return Steered(paths.node, answer["job"], answer["before"], answer["mode"])
