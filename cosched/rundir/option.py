"""Gives daemons the option --run-dir, with the default of the commands that start them."""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping
from pathlib import Path

from cosched.rundir.directories import own_run_dir


def add_run_dir(options: argparse.ArgumentParser) -> None:
    """Adds the option ``--run-dir``; without it ``run_dir`` is None."""
    options.add_argument(
        "--run-dir",
        type=Path,
        help="run directory  [default: $COSCHED_RUN_DIR, or /run/cosched for root and "
        "/tmp/cosched-UID for other users]",
    )


def chosen_run_dir(given: Path | None, environ: Mapping[str, str]) -> Path:
    """Returns the given run directory, otherwise the default, as an absolute path. Raises
    CoschedError if another user prepared the default."""
    found = own_run_dir(environ, os.geteuid()) if given is None else given
    return found.absolute()
