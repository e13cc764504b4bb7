"""Replaces the patterns in the names of a job's output files: ``%j``, ``%x`` and others."""

from __future__ import annotations

import re

from cosched.cluster.record import Record
from cosched.core.decoding import parse_integer
from cosched.linux.users import find_user_name

_PATTERN = r"(?a)%(\d{0,9})([jxAau])|%%"
#: The most digits that a pattern such as %4a asks for; as in Slurm.
_DIGITS_MOST = 10


def expand(path: str, record: Record) -> str:
    """Returns the path with its patterns replaced, as Slurm has them.

    ``%j`` is the job's number, ``%x`` its name, ``%u`` its user. ``%A`` is the number of
    its array, ``%a`` its index there. ``%%`` is a percent sign. ``%4a`` has four digits at
    least. Other patterns stay as they are.
    """

    def text(pattern: re.Match[str]) -> str:
        width, letter = pattern[1], pattern[2]
        numbers = {
            "j": record.number,
            "A": record.array or record.number,
            "a": 0 if record.task is None else record.task,
        }
        if letter in numbers:
            digits = parse_integer(width or "0", path, 0, 10**9)
            return str(numbers[letter]).zfill(min(digits, _DIGITS_MOST))
        if letter == "x":
            return record.submission.name.replace("/", "_")
        if letter == "u":
            return find_user_name(record.uid) or str(record.uid)
        return "%"

    return re.sub(_PATTERN, text, path)
