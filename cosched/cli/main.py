"""``cosched``: sends a plain job at once; all other command lines go to its table."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from cosched.cli.entry import completes_a_line, run_click, run_program


def _work(words: Sequence[str]) -> object:
    if words[:1] == ["submit"] and not completes_a_line():
        from cosched.cli.domain.plain import read_plain

        given = read_plain(words[1:])
        if given is not None:
            from cosched.cli.domain.submitting import submit

            return submit(given)
    from cosched.cli.commands import cosched

    return run_click(cosched, words)


def main() -> None:
    """Entry point of the ``cosched`` command."""
    words = sys.argv[1:]
    sys.exit(run_program("cosched", lambda: _work(words)))


if __name__ == "__main__":
    main()
