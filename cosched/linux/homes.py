"""Where a user's files belong: the XDG base directories.

A relative path in one of the variables counts as none, as the specification says.
"""

from __future__ import annotations

import os
import pwd
from collections.abc import Mapping
from pathlib import Path

from cosched.core.errors import CoschedError


def config_home(environ: Mapping[str, str]) -> Path | None:
    """Below it the user's settings lie; None where he has no home."""
    return _base(environ, "XDG_CONFIG_HOME", ".config")


def state_home(environ: Mapping[str, str]) -> Path | None:
    """Below it lies what outlives a restart; None where he has no home."""
    return _base(environ, "XDG_STATE_HOME", ".local/state")


def cache_home(environ: Mapping[str, str]) -> Path:
    """Below it lies what can be made again. Raises CoschedError for a user without a home,
    in his environment and in the passwd file."""
    base = _base(environ, "XDG_CACHE_HOME", ".cache")
    if base is not None:
        return base
    try:
        return Path(pwd.getpwuid(os.geteuid()).pw_dir, ".cache")
    except KeyError:
        raise CoschedError("no home directory: set XDG_CACHE_HOME") from None


def _base(environ: Mapping[str, str], variable: str, below_home: str) -> Path | None:
    for base, below in ((environ.get(variable), ""), (environ.get("HOME"), below_home)):
        if base and os.path.isabs(base):
            return Path(base, below)
    return None
