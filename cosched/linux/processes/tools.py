"""Runs tools of the system that only print, such as ``ldd`` and ``squeue``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from cosched.core.named_tuples import NamedTuple

if TYPE_CHECKING:
    import subprocess


class Printed(NamedTuple):
    """The output and the errors that a tool printed."""

    output: str = ""  #: standard output
    errors: str = ""  #: standard error


def ask_tool(
    words: Sequence[str], within_s: float, environ: Mapping[str, str] | None = None
) -> Printed:
    """Returns what the command ``words`` prints, with any exit status.

    Both texts are empty if it cannot be started, or does not end within ``within_s``.
    ``environ``: its variables; None for those of this process.
    """
    import subprocess  # slow to import; most starts of a job run no tool

    try:
        done = run_tool(words, within_s, environ)
    except (OSError, subprocess.TimeoutExpired):
        return Printed()
    return Printed(done.stdout, done.stderr)


def run_tool(
    words: Sequence[str],
    within_s: float,
    environ: Mapping[str, str] | None = None,
    directory: str | None = None,
) -> subprocess.CompletedProcess[str]:
    """Runs the command ``words`` without input; returns its status and what it printed.

    Raises OSError if it cannot be started, and subprocess.TimeoutExpired. ``environ``: its
    variables, ``directory``: where it runs; None for those of this process.
    """
    import subprocess  # slow to import; most starts of a job run no tool

    return subprocess.run(
        words,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=within_s,
        check=False,
        cwd=directory,
        env=None if environ is None else dict(environ),
    )
