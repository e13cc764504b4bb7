"""Changes values in a configuration file and keeps the rest, comments included."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import tomlkit
from tomlkit.exceptions import TOMLKitError

from cosched.config.cosched_toml import read_text
from cosched.core.config.layers import merge
from cosched.core.config.relations import judge
from cosched.core.config.schema import BY_PATH
from cosched.core.errors import CoschedError
from cosched.linux.files.whole import READABLE, write_whole


def save(path: Path, values: Mapping[str, Any], *, operator: bool) -> None:
    """Writes ``section.key`` values into the file; makes the file if it is missing.

    The file is replaced in one step and keeps its mode. CoschedError if it cannot be
    written, or if the result would be invalid; the file then stays unchanged.
    """
    path = path.resolve()  # a link stays one
    try:
        before = path.read_text() if path.exists() else ""
    except (OSError, UnicodeDecodeError) as error:
        raise CoschedError(f"{path}: cannot be read: {error}") from None
    text = edited(before, str(path), values)
    layer, problems = read_text(text, str(path), operator=operator)
    problems += judge(merge([layer]))[0]
    if problems:
        raise CoschedError(f"not saved: {problems[0]}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        mode = path.stat().st_mode & 0o777 if path.exists() else READABLE
    except OSError as error:
        raise CoschedError(f"{path}: cannot be written: {error.strerror}") from None
    write_whole(path, text, mode)


def edited(text: str, name: str, values: Mapping[str, Any]) -> str:
    """Returns the text of a file with these values in it."""
    try:
        document = tomlkit.parse(text)
    except TOMLKitError as error:
        raise CoschedError(f"{name}: not TOML: {error}") from None
    for path, value in values.items():
        key = BY_PATH[path]
        if key.table not in document:
            document.add(key.table, tomlkit.table())
        section = document[key.table]
        if not isinstance(section, dict):
            raise CoschedError(f"{name}: {key.table} is a section: write [{key.table}]")
        section[key.name] = key.kind.write(value)
    return tomlkit.dumps(document)
