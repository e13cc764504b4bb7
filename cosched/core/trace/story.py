"""Extracts the story of one job from the steps of a node's machine.

The story has a note for each change of the job's status and for each refused request, with
the reason.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec import Struct

from cosched.core.node.messages import (
    Command,
    Event,
    Job,
    MessageTrapped,
    ModeChosen,
    PublishStatus,
    RefuseRequest,
    Task,
)
from cosched.core.node.prospect import Prospect
from cosched.core.trace.task_tracker import TaskTracker


class Note(Struct, frozen=True):
    """Something that happened to a job."""

    now_ns: int  #: the time by the monotonic clock
    wall_ns: int  #: the time by the wall clock
    why: str  #: a ``Cause`` if ``scheduled`` is set; otherwise a ``Refusal`` or ``ended``
    scheduled: bool | None = None  #: its new status; None: its status did not change
    #: The jobs that were scheduled instead, or that gave way; the job for whose sake it was
    #: refused.
    others: tuple[Job, ...] = ()
    asker: Job | None = None  #: the job that trapped the message; None: no message did it
    task: Task | None = None  #: the task that trapped the message; None: no message did it
    by_ns: int = 0  #: see ``messages.RefuseRequest``
    owner_of: Job | None = None  #: the job whose owner did it; None: no owner did
    mode: str | None = None  #: the mode that the owner chose; None: no owner did it
    #: The job's place in the order; None: the order did not decide.
    prospect: Prospect | None = None
    #: The place of the only one of ``others``; None: there are more, or the order did not
    #: decide.
    rival: Prospect | None = None


ENDED = "ended"


def notes_about(
    job: Job,
    steps: Iterable[tuple[Event, tuple[Command, ...]]],
    tasks: Iterable[Task] = (),
) -> Iterator[Note]:
    """Yields the job's notes in order. ``tasks`` are its tasks before the first step."""
    tracker = TaskTracker({job: tasks})
    for event, commands in steps:
        yield from notes_in(job, event, commands)
        if tracker.take(event) == job:
            yield Note(event.now_ns, event.wall_ns, ENDED)


def notes_in(job: Job, event: Event, commands: tuple[Command, ...]) -> Iterator[Note]:
    """Yields the job's notes of one step, without its end."""
    for command in commands:
        if isinstance(command, (PublishStatus, RefuseRequest)) and command.job == job:
            yield _note(event, command, commands)


def _note(
    event: Event, command: PublishStatus | RefuseRequest, commands: tuple[Command, ...]
) -> Note:
    asker = event.job if isinstance(event, MessageTrapped) else None
    task = event.task if isinstance(event, MessageTrapped) else None
    when = event.now_ns, event.wall_ns
    if isinstance(command, RefuseRequest):
        whom = () if command.other is None else (command.other,)
        return Note(*when, command.reason.value, None, whom, asker, task, command.by_ns)
    others = [
        other
        for other in commands
        if isinstance(other, PublishStatus)
        and other.job != command.job
        and other.scheduled is not command.scheduled
        and not other.cause.allows_requests
    ]
    chosen = event if isinstance(event, ModeChosen) else None
    return Note(
        *when,
        command.cause.value,
        command.scheduled,
        tuple(other.job for other in others),
        asker,
        task,
        owner_of=chosen.job if chosen else None,
        mode=chosen.mode.value if chosen else None,
        prospect=command.prospect,
        rival=others[0].prospect if len(others) == 1 else None,
    )
