"""Changes values in a configuration file and keeps the rest, comments included."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import tomlkit
from tomlkit.exceptions import TOMLKitError

from cosched.config.cosched_toml import read_text
from cosched.core.config.layers import merge
from cosched.core.config.relations import judge
from cosched.core.config.schema import BY_PATH
from cosched.core.errors import CoschedError
from cosched.core.hostlist import without_hosts
from cosched.documents import decode_toml
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


def with_other_nodes(
    text: str,
    name: str,
    *,
    added: Mapping[str, str] = MappingProxyType({}),
    trusted: Collection[str] = (),
    removed: Collection[str] = (),
) -> str:
    """Returns the text of a ``domain.toml`` with other nodes.

    name: stands for the file in errors. added: addresses by name. trusted: new names in
    ``root_from``. removed: names that leave ``root_from`` and ``[resources]``, too.
    """
    document = _parsed(text, name)
    nodes = _section(document, "nodes", name)
    for each in removed:
        nodes.pop(each, None)
    for each, address in added.items():
        nodes[each] = address
    security = document.get("security", {})
    root_from = [each for each in security.get("root_from", ()) if each not in removed]
    root_from += [each for each in trusted if each not in root_from]
    if root_from != list(security.get("root_from", ())):
        _section(document, "security", name)["root_from"] = root_from
    resources = document.get("resources", {})
    _leave_features(resources.get("features", {}), removed)
    for numbers in resources.get("counts", {}).values():
        _leave_counts(numbers, removed)
    return tomlkit.dumps(document)


def _leave_features(features: Any, removed: Collection[str]) -> None:
    """Takes nodes out of ``NAME = "NODES"``; a feature without a node goes."""
    for each, nodes in list(features.items()):
        left = without_hosts(nodes, removed)
        if not left:
            del features[each]
        elif left != nodes:
            features[each] = left


def _leave_counts(numbers: Any, removed: Collection[str]) -> None:
    """Takes nodes out of ``"NODES" = NUMBER``."""
    for nodes, number in list(numbers.items()):
        left = without_hosts(nodes, removed)
        if left == nodes:
            continue
        del numbers[nodes]
        if left:
            numbers[left] = number


def edited(text: str, name: str, values: Mapping[str, Any]) -> str:
    """Returns the text of a file with these values in it."""
    document = _parsed(text, name)
    for path, value in values.items():
        key = BY_PATH[path]
        _section(document, key.table, name)[key.name] = key.kind.write(value)
    return tomlkit.dumps(document)


def _parsed(text: str, name: str) -> tomlkit.TOMLDocument:
    decode_toml(text, name)  # its error names the line as all others do
    try:
        return tomlkit.parse(text)
    except TOMLKitError as error:
        raise CoschedError(f"{name}: not TOML: {error}") from None


def _section(document: tomlkit.TOMLDocument, table: str, name: str) -> Any:
    """Returns a section; makes one that is missing."""
    if table not in document:
        document.add(table, tomlkit.table())
    section = document[table]
    if not isinstance(section, dict):
        raise CoschedError(f"{name}: {table} is a section: write [{table}]")
    return section
