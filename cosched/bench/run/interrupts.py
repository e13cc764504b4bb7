"""Handles SIGINT, SIGTERM and SIGHUP so that a bench always cleans up.

Signals that this process ignores, as SIGHUP behind nohup, stay ignored. Within
``interruptible`` the others raise KeyboardInterrupt with their number. Within
``shielded`` they raise it only at the end of the block, so that starting or stopping
processes is not interrupted half-way. ``temporary_folder`` is made and removed so.
"""

from __future__ import annotations

import shutil
import signal
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from cosched.linux.processes.handlers import handled, not_ignored

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def interruptible() -> Iterator[None]:
    """SIGTERM and SIGHUP end the block as Ctrl-C does."""

    def interrupt(number: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt(number)

    with handled(not_ignored(SIGNALS), interrupt):
        yield


@contextmanager
def shielded() -> Iterator[None]:
    """Signals that come within the block raise KeyboardInterrupt after it."""
    caught: list[int] = []

    def remember(number: int, _frame: FrameType | None) -> None:
        caught.append(number)

    with handled(not_ignored(SIGNALS), remember):
        yield
    if caught:
        raise KeyboardInterrupt(caught[0])


@contextmanager
def temporary_folder(prefix: str = "cosched-bench-") -> Iterator[Path]:
    """Yields a new folder below TMPDIR; removes it at the end.

    A TemporaryDirectory would stay if KeyboardInterrupt came while it is made or removed.
    """
    folder = None
    try:
        with shielded():
            folder = Path(tempfile.mkdtemp(prefix=prefix))
        yield folder
    finally:
        with shielded():
            if folder is not None:
                shutil.rmtree(folder)
