"""Reads each source of values into a layer, and merges the layers.

A layer maps ``section.key`` to a typed value with its origin. Layers are merged in order; a
later one wins, key by key. The defaults are the first layer. A mistake becomes a Problem
with its file and line, its variable or its option. The rest of the source is still read, so
a check reports all mistakes at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from cosched.core.config.merged_config import Config, Origin, Setting, Source
from cosched.core.config.mistakes import Mistake, Problem, key_lines, place, placed
from cosched.core.config.schema import BY_PATH, KEYS, Sections, variable_of
from cosched.core.config.suggestions import suggest
from cosched.core.config.tables import fill, parse
from cosched.core.config.variables import setting_variables
from cosched.core.errors import CoschedError

Layer = Mapping[str, Setting]

_OPERATORS = "binds users, so only the operator's file can set it"

DEFAULTS: Layer = {key.path: Setting(key.default, Origin(Source.DEFAULT)) for key in KEYS}


def merge(layers: Iterable[Layer]) -> Config:
    """Returns the configuration; later layers win over earlier ones and the defaults."""
    merged = overlay([DEFAULTS, *layers])
    values = {path: setting.value for path, setting in merged.items()}
    return replace(fill(Config, values), merged=merged)


def overlay(layers: Iterable[Layer]) -> dict[str, Setting]:
    """Returns one layer with the values of all these."""
    merged: dict[str, Setting] = {}
    for layer in layers:
        merged.update(layer)
    return merged


def read_document(
    document: Mapping[str, Any], text: str, name: str, *, operator: bool
) -> tuple[Layer, list[Problem]]:
    """Reads a TOML file, given parsed and as text.

    ``operator``: whether this file may limit users.
    """
    lines = key_lines(text)
    source = Source.OPERATOR if operator else Source.USER
    values, mistakes = parse(Sections, document)
    layer: dict[str, Setting] = {}
    for path, value in values.items():
        if BY_PATH[path].operator and not operator:
            mistakes.append(Mistake(path, _OPERATORS))
        else:
            layer[path] = Setting(value, Origin(source, place(name, lines.get(path, 1))))
    return layer, placed(mistakes, text, name)


def read_environment(environ: Mapping[str, str]) -> tuple[Layer, list[Problem]]:
    """Reads the variables ``COSCHED_SECTION_KEY``; an unknown one is a problem."""
    known = {variable_of(key): key for key in KEYS}
    layer: dict[str, Setting] = {}
    problems: list[Problem] = []
    for name in sorted(setting_variables(environ)):
        key = known.get(name)
        if key is None:
            problems.append(Problem(name, f"sets nothing{suggest(name, known)}"))
        elif key.operator:
            problems.append(Problem(name, _OPERATORS))
        else:
            origin = Origin(Source.ENVIRONMENT, name)
            _read_key(key.path, environ[name], origin, layer, problems)
    return layer, problems


def read_options(given: Mapping[str, tuple[str, str]]) -> tuple[Layer, list[Problem]]:
    """Reads a command's options: the text and the option's name by ``section.key``."""
    layer: dict[str, Setting] = {}
    problems: list[Problem] = []
    for path, (text, option) in given.items():
        _read_key(path, text, Origin(Source.OPTION, option), layer, problems)
    return layer, problems


def _read_key(
    path: str,
    raw: Any,
    origin: Origin,
    layer: dict[str, Setting],
    problems: list[Problem],
) -> None:
    try:
        layer[path] = Setting(BY_PATH[path].kind.parse(raw), origin)
    except CoschedError as error:
        problems.append(Problem(str(origin), str(error)))
