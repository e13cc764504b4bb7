"""Reads the indices of an array of jobs, and names of jobs: ``12``, ``12_3``, ``12_1-5``.

An array is written as Slurm writes it: ``1-100%10``, ``1,3,7-9``, ``1-9:2``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import NamedTuple

from cosched.core.bounds import JOB_MOST
from cosched.core.decoding import parse_integer
from cosched.core.errors import CoschedError

#: The most tasks of an array.
TASKS_MOST = 10_000
#: The greatest index of a task.
INDEX_MOST = 4_000_000
#: The most characters of an array, or of the jobs for which a job waits.
TEXT_MOST = 4000
#: The most words in such a text.
_WORDS_MOST = 500
#: The most characters of a text that an error repeats.
_SHOWN = 60
_DIGITS = r"\d{1,15}"
_RANGE = rf"(?a)({_DIGITS})(?:-({_DIGITS})(?::({_DIGITS}))?)?"
#: Also with ``%10`` in the brackets, as a queue prints the waiting tasks of an array.
_JOB = rf"(?a)({_DIGITS})(?:_(?:\[([^\[\]%]*)(?:%{_DIGITS})?\]|([\d:-]+)))?"
#: A comma that is not between brackets.
_COMMA = r",(?![^\[\]]*\])"


class Indices(NamedTuple):
    """Some indices: from ``first`` to ``last``, each ``step``."""

    first: int  #: the least index
    last: int  #: no index is greater
    step: int  #: the distance between two of them

    def __contains__(self, index: object) -> bool:
        return index in range(self.first, self.last + 1, self.step)


class Array(NamedTuple):
    """The tasks of an array."""

    indices: tuple[int, ...]  #: ascending, each once
    at_once: int  #: the most tasks that may run at a time; 0: any number
    step: int  #: the distance of its indices if it is one range; otherwise 1


class JobRef(NamedTuple):
    """A job, an array, or some tasks of an array."""

    number: int  #: of the job or of the array
    tasks: tuple[Indices, ...] = ()  #: some tasks of the array; (): no choice

    @property
    def tasks_text(self) -> str:
        """Returns the tasks as ``1-3,7``; empty if it makes no choice."""
        return ",".join(map(_word, self.tasks))

    def __str__(self) -> str:
        if not self.tasks:
            return str(self.number)
        text = self.tasks_text
        return f"{self.number}_[{text}]" if len(self.tasks) > 1 else f"{self.number}_{text}"


@lru_cache(maxsize=64)
def parse_array(text: str) -> Array:
    """Returns the tasks that ``1-100%10`` means. Raises CoschedError for another text."""
    if len(text) > TEXT_MOST:
        raise CoschedError(f"array: more than {TEXT_MOST} characters")
    ranges, percent, most = text.partition("%")
    if percent and not re.fullmatch(_DIGITS, most, re.ASCII):
        raise _bad_array(text, "after % a number of tasks is missing")
    at_once = parse_integer(most, "array", 0, 10**15) if percent else 0
    if percent and not at_once:
        raise _bad_array(text, "no task could ever run")
    found = _parse_ranges(ranges)
    if found is None:
        raise _bad_array(text, "is not such as 1-100, 1,3,7-9, 1-9:2 or 1-100%10")
    if sum(len(range(each.first, each.last + 1, each.step)) for each in found) > TASKS_MOST:
        raise _bad_array(text, f"has more than {TASKS_MOST} tasks")
    indices = {
        index for each in found for index in range(each.first, each.last + 1, each.step)
    }
    step = found[0].step if len(found) == 1 else 1
    return Array(tuple(sorted(indices)), min(at_once, len(indices)), step)


def parse_jobs(text: str, what: str) -> tuple[JobRef, ...]:
    """Returns the jobs in ``12,13_4,14_[1-3,7]``. what: names the text in an error. Raises
    CoschedError for another text."""
    if len(text) > TEXT_MOST:
        raise CoschedError(f"{what}: more than {TEXT_MOST} characters")
    words = re.split(_COMMA, text)
    if len(words) > _WORDS_MOST:
        raise CoschedError(f"{what}: names more than {_WORDS_MOST} jobs")
    return tuple(parse_job(word, what) for word in words)


def parse_job(text: str, what: str) -> JobRef:
    """Returns the job that ``12``, ``12_3``, ``12_1-5`` or ``12_[1-3,7]`` names. Raises
    CoschedError for another text."""
    found = re.fullmatch(_JOB, text[:TEXT_MOST])
    ranges: tuple[Indices, ...] | None = ()
    if found is not None and (found[2] is not None or found[3] is not None):
        ranges = _parse_ranges(found[3] if found[2] is None else found[2])
    if found is None or ranges is None:
        raise CoschedError(
            f"{what}: '{text[:_SHOWN]}' is not a job, such as 12, 12_3 or 12_1-5"
        )
    return JobRef(parse_integer(found[1], what, 1, JOB_MOST), ranges)


def indices_text(indices: Sequence[int]) -> str:
    """Returns ascending indices in few characters: ``1-3,7``."""
    words: list[list[int]] = []
    for index in indices:
        if words and words[-1][1] == index - 1:
            words[-1][1] = index
        else:
            words.append([index, index])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in words)


def chosen(ref: JobRef, indices: Iterable[int]) -> list[int]:
    """Returns the indices of an array that a name chooses; all if it makes no choice."""
    if not ref.tasks:
        return list(indices)
    return [index for index in indices if any(index in each for each in ref.tasks)]


def _parse_ranges(text: str) -> tuple[Indices, ...] | None:
    """Returns the ranges of ``1,3,7-9:2``; None for another text."""
    words = text.split(",")
    if len(words) > _WORDS_MOST:
        return None
    found = []
    for word in words:
        match = re.fullmatch(_RANGE, word)
        if match is None:
            return None
        first, last, step = (
            parse_integer(match[1] if group is None else group, "array", 0, 10**15)
            for group in match.groups()
        )
        step = 1 if match[3] is None else step
        if not first <= last <= INDEX_MOST or not step:
            return None
        found.append(Indices(first, last, step))
    return tuple(found)


def _word(indices: Indices) -> str:
    first, last, step = indices
    if first == last:
        return str(first)
    return f"{first}-{last}" if step == 1 else f"{first}-{last}:{step}"


def _bad_array(text: str, problem: str) -> CoschedError:
    return CoschedError(
        f"array '{text[:_SHOWN]}': {problem}; indices are 0 to {INDEX_MOST}"
    )
