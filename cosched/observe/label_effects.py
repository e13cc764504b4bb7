"""Lists what was seen of users' labels, by user and program, from ended jobs.

The history is the memory of this: it is bounded, each user has a part of it, and it
outlives daemons and reboots (``node.records.history_writer``).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from cosched.core.symbiosis.labels import Checked, LabelRecord
from cosched.core.symbiosis.resources import Limits, Resource
from cosched.core.trace.neighbours import found_limits, label_of
from cosched.linux.users import find_user_name
from cosched.observe.job_summary import JobSummary
from cosched.tables import table

_HEAD = ("user", "program", "label", "found", "runs", "right", "wrong", "counts as")


def label_rows(ended: Iterable[JobSummary], wrong_runs: int) -> list[dict[str, Any]]:
    """Returns a row for each user's program whose label was checked, the last one at the
    end. ended: in the order of their ends. wrong_runs: as of ``LabelRecord``."""
    record = LabelRecord(wrong_runs)
    names: dict[tuple[int, str], str] = {}
    for job in ended:
        found = None if job.sharing is None else found_limits(job.sharing)
        if job.sharing is None or found is None or not job.kind:
            continue
        program = str(job.kind)
        record.add(job.uid, program, label_of(job.sharing), found, job.ended_wall_ns)
        names[job.uid, program] = job.name
    return [_row(record, kept, names[kept.uid, kept.program]) for kept in record.all()]


def _row(record: LabelRecord, kept: Checked, name: str) -> dict[str, Any]:
    counts = record.effective(kept.uid, kept.program, kept.label)
    return {
        "uid": kept.uid,
        "job": name,
        "kind": int(kept.program),
        "label": _names(kept.label),
        "found": _names(kept.found),
        "runs": kept.runs,
        "right": kept.right,
        "wrong": kept.wrong,
        "counts_as": _names(counts),
    }


def _names(limits: Limits) -> list[str]:
    return [resource.value for resource in Resource if resource in limits]


def label_table(rows: Iterable[dict[str, Any]]) -> list[str]:
    """Returns the rows as a table for people, its head first."""
    cells = [
        (
            find_user_name(row["uid"]) or str(row["uid"]),
            row["job"],
            ",".join(row["label"]),
            ",".join(row["found"]) or "-",
            str(row["runs"]),
            str(row["right"]),
            str(row["wrong"]),
            ",".join(row["counts_as"]) or "none",
        )
        for row in rows
    ]
    return table(_HEAD, cells, "<<<<>>><", gap=1)
