"""Returns the directories of a user's files: the XDG base directories.

A relative path in a variable is ignored, as the specification requires.
"""

from __future__ import annotations

import os
import pwd
from collections.abc import Mapping
from pathlib import Path

from cosched.core.errors import CoschedError


def config_home(environ: Mapping[str, str]) -> Path | None:
    """Returns the directory of the user's settings; None without a home."""
    return _base(environ, "XDG_CONFIG_HOME", ".config")


def state_home(environ: Mapping[str, str]) -> Path | None:
    """Returns the directory of files that outlive a restart; None without a home."""
    return _base(environ, "XDG_STATE_HOME", ".local/state")


def state_directory(environ: Mapping[str, str]) -> Path | None:
    """Returns cosched's directory of such files; None for a user without a home."""
    base = state_home(environ)
    return base / "cosched" if base else None


def cache_home(environ: Mapping[str, str]) -> Path:
    """Returns the directory of files that can be made again.

    Raises CoschedError if neither the environment nor the passwd file has a home."""
    base = _base(environ, "XDG_CACHE_HOME", ".cache")
    if base is not None:
        return base
    try:
        return Path(pwd.getpwuid(os.geteuid()).pw_dir, ".cache")
    except KeyError:
        raise CoschedError("no home directory: set XDG_CACHE_HOME") from None


def with_home(environ: Mapping[str, str]) -> Mapping[str, str]:
    """Returns an environment with the user's home. Open MPI's commands need one, also those
    that only print. A user without a home gets the same environment back."""
    if environ.get("HOME"):
        return environ
    try:
        return {**environ, "HOME": pwd.getpwuid(os.geteuid()).pw_dir}
    except KeyError:
        return environ


def _base(environ: Mapping[str, str], variable: str, below_home: str) -> Path | None:
    for base, below in ((environ.get(variable), ""), (environ.get("HOME"), below_home)):
        if base and os.path.isabs(base):
            return Path(base, below)
    return None
