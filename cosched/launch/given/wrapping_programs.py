"""Finds the launcher behind programs in front of it, such as ``time`` and ``env``.

Such a program executes the rest of its command line. Its own options must be known to find
where that rest begins.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from cosched.core.named_tuples import NamedTuple


class _Front(NamedTuple):
    """The command line of a program that executes another one.

    values: options whose value is the next word. words: words of its own after its options.
    assigns: NAME=VALUE words set variables.
    """

    values: tuple[str, ...] = ()
    words: int = 0
    assigns: bool = False


_FRONTS = {
    "chrt": _Front(("-D", "-P", "-T"), words=1),
    "env": _Front(("-u", "-C", "--unset", "--chdir"), assigns=True),
    "ionice": _Front(("-c", "-n", "--class", "--classdata")),
    "nice": _Front(("-n", "--adjustment")),
    "nohup": _Front(),
    "numactl": _Front(
        (
            *("-i", "-N", "-C", "-m", "-p", "-P", "-w"),
            *("--interleave", "--cpunodebind", "--physcpubind", "--membind"),
            *("--preferred", "--preferred-many", "--weighted-interleave"),
        )
    ),
    "setsid": _Front(),
    "stdbuf": _Front(("-i", "-o", "-e", "--input", "--output", "--error")),
    "taskset": _Front(words=1),
    "time": _Front(("-f", "-o", "--format", "--output")),
    "timeout": _Front(("-k", "-s", "--kill-after", "--signal"), words=1),
}


def split_front(argv: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Returns the words in front of the program that ``argv`` finally executes, and the
    rest. If nothing is left behind such words, they are the program."""
    at = 0
    while at < len(argv):
        front = _FRONTS.get(os.path.basename(argv[at]))
        if front is None:
            return tuple(argv[:at]), tuple(argv[at:])
        at = _behind(front, argv, at + 1)
    return (), tuple(argv)


def sets_variables(front: Sequence[str]) -> bool:
    """Whether ``front`` may remove or replace variables: it has ``env``."""
    return any(os.path.basename(word) == "env" for word in front)


def _behind(front: _Front, argv: Sequence[str], at: int) -> int:
    """Returns the index of the first word that does not belong to ``front``."""
    while at < len(argv) and argv[at].startswith("-"):
        word = argv[at]
        at += 2 if word in front.values else 1
        if word == "--":
            break
    at += front.words
    while front.assigns and at < len(argv) and "=" in argv[at]:
        at += 1
    return at
