"""``python -I -X utf8 .../cosched/start/__main__.py MODULE [ARGUMENT ...]``

Runs the function main of a module of cosched; ``own_command`` has these words.
"""

from __future__ import annotations

import os
import sys


def prefer(folder: str) -> None:
    """Puts a folder before installed packages, and after Python's own modules."""
    installed = (at for at, path in enumerate(sys.path) if path.endswith("-packages"))
    if folder not in sys.path:
        sys.path.insert(next(installed, len(sys.path)), folder)


if __name__ == "__main__":
    # The process that starts this one may have another cosched than the installed one.
    prefer(os.path.abspath(__file__).rsplit("/", 3)[0])
    from cosched.start.isolated import run

    run(sys.argv.pop(1))
