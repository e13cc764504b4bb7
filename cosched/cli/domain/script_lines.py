"""Reads a batch script: its lines that are options, ``#COSCHED`` and ``#SBATCH``.

As in Slurm, such a line begins at its first column, and the block ends at the first line
that is neither empty nor a comment. Words are separated by spaces. Quotes of both kinds
group words, a backslash takes the next character as it is, and an unquoted # ends the line.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from cosched.core.errors import CoschedError
from cosched.core.named_tuples import NamedTuple

#: The most bytes of a batch script.
SCRIPT_BYTES = 1 << 20
#: The words that begin such a line.
COSCHED, SBATCH = "#COSCHED", "#SBATCH"
#: The variable of a job with the path of its batch script; the job runs a copy.
SCRIPT_VARIABLE = "COSCHED_SCRIPT"


class Script(NamedTuple):
    """A batch script, and its demands beside its options."""

    text: str = ""  #: the whole script, as it is now; empty: there is none
    environ: Mapping[str, str] = {}  #: variables of the job, beside the user's
    slots: int = 0  #: slots that its node must have; 0: as its ranks need
    slurm: bool = False  #: it has ``#SBATCH`` lines
    notes: Sequence[str] = ()  #: a line for each option that is left out


NO_SCRIPT = Script()


class ScriptLine(NamedTuple):
    """A line with options."""

    path: Path  #: the script
    number: int  #: of the line, from 1
    kind: str  #: ``#COSCHED`` or ``#SBATCH``
    words: tuple[str, ...]  #: the options

    @property
    def place(self) -> str:
        """Returns the place for the begin of a message."""
        return f"{self.path}:{self.number}"


def file_of(program: str) -> Path | None:
    """Returns the file that a word of the command line names, if there is one."""
    places = [""] if "/" in program else os.get_exec_path()
    paths = (Path(place, program) for place in places if program)
    return next((path for path in paths if os.path.isfile(path)), None)


def read_script(path: Path) -> tuple[str, list[ScriptLine]]:
    """Returns the text of a batch script and its lines with options; nothing for a program
    without such lines, or that cannot be read. Raises CoschedError for a line that cannot
    be split into words, and for a script that is too long to travel with its job."""
    try:
        with path.open("rb") as file:
            data = file.read(2)
            if data == b"#!":
                data += file.read(SCRIPT_BYTES - 1)
    except OSError:
        return "", []  # the reason comes when it is started
    if not data.startswith(b"#!"):
        return "", []
    text = os.fsdecode(data)
    lines = list(_lines(path, text))
    if lines and len(data) > SCRIPT_BYTES:
        raise CoschedError(
            f"{path}: a batch script has at most {SCRIPT_BYTES} bytes; keep its data in "
            "another file"
        )
    return (text, lines) if lines else ("", [])


def _lines(path: Path, text: str) -> Iterator[ScriptLine]:
    for number, raw in enumerate(text.split("\n"), 1):
        kind, _, rest = raw.partition(" ")
        tab_kind, _, tab_rest = raw.partition("\t")
        if tab_kind in (COSCHED, SBATCH):
            kind, rest = tab_kind, tab_rest
        if kind in (COSCHED, SBATCH):
            line = ScriptLine(path, number, kind, ())
            if raw.endswith("\r"):
                raise CoschedError(
                    f"{line.place}: has the line end of DOS; remove it, as by dos2unix"
                )
            yield line._replace(words=tuple(_words(line, rest)))
        elif raw.strip() and not raw.lstrip().startswith("#"):
            return


def _words(line: ScriptLine, text: str) -> list[str]:
    words: list[str] = []
    word: str | None = None  # None: between two words
    quote = ""
    letters = iter(text)
    for letter in letters:
        if letter == "\\":
            word = (word or "") + next(letters, "")
        elif quote:
            if letter == quote:
                quote = ""
            else:
                word = (word or "") + letter
        elif letter in "\"'":
            quote = letter
            word = word or ""
        elif letter == "#":
            break
        elif letter.isspace():
            if word is not None:
                words.append(word)
            word = None
        else:
            word = (word or "") + letter
    if quote:
        raise CoschedError(f"{line.place}: {line.kind}: a {quote} is not closed")
    return words if word is None else [*words, word]
