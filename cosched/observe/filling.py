"""Describes in words how soon a job began, and how waits were filled. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from cosched.core.decoding import convert
from cosched.core.trace.filling import Filling, Part
from cosched.rundir.paths import name_for

#: Waits and parts that are shorter are not named.
_LEAST_S = 0.01
#: So many other jobs are named.
_NAMED = 3


def of_live(job: Mapping[str, Any]) -> list[str]:
    """Returns the sentences about a job in a node's status."""
    found = job.get("filling")  # a daemon of an earlier version has none
    filling = None if found is None else convert(found, Filling, "a node's status")
    return sentences(job["key"], job.get("began_after_s"), filling)


def sentences(key: str, began_after_s: float | None, filling: Filling | None) -> list[str]:
    """Returns what is known about the job with this key, a sentence each."""
    found = []
    if began_after_s is not None:
        found.append(f"began {began_after_s:.2f} s after its command")
    if filling is not None and filling.waits_s >= _LEAST_S:
        found.append(_waits(key, filling))
    parts = [] if filling is None else _named(filling.fills)
    if filling is not None and parts:
        shares = [f"{share(part)} of {name_for(key, part.job)}'s" for part in parts]
        found.append(f"filled {_listed(shares, filling.fills)} waits")
    return found


def share(part: Part) -> str:
    """Returns which part of the waits was filled: ``34%``."""
    return f"{part.filled_s / part.waits_s:.0%}" if part.waits_s else "0%"


def _waits(key: str, filling: Filling) -> str:
    parts = _named(filling.filled_by)
    filled = "none of it filled"
    if parts:
        names = _listed([name_for(key, part.job) for part in parts], filling.filled_by)
        filled = f"{filling.filled_s / filling.waits_s:.0%} filled by {names}"
    return f"its waits: {filling.waits_s:.1f} s, {filled}"


def _named(parts: Sequence[Part]) -> list[Part]:
    return [part for part in parts if part.filled_s >= _LEAST_S][:_NAMED]


def _listed(words: Sequence[str], parts: Sequence[Part]) -> str:
    more = len(parts) - len(words)
    return ", ".join(words) + (f" and {more} more" if more else "")
