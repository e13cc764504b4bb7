"""Reads each source of values into a layer, and merges the layers.

A layer maps ``section.key`` to a typed value with its origin. Layers are merged in order; a
later one wins, key by key. The defaults are the first layer. A mistake becomes a Problem
with its file and line, its variable or its option. The rest of the source is still read, so
a check reports all mistakes at once.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from cosched.core.config.kinds import suggest
from cosched.core.config.schema import BY_PATH, KEYS, SECTIONS, Key
from cosched.core.config.values import Config, Origin, Problem, Setting, Source, config_of
from cosched.core.errors import CoschedError

Layer = Mapping[str, Setting]

_HEADER = re.compile(r"\s*\[\s*([^\[\]]+?)\s*\]\s*(?:#.*)?")
_ASSIGNMENT = re.compile(r"""\s*((?:[\w-]+|"[^"]*"|'[^']*'|\s*\.\s*)+?)\s*=""")
_PREFIXES = tuple(f"COSCHED_{section.upper()}_" for section in SECTIONS)
#: Variables with these prefixes that do not belong to the configuration.
_OTHERS = frozenset({"COSCHED_RUN_DIR"})

DEFAULTS: Layer = {key.path: Setting(key.default, Origin(Source.DEFAULT)) for key in KEYS}


def merge(layers: Iterable[Layer]) -> Config:
    """Returns the configuration; later layers win over earlier ones and the defaults."""
    return config_of(overlay([DEFAULTS, *layers]))


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
    layer: dict[str, Setting] = {}
    problems: list[Problem] = []
    for section, table in document.items():
        where = f"{name}:{lines.get(section, 1)}"
        if section not in SECTIONS:
            problems.append(Problem(where, _unknown_section(section)))
        elif not isinstance(table, dict):
            problems.append(Problem(where, f"{section} is a section: write [{section}]"))
        else:
            for word, raw in table.items():
                path = f"{section}.{word}"
                place = Origin(source, f"{name}:{lines.get(path, 1)}")
                _read_key(path, raw, place, layer, problems)
                if section == "limits" and not operator:
                    layer.pop(path, None)
                    problems.append(Problem(str(place), _operators_only(path)))
    return layer, problems


def read_environment(environ: Mapping[str, str]) -> tuple[Layer, list[Problem]]:
    """Reads the variables ``COSCHED_SECTION_KEY``; an unknown one is a problem."""
    known = {key.variable: key for key in KEYS}
    layer: dict[str, Setting] = {}
    problems: list[Problem] = []
    for name in sorted(environ):
        if not name.startswith(_PREFIXES) or name in _OTHERS:
            continue
        key = known.get(name)
        if key is None:
            problems.append(Problem(name, f"sets nothing{suggest(name, known)}"))
        elif key.operator:
            problems.append(Problem(name, _operators_only(key.path)))
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


def key_lines(text: str) -> dict[str, int]:
    """Returns the line of each section and key of a TOML document, by its dotted path."""
    lines: dict[str, int] = {}
    section = ""
    for number, line in enumerate(text.splitlines(), 1):
        header = _HEADER.fullmatch(line)
        assignment = None if header else _ASSIGNMENT.match(line)
        if header:
            section = _plain(header[1])
            lines.setdefault(section, number)
        elif assignment:
            path = ".".join(filter(None, (section, _plain(assignment[1]))))
            parts = path.split(".")
            for end in range(1, len(parts) + 1):
                lines.setdefault(".".join(parts[:end]), number)
    return lines


def _plain(path: str) -> str:
    """Returns a dotted path without quotes and blanks."""
    return ".".join(part.strip().strip("\"'") for part in path.split("."))


def _read_key(
    path: str,
    raw: Any,
    origin: Origin,
    layer: dict[str, Setting],
    problems: list[Problem],
) -> None:
    key = BY_PATH.get(path)
    if key is None:
        problems.append(Problem(str(origin), _unknown_key(path)))
        return
    try:
        layer[path] = Setting(key.kind.parse(raw), origin)
    except CoschedError as error:
        # The name of a variable or an option already names the key.
        in_file = origin.source in (Source.OPERATOR, Source.USER)
        what = f"{key.name}: " if in_file else ""
        problems.append(Problem(str(origin), f"{what}{error}"))


def _unknown_key(path: str) -> str:
    section, _, word = path.partition(".")
    names = [key.name for key in KEYS if key.section == section]
    here = suggest(word, names)
    if not here and (elsewhere := _elsewhere(word)):
        here = f"; it belongs into [{elsewhere.section}]"
    return f"'{word}' is not a key of [{section}]{here or '; it has ' + ', '.join(names)}"


def _elsewhere(word: str) -> Key | None:
    return next((key for key in KEYS if key.name == word), None)


def _unknown_section(section: str) -> str:
    key = _elsewhere(section)
    if key is not None:
        return f"'{section}' stands outside of its section; write it under [{key.section}]"
    known = suggest(section, SECTIONS)
    return f"'{section}' is not a section{known or '; they are ' + ', '.join(SECTIONS)}"


def _operators_only(path: str) -> str:
    return f"{path} binds users, so only the operator's file can set it"
