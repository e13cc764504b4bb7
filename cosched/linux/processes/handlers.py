"""Handles signals in another way for the time of a block."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Callable, Iterable, Iterator
from types import FrameType
from typing import TypeAlias

Handler: TypeAlias = "Callable[[int, FrameType | None], object] | signal.Handlers"


def not_ignored(numbers: Iterable[signal.Signals]) -> list[signal.Signals]:
    """Returns the signals that this process does not ignore, as it ignores SIGHUP behind
    nohup."""
    return [each for each in numbers if signal.getsignal(each) is not signal.SIG_IGN]


@contextlib.contextmanager
def handled(numbers: Iterable[int], handler: Handler) -> Iterator[None]:
    """Gives the signals of these numbers a handler within the block, and their former ones
    afterwards."""
    former = {number: signal.signal(number, handler) for number in numbers}
    try:
        yield
    finally:
        for number, before in former.items():
            signal.signal(number, before)
