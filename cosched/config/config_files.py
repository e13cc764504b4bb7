"""Finds the configuration files, and whether anything is configured at all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from cosched.core.config.variables import setting_variables
from cosched.core.named_tuples import NamedTuple
from cosched.linux.homes import config_home

OPERATOR_FILE = Path("/etc/cosched.toml")


class ConfigFiles(NamedTuple):
    """The paths of the configuration files."""

    operator: Path  #: the operator's file
    user: Path | None  #: the user's own file; None: the user has no home

    @property
    def files(self) -> Sequence[Path]:
        return [path for path in (self.operator, self.user) if path is not None]


def usual_files(environ: Mapping[str, str]) -> ConfigFiles:
    """Returns the operator's file and the file of the user with this environment."""
    base = config_home(environ)
    return ConfigFiles(OPERATOR_FILE, base / "cosched" / "config.toml" if base else None)


def is_configured(environ: Mapping[str, str]) -> bool:
    """Returns whether a file or a variable may set a key; otherwise all have their
    defaults."""
    if any(setting_variables(environ)):
        return True
    return any(map(_may_be_there, usual_files(environ).files))


def _may_be_there(path: Path) -> bool:
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True  # its reader reports the reason
    return True
