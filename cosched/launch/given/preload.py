"""Finds out whether all ranks surely start with the preloaded shim, as far as can be seen.

If some ranks lack it, the others wait until a limit. All ranks of a wrapper script run
the same script, so they differ only if the script changes the preload itself, or if the
launcher starts several programs.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from cosched.launch.program import Program, which

_ELF = b"\x7fELF"
_SCRIPT_BYTES = 1 << 18
#: A script that changes the preload has one of these.
_MARKS = (b"LD_PRELOAD", b"env -i", b"env -u")
_SEVERAL_PROGRAMS = (":", "--multi-prog", "--app", "-app", "--configfile", "-configfile")


def ranks_are_alike(
    words: Sequence[str], program: Program, environ: Mapping[str, str]
) -> bool:
    """Whether a launcher's command line starts one program, or one script that leaves the
    preload alone. words: those behind the launcher. program: the one among them."""
    if any(word in _SEVERAL_PROGRAMS for word in words):
        return False
    if program.family is not None:
        words = words[: -len(program.argv)]  # the rest is the program's own
    if any(mark in os.fsencode(word) for word in words for mark in _MARKS):
        return False
    return not any(_script_changes_preload(word, environ) for word in words)


def _script_changes_preload(word: str, environ: Mapping[str, str]) -> bool:
    path = None if word.startswith("-") else which(word, environ)
    if path is None:
        return False
    try:
        with path.open("rb") as file:
            text = file.read(_SCRIPT_BYTES)
    except OSError:
        return False  # the ranks report it
    return not text.startswith(_ELF) and any(mark in text for mark in _MARKS)
