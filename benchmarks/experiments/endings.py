"""Ends an experiment that cannot continue with one line and no traceback."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from json import JSONDecodeError

from cosched.bench.run.interrupts import interruptible
from cosched.core.errors import CoschedError

#: A shell's exit status for a command that SIGINT ended.
INTERRUPTED = 130


@contextmanager
def in_one_line(name: str) -> Iterator[None]:
    """Turns an error of the command ``name`` into one line and exit status 1.

    An interruption gives exit status 130.
    """
    try:
        with interruptible():
            yield
    except (CoschedError, OSError, JSONDecodeError) as error:
        sys.exit(f"{name}: {error}")
    except KeyboardInterrupt:
        print(f"{name}: interrupted", file=sys.stderr)
        sys.exit(INTERRUPTED)
