"""When jobs were scheduled, read back from the last steps of a node's machine."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from cosched.core.node.messages import Command, Event, Job, PublishStatus

#: From a time to another, or to now (None). Nanoseconds of the clock that nodes share.
Interval = tuple[int, "int | None"]


def scheduled_intervals(
    steps: Sequence[tuple[Event, Iterable[Command]]],
    scheduled_now: Mapping[Job, bool],
    since_wall_ns: int,
) -> dict[Job, list[Interval]]:
    """For each job of ``scheduled_now`` when it was scheduled since then, oldest first.

    Steps are looked at from the last one backwards, no further than needed; what they do
    not reach back to counts as unscheduled, except for a job that they do not mention:
    it has been as it is now.
    """
    found: dict[Job, list[Interval]] = {job: [] for job in scheduled_now}
    ends: dict[Job, int | None] = dict.fromkeys(scheduled_now)
    open_jobs = set(scheduled_now)
    for event, commands in reversed(steps):
        if not open_jobs:
            break
        for command in reversed(tuple(commands)):
            if not isinstance(command, PublishStatus) or command.job not in open_jobs:
                continue
            job = command.job
            if command.scheduled:
                found[job].append((max(event.wall_ns, since_wall_ns), ends[job]))
            ends[job] = event.wall_ns
            if event.wall_ns <= since_wall_ns:
                open_jobs.discard(job)
    for job in open_jobs:
        if ends[job] is None and scheduled_now[job]:
            found[job].append((since_wall_ns, None))
    return {job: intervals[::-1] for job, intervals in found.items()}
