"""Builds the answer to ``why``: the recent notes about one job, for its owner and root."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import msgspec

from cosched.core.errors import CoschedError
from cosched.node.records.recorder import Recorder

#: The most notes in one answer.
NOTES_MAX = 300


def explain(recorder: Recorder, request: Mapping[str, Any], uid: int) -> Mapping[str, Any]:
    """Returns the last notes about ``job`` (a key) since ``since_wall_ns``.

    Raises CoschedError for another user's job."""
    job = str(request.get("job"))
    since_wall_ns = request.get("since_wall_ns", 0)
    if not isinstance(since_wall_ns, int):
        raise CoschedError("since_wall_ns: must be a whole number of nanoseconds")
    check_owner(job, uid)
    recent = recorder.recent
    reach_ns = max(since_wall_ns, recent.began_wall_ns)
    notes = recent.notes_about(job, reach_ns, NOTES_MAX + 1)
    if len(notes) > NOTES_MAX:
        notes = notes[1:]
        reach_ns = notes[0].wall_ns
    asked = {(note.asker, note.task) for note in notes if note.asker and note.task}
    return {
        "job": job,
        "reaches_back_to_wall_ns": reach_ns,
        "notes": [msgspec.to_builtins(note) for note in notes],
        "ranks": {str(task): rank for task, rank in recent.ranks_of(asked).items()},
    }


def check_owner(job: str, uid: int) -> None:
    """Raises CoschedError unless ``uid`` is the owner, root or the daemon's user."""
    if uid not in (0, os.geteuid()) and job.partition(".")[0] != str(uid):
        raise CoschedError(f"job {job}: only its owner and root may see that")
