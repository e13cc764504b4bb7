"""Reads lists of host names as Slurm and its relatives write them: ``n[1-3,07],login``.

Leading zeros of a range's first number are kept: ``n[08-10]`` is n08, n09 and n10. A name
may have several pairs of brackets.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection

from cosched.core.decoding import check_printable, parse_integer
from cosched.core.errors import CoschedError

#: A list of more names is a mistake.
MOST_HOSTS = 1 << 20
_WORD = r"(?:[^][,\s]|\[[^][\s]*\])+"
#: The most digits of a number in a name.
_DIGITS = 18
_RANGE = rf"([0-9]{{1,{_DIGITS}}})(?:-([0-9]{{1,{_DIGITS}}}))?"


def expand_hosts(text: str) -> tuple[str, ...]:
    """Returns the names in their order. Raises CoschedError for a list that does not parse
    or names a host twice."""
    names: list[str] = []
    check_printable(text, "hosts")
    for word in _split(text):
        found = [""]
        for part in re.split(r"(\[[^]]*\])", word):
            ends = _numbers(part[1:-1], text) if part.startswith("[") else [part]
            if len(names) + len(found) * len(ends) > MOST_HOSTS:
                raise CoschedError(f"'{text[:60]}' names more than {MOST_HOSTS} hosts")
            found = [head + end for head in found for end in ends]
        names += found
    if len(set(names)) < len(names):
        twice = next(name for name, times in Counter(names).items() if times > 1)
        raise CoschedError(f"'{text}' names {twice} twice")
    return tuple(names)


def without_hosts(text: str, removed: Collection[str]) -> str:
    """Returns a list without these names: the same text if it has none of them, and ''
    if no name is left. Raises CoschedError as ``expand_hosts``."""
    names = expand_hosts(text)
    left = [name for name in names if name not in removed]
    return text if len(left) == len(names) else ",".join(left)


def _split(text: str) -> list[str]:
    words, at = [], 0
    word = re.compile(_WORD)
    while at <= len(text):
        match = word.match(text, at)
        if match is None or (match.end() < len(text) and text[match.end()] != ","):
            raise CoschedError(f"'{text}' is not a list of hosts such as n[1-3,7],n9")
        words.append(match[0])
        at = match.end() + 1
    return words


def _numbers(text: str, whole: str) -> list[str]:
    found: list[str] = []
    for part in text.split(","):
        match = re.fullmatch(_RANGE, part)
        if match is None:
            raise CoschedError(f"'{whole}': '{part}' is not a number or a range")
        first, last = (
            parse_integer(each, f"'{whole}'", 0, 10**_DIGITS)
            for each in (match[1], match[2] or match[1])
        )
        if not first <= last < first + MOST_HOSTS:
            raise CoschedError(f"'{whole}': the range '{part}' has no end")
        found += [f"{number:0{len(match[1])}}" for number in range(first, last + 1)]
    return found
