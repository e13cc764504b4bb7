"""Makes the folders of a bench, and removes them even if a signal comes meanwhile."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cosched.bench.run.interrupts import shielded


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
