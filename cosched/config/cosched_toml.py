"""Reads the configuration from all its places, once, when a program starts.

In this order; a later place wins: the operator's ``/etc/cosched.toml``, which alone may
limit users, the user's ``~/.config/cosched/config.toml``, the environment, options.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from cosched.config.config_files import ConfigFiles, usual_files
from cosched.core.config.layers import (
    Layer,
    merge,
    read_document,
    read_environment,
    read_options,
)
from cosched.core.config.merged_config import Config
from cosched.core.config.mistakes import Problem
from cosched.core.config.relations import judge
from cosched.core.decoding import Malformed, decode_text, shown_text
from cosched.core.errors import CoschedError
from cosched.documents import NotToml, decode_toml
from cosched.linux.files.owners import is_open_to_others


def load(
    environ: Mapping[str, str],
    options: Mapping[str, tuple[str, str]] | None = None,
    places: ConfigFiles | None = None,
) -> tuple[Config, list[Problem]]:
    """Returns the merged configuration and its warnings.

    ``options`` maps ``section.key`` to the text and the name of an option. Raises
    CoschedError, one line, for an error.
    """
    config, errors, warnings = examine(environ, options, places)
    if errors:
        more = f" (and {len(errors) - 1} more: cosched config check)" if errors[1:] else ""
        raise CoschedError(f"{errors[0]}{more}")
    return config, warnings


def examine(
    environ: Mapping[str, str],
    options: Mapping[str, tuple[str, str]] | None = None,
    places: ConfigFiles | None = None,
) -> tuple[Config, list[Problem], list[Problem]]:
    """Returns the readable part of the configuration, all errors and all warnings."""
    places = places or usual_files(environ)
    layers: list[Layer] = []
    errors: list[Problem] = []
    read = [
        *(_read(path, operator=path == places.operator) for path in places.files),
        read_environment(environ),
        read_options(options or {}),
    ]
    for layer, problems in read:
        layers.append(layer)
        errors += problems
    config = merge(layers)
    clashes, warnings = judge(config)
    return config, errors + clashes, warnings


def examine_file(path: Path, *, operator: bool) -> tuple[Config, list[Problem]]:
    """One file by itself, over the defaults alone; CoschedError if it is not there."""
    if not path.exists():
        raise CoschedError(f"{path}: no such file")
    layer, problems = _read(path, operator=operator)
    config = merge([layer])
    return config, problems + judge(config)[0]


def read_text(text: str, name: str, *, operator: bool) -> tuple[Layer, list[Problem]]:
    """The text of a file; ``name`` says in errors where it stands."""
    try:
        document = decode_toml(text, name)
    except NotToml as error:
        return {}, [error.problem]
    return read_document(document, text, name, operator=operator)


def trusted_owner(uid: int) -> bool:
    """Returns whether files of this user are trusted: root's and the process's own."""
    return uid in (0, os.geteuid())


def _read(path: Path, *, operator: bool) -> tuple[Layer, list[Problem]]:
    try:
        with path.open("rb") as file:
            found = os.fstat(file.fileno())
            content = file.read()
    except (FileNotFoundError, NotADirectoryError):
        return {}, []
    except OSError as error:
        return {}, [Problem(str(path), f"cannot be read: {error.strerror}")]
    if not trusted_owner(found.st_uid):
        return {}, [Problem(str(path), "belongs to another user; it is not trusted")]
    if is_open_to_others(found):
        return {}, [Problem(str(path), "other users can change it; chmod go-w it")]
    try:
        text = decode_text(content, str(path))
    except Malformed:
        line = shown_text(content).partition("\ufffd")[0].count("\n") + 1
        return {}, [Problem(f"{path}:{line}", "not TOML: it is not UTF-8")]
    return read_text(text, str(path), operator=operator)
