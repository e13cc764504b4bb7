"""Writes the stories of ``cosched why`` as text and as JSON fields."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec

from cosched.core.counting import counted
from cosched.core.node.messages import Cause
from cosched.core.units import NS_PER_S
from cosched.observe.filling import of_live
from cosched.observe.shared_nodes import of_live as sharing_of_live
from cosched.observe.status import refusals
from cosched.observe.why.why import Asker, Story

WIDTH = 79


def story_text(
    story: Mapping[str, Any],
    last: int,
    since_s: float = math.inf,
    *,
    in_all: bool = False,
) -> str:
    """Returns a job's last changes on one node, within 80 columns, from its ``document``.

    since_s: the earliest time that the user asked for, since 1970, by the node's clock.
    in_all: also how often a job that runs had the CPUs so far, how soon it began, how
    waits were filled, and what was seen beside other jobs.
    """
    notes, reaches_back_to_s = story["notes"], story["reaches_back_to_s"]
    lines = _wrapped(f"{story['job']} on {story['node']}: {story['now']}", "", "  ")
    if in_all and story["live"] is not None:
        live = story["live"]
        for text in (_so_far(live), *of_live(live), *sharing_of_live(live)):
            lines += _wrapped(text, "  ", "    ")
    if reaches_back_to_s > since_s and not _begins(notes):
        lines.append(f"  nothing is recorded from before {_clock(reaches_back_to_s)}")
    shown = notes[-last:]
    omitted = len(notes) - len(shown)
    if omitted:
        earlier = counted(omitted, "earlier change")
        lines.append(f"  ({earlier}: --last {len(notes)}, or --json)")
    for note in shown:
        times = f" ({note['times']} times)" if note["times"] > 1 else ""
        first = f"  {_clock(note['wall_ns'] / NS_PER_S)}  "
        lines += _wrapped(note["text"] + times, first, " " * len(first))
    return "\n".join(lines)


def _so_far(job: Mapping[str, Any]) -> str:
    """Returns the job's counts in one sentence."""
    reasons = refusals(job)
    times = "once" if job["switches"] == 1 else f"{job['switches']} times"
    return (
        f"so far: scheduled {times}{_by_messages(job)}, for {job['scheduled_s']:.1f} s in "
        f"all; {counted(sum(job['refused'].values()), 'request')} refused"
        + (f" ({reasons})" if reasons else "")
    )


def _by_messages(job: Mapping[str, Any]) -> str:
    """Returns how many of a job's switches a message pulled."""
    if not job["granted"]:
        return ""
    several = job["switches"] > 1
    return f", {job['granted']} of them by a message" if several else ", by a message"


def _begins(notes: Sequence[Mapping[str, Any]]) -> bool:
    """Returns whether the notes begin with the job's start."""
    return any(
        note["why"] == Cause.FIRST.value and not note["scheduled"] for note in notes[:1]
    )


def _wrapped(text: str, first: str, rest: str) -> list[str]:
    return textwrap.wrap(text, WIDTH, initial_indent=first, subsequent_indent=rest)


def _clock(wall_s: float) -> str:
    """Returns a time of the day, after its date if that is not today."""
    moment = datetime.fromtimestamp(wall_s).astimezone()
    date = "" if moment.date() == datetime.now().astimezone().date() else f"{moment:%m-%d} "
    return f"{date}{moment:%H:%M:%S}.{moment.microsecond // 1000:03}"


def document(story: Story) -> dict[str, Any]:
    """Returns a job's story on one node as JSON fields."""
    return {
        "node": story.node,
        "job": story.job,
        "now": story.standing,
        "live": story.live,
        "reaches_back_to_s": story.reaches_back_to_wall_ns / NS_PER_S,
        "notes": [
            {**msgspec.to_builtins(change.note), "times": change.times, "text": change.text}
            for change in story.changes
        ],
    }


def stories_text(found: Sequence[Story], asker: Asker, last: int) -> str:
    """Returns a job's last changes on all its nodes."""
    since_s = asker.since_wall_ns / NS_PER_S
    return "\n\n".join(
        story_text(document(story), last, since_s, in_all=True) for story in found
    )


def size_lines(changes: Sequence[Mapping[str, Any]], last: int) -> list[str]:
    """Returns the last changes of a job's size, within 80 columns. changes: as a domain
    answers them."""
    lines: list[str] = []
    if len(changes) > last:
        earlier = counted(len(changes) - last, "earlier change")
        lines.append(f"  ({earlier}: --last {len(changes)}, or --json)")
    for change in changes[-last:]:
        at_ns = change["ended_ns"] or change["ordered_ns"]
        first = f"  {_clock(at_ns / NS_PER_S)}  "
        lines += _wrapped(_change_text(change), first, " " * len(first))
    return lines


def _change_text(change: Mapping[str, Any]) -> str:
    sizes = f"{change['before']} to {change['after']} nodes"
    if change["refused"]:
        return f"kept {change['before']} nodes: {change['refused']} ({change['reason']})"
    if change["ended_ns"] is None:
        return f"is to change from {sizes}: {change['reason']}"
    costs = f"it stood still for {change['stood_s']:.2f} s{_shares(change)}"
    if change["slower"] is not None:
        more, share = change["slower"] > 0, abs(change["slower"])
        costs += f", and an iteration takes {share:.0%} {'longer' if more else 'less'}"
    return f"{change['reason']} ({sizes}; {costs})"


def _shares(change: Mapping[str, Any]) -> str:
    """Returns which phases took a tenth or more of the time in which a job stood still."""
    phases = change["phases"]
    if phases is None:
        return ""
    names = ("wait", "spawn", "connect", "start", "move", "resume")
    shown = [
        f"{name} {phases[f'{name}_s']:.2f} s"
        for name in names
        if phases[f"{name}_s"] >= 0.005 and phases[f"{name}_s"] >= 0.1 * change["stood_s"]
    ]
    return f" ({', '.join(shown)})" if shown else ""
