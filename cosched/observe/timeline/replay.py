"""Replays a trace's events and compares the machine's commands with the recorded ones."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import zip_longest

from cosched.core.node.machine import NodeScheduler
from cosched.core.node.messages import Command
from cosched.observe.timeline.trace import Entry, Trace


@dataclass(frozen=True, slots=True)
class Difference:
    """The first command that differs."""

    entry: Entry  #: the event that led to it
    index: int  #: its place among the commands of the event, from 0
    recorded: Command | None  #: the command in the trace; None: it has no such command
    replayed: Command | None  #: the command of the machine; None: it gave no such command
    #: The error that the machine raised instead; None: it raised none.
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class Replay:
    """The extent of a replay, up to the first difference."""

    events: int  #: the number of events that were replayed, with the one that differs
    segments: int  #: the number of segments that were replayed
    difference: Difference | None  #: the first difference; None: there is none


def replay(trace: Trace) -> Replay:
    """Replays each segment from its own state, up to the first difference."""
    events = 0
    for number, segment in enumerate(trace.segments, 1):
        machine = NodeScheduler.restored(segment.header.state)
        for entry in segment.entries:
            events += 1
            difference = _compare(machine, entry)
            if difference is not None:
                return Replay(events, number, difference)
    return Replay(events, len(trace.segments), None)


def _compare(machine: NodeScheduler, entry: Entry) -> Difference | None:
    try:
        commands = machine.handle(entry.event)
    except Exception as error:  # noqa: BLE001  the crash is the difference
        recorded = entry.commands[0] if entry.commands else None
        problem = f"{type(error).__name__}: {error}"
        return Difference(entry, 0, recorded, None, problem)
    for index, (recorded, replayed) in enumerate(zip_longest(entry.commands, commands)):
        if recorded != replayed:
            return Difference(entry, index, recorded, replayed)
    return None
