"""``cosched``: reads its command line by its table."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from cosched.cli.entry import run_click, run_program


def _work(words: Sequence[str]) -> object:
    from cosched.cli.commands import cosched

    return run_click(cosched, words)


def main() -> None:
    """Entry point of the ``cosched`` command."""
    words = sys.argv[1:]
    sys.exit(run_program("cosched", lambda: _work(words)))


if __name__ == "__main__":
    main()
