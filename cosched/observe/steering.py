"""Sends an owner's request to every node of a run directory that has the job."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cosched.core.errors import CoschedError
from cosched.node.sockets.client import request
from cosched.observe.status import Status, gather, no_daemons
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
    here = [status for status in statuses if _has(status, "jobs", job)]
    waiting = [line for status in statuses for line in _has(status, "waiting", job)]
    if not here and waiting:
        raise CoschedError(f"{waiting[0]['reason']}; it can be steered once it runs")
    if not here:
        where = ", ".join(status["node"] for status in statuses)
        raise CoschedError(f"no job '{job}' on {where}; see: cosched status")
    done = [_steer_one(NodePaths(run_dir, status["node"]), op, job) for status in here]
    if all(one.error is not None for one in done):
        raise CoschedError(str(done[0].error))
    return done


def _has(status: Status, part: str, job: str) -> list[dict[str, Any]]:
    return [one for one in status[part] if job in (one["name"], one["key"])]


def _steer_one(paths: NodePaths, op: str, job: str) -> Steered:
    try:
        answer = request(paths, op, job=job)
    except CoschedError as error:
        return Steered(paths.node, job, error=str(error))
    return Steered(paths.node, answer["job"], answer["before"], answer["mode"])
