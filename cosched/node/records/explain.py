"""The answer to ``why``: what happened to one job of late, for its owner and for root."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from cosched.core.errors import CoschedError
from cosched.core.trace.story import notes_about
from cosched.node.records.recorder import Recorder

#: So many notes fit into one answer.
NOTES_MAX = 300


def explain(recorder: Recorder, request: Mapping[str, Any], uid: int) -> Mapping[str, Any]:
    """The notes about ``job`` (a key) since ``since_wall_ns``, the last of them; refuses
    to tell of other users' jobs."""
    job = str(request.get("job"))
    since_wall_ns = request.get("since_wall_ns", 0)
    if not isinstance(since_wall_ns, int):
        raise CoschedError("since_wall_ns: must be a whole number of nanoseconds")
    check_owner(job, uid)
    reach_ns = max(since_wall_ns, recorder.reaches_back_to_wall_ns)
    told = notes_about(job, recorder.recent, recorder.tasks_before(job))
    notes = [note for note in told if note.wall_ns >= reach_ns]
    omitted = max(0, len(notes) - NOTES_MAX)
    if omitted:
        notes = notes[omitted:]
        reach_ns = notes[0].wall_ns
    tasks = {note.task for note in notes}
    return {
        "job": job,
        "reaches_back_to_wall_ns": reach_ns,
        "notes": [asdict(note) for note in notes],
        "ranks": {
            str(note.task): note.rank
            for note in recorder.tasks.values()
            if note.task in tasks
        },
    }


def check_owner(job: str, uid: int) -> None:
    """Refuses whoever is neither the job's owner, root nor the daemon's own user."""
    if uid not in (0, os.geteuid()) and job.partition(".")[0] != str(uid):
        raise CoschedError(f"job {job}: only its owner and root may see that")
