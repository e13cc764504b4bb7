"""Finds out whether all ranks surely start with the preloaded shim, as far as can be seen.

If some ranks lack it, the others wait until a limit. All ranks of a wrapper script run
the same script, so they differ only if the script changes the preload itself, or if the
launcher starts several programs.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence

from cosched.launch.given.line import Line
from cosched.launch.given.preloads import PRELOAD
from cosched.launch.given.wrapping_programs import split_front
from cosched.launch.program import Program, which

_ELF = b"\x7fELF"
_SCRIPT_BYTES = 1 << 18
#: A script that changes the preload has one of these.
_MARKS = (b"LD_PRELOAD", b"env -i", b"env -u")
#: Flags of launchers whose program is a file with several programs.
_SEVERAL_PROGRAMS = frozenset(("multi-prog",))


def ranks_are_alike(line: Line, program: Program) -> bool:
    """Whether a launcher's command line starts one program, or one script that leaves the
    preload alone. program: the MPI program among its words."""
    contexts = line.all_contexts
    if len(contexts) != 1 or not line.is_complete or any(line.named(_SEVERAL_PROGRAMS)):
        return False
    words = _executed(contexts[0].program, program)
    return not any(
        _changes_preload(word) or _script_changes_preload(word, line.environ)
        for word in words
    )


def _executed(words: Sequence[str], program: Program) -> Iterator[str]:
    """Yields the words that are executed and not passed on as arguments: programs, those in
    front of others with their options, and the text of ``sh -c``.

    It leaves out the words by which ``env`` sets LD_PRELOAD: cosched's library is added
    there.
    """
    front, rest = split_front(words)
    yield from (word for word in front if not word.startswith(f"{PRELOAD}="))
    if program.family is not None:
        yield from rest[: max(0, len(rest) - len(program.argv))]
        return
    yield from rest[:1]
    if "-c" in rest[1:3]:
        yield from rest[rest.index("-c") + 1 :][:1]


def _changes_preload(word: str) -> bool:
    return any(mark in os.fsencode(word) for mark in _MARKS)


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
