"""Compares JSON documents with the tables of docs/json.md.

A field's path joins names with dots. ``[]`` is an item of a list. ``*`` is a name that is
data, such as a job or a pid. ``**`` is everything below. ``?`` marks an optional field.
"""

from __future__ import annotations

import re

from tests.places import ROOT

PAGE = ROOT / "docs/json.md"
_NAME = re.compile(r"`([^`]+)`")


def sections():
    """Returns the documented paths of each command, in the order of the page.

    All names in a section's heading share its paths."""
    found, prefix, paths = {}, "", []
    for line in PAGE.read_text().splitlines():
        names = _NAME.findall(line.split("|")[1] if line.startswith("|") else line)
        if line.startswith("## "):
            prefix, paths = "", []
            found.update(dict.fromkeys(names, paths))
        elif line.startswith("### "):
            prefix = names[0] + "."
        elif line.startswith("|"):
            paths += [prefix + name for name in names]
    return found


def leaves(document, path=""):
    """Yields each path and whether it is surely a leaf.

    An empty list, an empty object and null may hide fields below them."""
    if isinstance(document, dict) and document:
        for name, value in document.items():
            yield from leaves(value, f"{path}.{name}" if path else name)
    elif isinstance(document, list) and document:
        for value in document:
            yield from leaves(value, f"{path}[]")
    else:
        yield path, document not in ({}, [], None)


def differences(told, *documents):
    """Returns the undocumented paths, and the documented paths that are absent."""
    found = {path: is_leaf for d in documents for path, is_leaf in leaves(d)}
    for path in {path for d in documents for path, is_leaf in leaves(d) if is_leaf}:
        found[path] = True
    hidden = [path for path, is_leaf in found.items() if not is_leaf]
    patterns = {name: _pattern(name) for name in told}
    untold = [
        path
        for path, is_leaf in found.items()
        if not any(p.fullmatch(path) for p in patterns.values())
        and (is_leaf or not any(_hides(path, name) for name in told))
    ]
    absent = [
        name
        for name, pattern in patterns.items()
        if "?" not in name
        and not any(pattern.fullmatch(path) for path in found)
        and not any(_hides(path, name) for path in hidden)
    ]
    return untold, absent


def _pattern(name):
    plain = re.escape(name.replace("?", ""))
    return re.compile(plain.replace(r"\*\*", ".+").replace(r"\*", r"[^\[\]]+"))


def _hides(path, name):
    """Returns whether ``name`` may be below the empty value at ``path``."""
    steps = [name[: m.end()] for m in re.finditer(r"[^.\[\]?]+|\[\]", name)]
    return any(_pattern(step).fullmatch(path) for step in steps)
