"""How an experiment ends that cannot go on: with one line, not a traceback."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from json import JSONDecodeError

from cosched.bench.run.interrupts import interruptible
from cosched.core.errors import CoschedError

#: What a shell makes of a command that SIGINT ended.
INTERRUPTED = 130


@contextmanager
def in_one_line(name: str) -> Iterator[None]:
    """What speaks against the command ``name`` is told in a line, with exit status 1; an
    interruption too, with status 130."""
    try:
        with interruptible():
            yield
    except (CoschedError, OSError, JSONDecodeError) as error:
        sys.exit(f"{name}: {error}")
    except KeyboardInterrupt:
        print(f"{name}: interrupted", file=sys.stderr)
        sys.exit(INTERRUPTED)
