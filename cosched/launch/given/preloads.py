"""Merges cosched's preload with those that a launcher's command line sets.

A user may set LD_PRELOAD for the ranks in several places: an option of the launcher, a list
of Open MPI's, the environment, ``env`` in front of the program. Whichever one the launcher
takes gets cosched's library at its end, so that both libraries load.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from cosched.launch.given.wrapping_programs import split_front

PRELOAD = "LD_PRELOAD"
_ASSIGNS = f"{PRELOAD}="


def preload_entries(text: str) -> list[str]:
    """Returns the libraries of a value of LD_PRELOAD."""
    return [entry for entry in re.split(r"[\s:]+", text) if entry]


def join_preloads(first: str, added: Iterable[str]) -> str:
    """Returns ``first`` with the libraries ``added`` at its end, each once."""
    entries = preload_entries(first)
    return ":".join([*entries, *(entry for entry in added if entry not in entries)])


def shims_in(tasks: Mapping[str, str], environ: Mapping[str, str]) -> tuple[str, ...]:
    """Returns cosched's libraries among the preloads of the ranks. environ: the environment
    whose own preloads stand before them."""
    entries = preload_entries(tasks.get(PRELOAD, ""))
    own = preload_entries(environ.get(PRELOAD, ""))
    return tuple(entry for entry in entries if entry not in own) or tuple(entries[-1:])


def merge_in_program(words: Sequence[str], shims: Iterable[str]) -> tuple[str, ...]:
    """Returns a program's words with cosched's libraries in each ``LD_PRELOAD=...`` that
    ``env`` in front of it sets."""
    front, _ = split_front(words)
    shims = tuple(shims)
    return tuple(
        PRELOAD + "=" + join_preloads(word.removeprefix(_ASSIGNS), shims)
        if shims and index < len(front) and word.startswith(_ASSIGNS)
        else word
        for index, word in enumerate(words)
    )


def environment_behind(
    front: Sequence[str], environ: Mapping[str, str]
) -> Mapping[str, str]:
    """Returns the environment in which the words behind ``front`` start: ``env`` in it sets
    and removes variables."""
    behind = dict(environ)
    for index, word in enumerate(front):
        name, equals, value = word.partition("=")
        if word in ("-i", "-", "--ignore-environment") and _is_of_env(front, index):
            behind.clear()
        elif word in ("-u", "--unset") and _is_of_env(front, index):
            behind.pop(front[index + 1] if index + 1 < len(front) else "", None)
        elif name == "--unset" and equals:
            behind.pop(value, None)
        elif equals and not name.startswith("-"):
            behind[name] = value
    return behind


def _is_of_env(front: Sequence[str], index: int) -> bool:
    """Whether ``env`` is the last program before a word."""
    programs = [word for word in front[:index] if not word.startswith("-")]
    return any(Path(word).name == "env" for word in programs)
