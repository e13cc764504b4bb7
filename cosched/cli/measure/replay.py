"""``cosched replay``: replays a trace and compares the decisions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from cosched.cli.declared import Command, argument, command
from cosched.cli.entry import EXIT_FAILURE
from cosched.cli.options import PATH, complete_paths, json_option
from cosched.core.counting import counted
from cosched.observe.timeline.replay import Difference, replay
from cosched.observe.timeline.replay import Replay as Outcome
from cosched.observe.timeline.trace import read_trace


@command("replay")
class Replay(Command):
    """Replay the events of a trace and compare the scheduler's commands with the trace.

    TRACE is the file of a trace, or the directory of a node. The exit status is 0 if all
    commands are equal. It is 1 at the first difference: then this version of cosched
    decides differently from the one that wrote the trace.

    \b
    Examples:
      cosched replay trace.jsonl
      cosched replay /run/cosched/lab1
      cosched replay --json trace.1.jsonl trace.jsonl
    """

    traces: tuple[Path, ...] = argument(
        metavar="TRACE...",
        nargs=-1,
        required=True,
        type=PATH,
        shell_complete=complete_paths,
    )
    as_json: bool = json_option()

    def run(self) -> int:
        result = replay(read_trace(self.traces))
        text = json.dumps(_document(result), indent=2) if self.as_json else _text(result)
        click.echo(text)
        return EXIT_FAILURE if result.difference else 0


def _text(result: Outcome) -> str:
    different, events = result.difference, counted(result.events, "event")
    if different is None:
        segments = counted(result.segments, "segment")
        return f"{events} in {segments}: no difference"
    place = f"{different.entry.path}:{different.entry.line}"
    return (
        f"{place}: command {different.index + 1} differs, after {events}\n"
        f"  event     {different.entry.event}\n"
        f"  recorded  {different.recorded or 'no further command'}\n"
        f"  replayed  {_replayed(different)}"
    )


def _replayed(different: Difference) -> str:
    return different.problem or str(different.replayed or "no further command")


def _document(result: Outcome) -> dict[str, Any]:
    different = result.difference
    return {
        "events": result.events,
        "segments": result.segments,
        "same": different is None,
        "difference": different
        and {
            "file": str(different.entry.path),
            "line": different.entry.line,
            "command": different.index + 1,
            "event": str(different.entry.event),
            "recorded": different.recorded and str(different.recorded),
            "replayed": different.problem
            or (different.replayed and str(different.replayed)),
        },
    }
