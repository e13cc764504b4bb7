"""Patterns are texts: ``re`` compiles one at its first use, and keeps it.

To compile one takes as long as to import a small module, and a start uses few of them.
"""

from __future__ import annotations

import ast

from tests.places import ROOT
from tests.tools.sources import python_files, tree_of, words_of

ROOMS = ("cosched", "daemons", "mpi_shim")


def compiled_at_import(tree):
    """Yields the lines of a module that compile a pattern when it is imported."""
    left = list(tree.body)
    while left:
        node = left.pop()
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            continue
        if isinstance(node, ast.Call) and words_of(node.func) == "re.compile":
            yield node.lineno
        left.extend(ast.iter_child_nodes(node))


def test_no_import_compiles_a_pattern():
    found = [
        f"{path.relative_to(ROOT)}:{line}"
        for path in python_files(*ROOMS)
        for line in compiled_at_import(tree_of(path))
    ]
    assert not found, f"write the pattern as a text, and re.search(PATTERN, ...): {found}"


def test_patterns_are_found():
    text = "A = re.compile('a')\nclass B:\n    C = (1, re.compile('c'))\n"
    used = "def f():\n    return re.compile('d')\ng = lambda: re.compile('e')\n"
    assert sorted(compiled_at_import(ast.parse(text + used))) == [1, 3]
