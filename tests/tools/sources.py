"""Reads the Python files of the repository, for tests that check the sources."""

from __future__ import annotations

import ast
import gc
from functools import cache
from pathlib import Path

from tests.places import ROOT


@cache
def python_files(*folders: str) -> list[Path]:
    """Returns all Python files below folders of the repository, in order."""
    return [path for each in folders for path in sorted((ROOT / each).rglob("*.py"))]


@cache
def tree_of(path: Path) -> ast.Module:
    """Returns the syntax of a file, which is parsed once in a session of tests."""
    text = path.read_text()
    # A tree has no garbage, and looking for some takes as long as parsing.
    gc.disable()
    try:
        return ast.parse(text)
    finally:
        gc.enable()


@cache
def nodes_of(path: Path) -> list[ast.AST]:
    """Returns all nodes of a file, in the order of ast.walk."""
    return list(ast.walk(tree_of(path)))


def words_of(node: ast.AST) -> str:
    """Returns the text of an expression, as ast.unparse does; a name takes less time."""
    parts, inner = [], node
    while isinstance(inner, ast.Attribute):
        parts.append(inner.attr)
        inner = inner.value
    if not isinstance(inner, ast.Name):
        return ast.unparse(node)
    return ".".join([inner.id, *reversed(parts)])
