"""Reads documents; a file that cannot be read gives one line that names it."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from cosched.core.errors import CoschedError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


def read_json(path: Path) -> Any:
    """Returns the content of a JSON file. Raises CoschedError if it is none."""
    try:
        return json.loads(_read(path))
    except json.JSONDecodeError as error:
        raise CoschedError(f"{path}: not JSON: {error}") from None


def read_toml(path: Path) -> dict[str, Any]:
    """Returns the content of a TOML file. Raises CoschedError if it is none."""
    try:
        return tomllib.loads(_read(path))
    except tomllib.TOMLDecodeError as error:
        raise CoschedError(f"{path}: not valid TOML: {error}") from None


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise CoschedError(f"{path}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise CoschedError(f"{path}: not text in UTF-8: {error.reason}") from None
