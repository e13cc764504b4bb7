"""Encodes and decodes the lines of a trace: the events and commands of a node's machine.

Another machine that takes the same events must return the same commands.
docs/dev/formats.md describes the lines. Each line is one JSON object; its first key shows
the three kinds apart:

    cosched_trace   the machine's state at the beginning of a segment (``Header``)
    task            the rank and the job of a task, for readers (``TaskNote``)
    e               an event and the commands that followed (``Step``)

Events and commands are written under the names of their classes with all their fields, so
this module needs no change for a new class. If old readers would misunderstand a change,
raise ``VERSION``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeVar

import msgspec

from cosched.core.decoding import JsonDecoder, Malformed, convert
from cosched.core.errors import CoschedError
from cosched.core.node.messages import Command, Event, Job, Task
from cosched.core.node.process_table import NodeSnapshot

VERSION = 7

_EVENTS = {kind.__name__: kind for kind in Event.__subclasses__()}
_COMMANDS = {kind.__name__: kind for kind in Command.__subclasses__()}


class TaskNote(msgspec.Struct, frozen=True):
    """Describes a task and its job."""

    job: Job  #: the key of its job
    task: Task  #: its pid
    name: str  #: the name of its job
    uid: int  #: the owner of its job
    rank: int  #: its rank in MPI_COMM_WORLD; -1: it is a launcher of the job
    world: int  #: the number of ranks of its job
    carrier: str  #: how its job's status travels, as in the status


class Header(msgspec.Struct, frozen=True):
    """The beginning of a segment."""

    cosched_trace: int  #: the version of the format
    node: str  #: the node's name
    now_ns: int  #: its time by the monotonic clock
    wall_ns: int  #: its time by the wall clock
    state: NodeSnapshot  #: the machine's state
    tasks: tuple[TaskNote, ...] = ()  #: the tasks of that moment


#: One event, and the commands that followed, in order.
Step = tuple[Event, tuple[Command, ...]]
Line = Header | TaskNote | Step


def encode(lines: Iterable[Line]) -> bytes:
    """Returns the lines as bytes, each with its line feed."""
    return msgspec.json.Encoder().encode_lines([_plain(line) for line in lines])


def _plain(line: Line) -> Any:
    if isinstance(line, tuple):
        event, commands = line
        written = [(type(command).__name__, command) for command in commands]
        return {"e": type(event).__name__, "v": event, "c": written}
    return {"task": line} if isinstance(line, TaskNote) else line


def decode(line: bytes) -> Line:
    """Decodes one line. Raises CoschedError, without the line's number, for another
    text."""
    try:
        plain = _decoder.decode(line)
        if "e" in plain:
            event = _convert(plain["v"], _EVENTS[plain["e"]])
            commands = tuple(_convert(value, _COMMANDS[name]) for name, value in plain["c"])
            return event, commands
        if "task" in plain:
            return _convert(plain["task"], TaskNote)
        if plain["cosched_trace"] != VERSION:
            raise CoschedError(
                f"written in version {plain['cosched_trace']} of the trace's format; "
                f"this cosched reads version {VERSION}"
            )
        return _convert(plain, Header)
    except (LookupError, TypeError, ValueError) as error:
        raise Malformed(f"{_WHAT} ({_cause(error)})") from None


_WHAT = "not a line of a trace"
_decoder: JsonDecoder[dict[str, Any]] = JsonDecoder(dict[str, Any], "a line of a trace")
T = TypeVar("T")


def _convert(value: Any, kind: type[T]) -> T:
    # JSON's keys are strings; our tables have numbers and names of enumerations.
    return convert(value, kind, "a line of a trace", keys_are_text=True)


def _cause(error: Exception) -> str:
    return f"no '{error.args[0]}'" if isinstance(error, KeyError) else str(error)
