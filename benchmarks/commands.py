"""Runs a command of a benchmark that must succeed."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence

from cosched.core.errors import CoschedError


def output_of(
    words: Sequence[str],
    what: str,
    environ: Mapping[str, str] | None = None,
    within_s: float | None = None,
) -> str:
    """Returns what a command prints; CoschedError with its last line if it fails.

    what: the name of the command in the error. environ: its variables; None for those of
    this process. within_s: the longest time; None for any.
    """
    try:
        done = subprocess.run(
            words,
            env=environ,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=within_s,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise CoschedError(f"{what} took over {within_s:g} s") from None
    if done.returncode != 0:
        lines = (done.stderr.strip() or done.stdout.strip()).splitlines()
        reason = lines[-1] if lines else f"exit status {done.returncode}"
        raise CoschedError(f"{what} failed: {reason}")
    return done.stdout
