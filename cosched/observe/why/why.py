"""Finds out why a job runs or does not, now and recently, on each node.

The notes come from the daemons' memory. Older notes come from the traces if the user may
read them.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from cosched.core.decoding import convert
from cosched.core.errors import CoschedError, NoDaemon
from cosched.core.trace.story import Note, notes_about
from cosched.node.sockets.client import request
from cosched.observe.timeline.trace import Trace, read_trace, trace_files
from cosched.observe.why.reasons import Explained, Explainer, explain_all
from cosched.observe.why.standing import find_job, standing
from cosched.rundir.paths import NodePaths, job_key, name_for

log = logging.getLogger(__name__)

Status = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Story:
    """One job on one node."""

    node: str  #: the node's host name
    job: str  #: the job's key
    status: Status | None  #: the status of the node; None if no daemon is up
    #: The changes are complete from this time on, in ns since 1970.
    reaches_back_to_wall_ns: int
    changes: Sequence[Explained]  #: the changes of the job's state, oldest first

    @property
    def live(self) -> Mapping[str, Any] | None:
        """The job in the node's status."""
        return find_job(self.status, self.job)

    @property
    def standing(self) -> str:
        """Returns the current state of the job in half a sentence."""
        return standing(self.status, self.job, self.changes)


@dataclass(frozen=True, slots=True)
class Asker:
    """A user's question about a job."""

    name: str  #: the job's name or key
    uid: int  #: the user who asks
    since_wall_ns: int  #: the earliest time to look at, in ns since 1970


def nodes_with_stories(run_dir: Path) -> list[NodePaths]:
    """Returns the nodes in a run directory that have daemons or a trace."""
    return [
        NodePaths(run_dir, directory.name)
        for directory in sorted(run_dir.glob("*/"))
        if os.path.exists(directory / "control.sock") or trace_files(directory)
    ]


def stories(nodes: Sequence[NodePaths], asker: Asker) -> list[Story]:
    """Returns the job's story on each node that has or had it; CoschedError if none."""
    for paths in nodes:
        if not paths.directory.is_dir():
            raise CoschedError(f"node {paths.node}: not found here; see: cosched status")
    found = [story for paths in nodes for story in _on_node(paths, asker)]
    if not found:
        where = ", ".join(paths.node for paths in nodes) or "any node"
        raise CoschedError(
            f"job {asker.name}: not found on {where}; cosched status lists jobs that run, "
            "cosched history jobs that have ended, cosched queue --all jobs of a domain"
        )
    return found


def _on_node(paths: NodePaths, asker: Asker) -> list[Story]:
    status = _status(paths)
    past = _Past(paths)
    found = []
    for key in _keys(asker, status, past):
        notes, ranks, reach_ns = _remembered(paths, key, asker, status)
        if reach_ns > asker.since_wall_ns and past.trace is not None:
            older = [
                note
                for note in _notes_in(past.trace, key)
                if asker.since_wall_ns <= note.wall_ns < reach_ns
            ]
            notes = [*older, *notes]
            reach_ns = min(reach_ns, past.trace.header.wall_ns)
            ranks = {**past.ranks, **ranks}
        here = find_job(status, key, ("jobs", "waiting"))
        if notes or here:
            explainer = Explainer(ranks.get, partial(name_for, key), key)
            reach_ns = max(reach_ns, asker.since_wall_ns)
            changes = explain_all(explainer, notes)
            found.append(Story(paths.node, key, status, reach_ns, changes))
    return found


def _notes_in(trace: Trace, key: str) -> Iterator[Note]:
    for segment in trace.segments:
        jobs = {job.key: job for job in segment.header.state.jobs}
        yield from notes_about(key, segment, jobs[key].members if key in jobs else ())


def _status(paths: NodePaths) -> Status | None:
    try:
        return request(paths, "status")
    except NoDaemon:
        return None


class _Remembered(msgspec.Struct):
    """The answer of a daemon to ``why``. ranks: by pid."""

    notes: list[Note]
    ranks: dict[int, int]
    reaches_back_to_wall_ns: int


def _remembered(
    paths: NodePaths, key: str, asker: Asker, status: Status | None
) -> tuple[list[Note], dict[int, int], int]:
    """Returns the daemon's notes, ranks by pid, and the time its memory reaches back to."""
    if status is None:
        return [], {}, 2**63
    answer = request(paths, "why", job=key, since_wall_ns=asker.since_wall_ns)
    found: _Remembered = convert(
        answer, _Remembered, f"the answer of {paths.node}", keys_are_text=True
    )
    return found.notes, found.ranks, found.reaches_back_to_wall_ns


class _Past:
    """A node's trace, read at first use; None if the user may not read it."""

    def __init__(self, paths: NodePaths) -> None:
        self._directory = paths.directory
        self._read = False
        self._trace: Trace | None = None

    @property
    def trace(self) -> Trace | None:
        if not self._read:
            self._read = True
            files = trace_files(self._directory)
            if files and all(os.access(path, os.R_OK) for path in files):
                self._trace = read_trace(files, _note_damage)
        return self._trace

    @property
    def ranks(self) -> dict[int, int]:
        if self.trace is None:
            return {}
        return {task: note.rank for (_, task), note in self.trace.tasks.items()}


def _note_damage(line: str) -> None:
    log.warning("%s; what follows, up to the daemon's next start, is left out", line)


def _keys(asker: Asker, status: Status | None, past: _Past) -> list[str]:
    """Returns the keys that a name can mean: a key itself, or the asker's job of that name.
    For root it means other users' jobs if root has no such job."""
    prefix = f"{asker.uid}."
    given_key = asker.name.startswith(prefix)
    own = asker.name if given_key else job_key(asker.uid, asker.name)
    jobs = [*status["jobs"], *status["waiting"]] if status else []
    live = {job["key"]: job["name"] for job in jobs}
    if asker.name in live or own in live:
        return [asker.name if asker.name in live else own]
    others = [key for key, name in live.items() if name == asker.name]
    if asker.uid == 0:
        if others:
            return others
        ended = past.trace.tasks.values() if past.trace else ()
        keys = {note.job for note in ended if asker.name in (note.name, note.job)}
        return sorted(keys) or [own]
    return [own]
