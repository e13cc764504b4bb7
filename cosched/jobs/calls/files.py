"""Names the files of one job of an executor."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from cosched.core.decoding import printable, shown_text

#: So many bytes at the end of an output may have its last line.
_TAIL_BYTES = 4096


class Files(NamedTuple):
    """The files of one job."""

    output: Path  #: its standard output
    error: Path  #: its standard error
    result: Path  #: the result of a function
    failure: Path  #: the exception of a function

    @classmethod
    def of(cls, folder: Path, serial: int) -> Files:
        """Returns the files of the job with this number of its own in a folder."""
        return cls(*(folder / f"{name}-{serial}" for name in cls._fields))

    def last_line(self) -> str:
        """Returns the last line that the job wrote, first of its standard error; empty if
        there is none."""
        lines = [line for path in (self.error, self.output) for line in _last_line(path)]
        return lines[0] if lines else ""

    def remove(self) -> None:
        """Removes them as far as they exist."""
        for path in self:
            path.unlink(missing_ok=True)


def text_of(path: Path) -> str | None:
    """Returns a job's output; None if it went to another file."""
    try:
        return path.read_text(errors="surrogateescape")
    except FileNotFoundError:
        return None


def _last_line(path: Path) -> list[str]:
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - _TAIL_BYTES))
            lines = shown_text(file.read()).splitlines()
    except FileNotFoundError:
        return []
    return [printable(line.strip()) for line in lines if line.strip()][-1:]
