"""How long tests pause between two looks at what gives no event.

A look often asks a daemon, and then takes CPU time from what the test waits for.
"""

from __future__ import annotations

from collections.abc import Iterator

FIRST_S = 0.01
LONGEST_S = 0.1
_GROWTH = 1.25


def pauses() -> Iterator[float]:
    """Yields the seconds of one pause after another: first short ones, then longer ones."""
    pause_s = FIRST_S
    while True:
        yield pause_s
        pause_s = min(_GROWTH * pause_s, LONGEST_S)
