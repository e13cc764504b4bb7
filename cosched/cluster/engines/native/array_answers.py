"""Answers about arrays, and about jobs that are kept back until others have ended."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from cosched.cluster.record import Record, State
from cosched.cluster.store import JobStore
from cosched.core.arrays import (
    TEXT_MOST,
    JobRef,
    chosen,
    indices_text,
    parse_array,
    parse_job,
)
from cosched.core.cluster.queue.machine import QueueMachine
from cosched.core.cluster.queue.states import State as Queued
from cosched.core.counting import counted
from cosched.core.decoding import convert
from cosched.core.errors import CoschedError

#: The most characters of a list of jobs or indices in a line.
_SHOWN = 100


def named_tasks(store: JobStore, number: int, tasks: object) -> list[int]:
    """Returns the numbers of the jobs that a user names: a job, an array, or the tasks of
    an array in ``1-3,7``. Raises CoschedError if there are none."""
    text: str = convert(tasks, str, "the tasks of an array")
    ref = JobRef(number)
    if text:
        ref = parse_job(f"{number}_[{text[:TEXT_MOST]}]", "tasks")
    found = store.outcomes(number)
    if not found:
        raise CoschedError(f"job {number}: there is no such job")
    if found[0].array != number:  # a job alone, or one task by its own number
        if ref.tasks:
            raise CoschedError(f"job {ref}: job {number} is no array")
        return [number]
    indices = (each.task for each in found if each.task is not None)
    wanted = set(chosen(ref, indices))
    numbers = [each.number for each in found if each.task in wanted]
    if not numbers:
        raise CoschedError(f"job {ref}: there is no such task")
    return numbers


def waits_for(queue: QueueMachine, record: Record) -> str:
    """Returns for which jobs a waiting one is kept back, in a few words; empty if it is
    not."""
    if queue.jobs.state(record.number) is not Queued.KEPT_BACK:
        return ""
    ends, successes = queue.batches.needed_by(record.number)
    job = record.submission
    found = []
    if ends:
        found.append(f"after {_cut(job.after)}")
    if successes:
        found.append(f"after success of {_cut(job.after_ok)}")
    if not found:
        return f"%{parse_array(job.array).at_once} of array {record.array}"
    return " and ".join(found)


def why_kept_back(queue: QueueMachine, record: Record) -> str:
    """Returns one line about a job that is kept back."""
    ends, successes = queue.batches.needed_by(record.number)
    left = ends + successes
    if left:
        jobs = "1 job has" if left == 1 else f"{left} jobs have"
        return f"waits {waits_for(queue, record)}: {jobs} not ended yet"
    at_once = parse_array(record.submission.array).at_once
    tasks = counted(at_once, "task")
    return f"waits: array {record.array} has at most {tasks} in the queue at a time (%)"


def array_line(tasks: Sequence[Record]) -> str:
    """Returns one line about the tasks of an array: how many are in which state."""
    counts = Counter(each.state for each in tasks)
    parts = [f"{counts[state]} {state.value}" for state in State if counts[state]]
    at_once = parse_array(tasks[0].submission.array).at_once
    most = f", at most {at_once} at a time" if at_once else ""
    return f"array of {len(tasks)} tasks{most}: {', '.join(parts)}"


def fold(records: Sequence[Record]) -> list[tuple[Record, str]]:
    """Returns the jobs of a list with one entry for all tasks of an array that wait, or are
    held: the first of them, and ``12_[4-100%10]``. Others come with an empty text."""
    groups: dict[tuple[int, State], list[Record]] = {}
    found: list[tuple[Record, str]] = []
    for record in records:
        if not record.array or record.state not in (State.QUEUED, State.HELD):
            found.append((record, ""))
            continue
        group = groups.setdefault((record.array, record.state), [])
        if not group:
            found.append((record, "+"))
        group.append(record)
    return [
        (record, _folded(groups[record.array, record.state]) if text else "")
        for record, text in found
    ]


def _folded(tasks: Sequence[Record]) -> str:
    first = tasks[0]
    indices = [each.task for each in tasks if each.task is not None]
    at_once = parse_array(first.submission.array).at_once
    if len(indices) == 1 and not at_once:
        return first.label
    most = f"%{at_once}" if at_once else ""
    return f"{first.array}_[{_cut(indices_text(indices))}{most}]"


def _cut(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 3]}..."


def task_entries(tasks: Sequence[Record]) -> list[dict[str, Any]]:
    """Returns number, index and state of each task."""
    return [
        {"job": each.number, "task": each.task, "state": each.state.value} for each in tasks
    ]
