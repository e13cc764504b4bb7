"""``cosched-run``: starts an MPI job that takes part in coscheduling."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from cosched.cli.entry import completes_a_line, run_click, run_program
from cosched.version import VERSION

NAME = "cosched-run"


def _work(words: Sequence[str]) -> object:
    if list(words) == ["--version"]:
        print(f"{NAME}, version {VERSION}")
        return 0
    if not completes_a_line():
        from cosched.cli.run.plain import read_plain

        given = read_plain(words)
        if given is not None:
            from cosched.cli.run.announcing import announce
            from cosched.cli.run.early_daemons import begin_daemons

            announced = announce(given)  # before the other imports
            starting = None if announced else begin_daemons(given)
            from cosched.cli.run.start import start

            return start(given, announced, starting)
    # Help, mistakes and rare options need more.
    from cosched.cli.run.command import Run

    return run_click(Run.click_command, words)


def main() -> None:
    """Entry point of the ``cosched-run`` command."""
    words = sys.argv[1:]
    sys.exit(run_program(NAME, lambda: _work(words)))


if __name__ == "__main__":
    main()
