"""Each line of docs/threat-model.md names tests, and these exist."""

import ast
import re

import pytest

from tests.places import ROOT
from tests.tools.sources import tree_of

PAGE = (ROOT / "docs" / "threat-model.md").read_text()
TEST = re.compile(r"`(tests/[\w/.]+\.py)::(test_\w+)`")
HEAD = re.compile(r"^\| (.* (?:can|cannot)) \| test \|$", re.MULTILINE)
ATTACKERS = ("the thief", "a user", "another domain", "a job")


def rows():
    """Returns the lines of the tables of rights: the first column and the named tests."""
    found = []
    in_table = False
    for line in PAGE.splitlines():
        if HEAD.match(line):
            in_table = True
        elif not line.startswith("|"):
            in_table = False
        elif in_table and not line.startswith("|---"):
            _, claim, named, _ = (cell.strip() for cell in line.split("|"))
            found.append((claim, named))
    return found


def functions_in(path):
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    return {node.name for node in tree_of(ROOT / path).body if isinstance(node, kinds)}


def test_each_attacker_can_and_cannot_do_something():
    wanted = [f"{each} {verb}" for each in ATTACKERS for verb in ("can", "cannot")]
    assert HEAD.findall(PAGE) == wanted
    assert len(rows()) > 30


@pytest.mark.parametrize(("claim", "named"), rows(), ids=[claim for claim, _ in rows()])
def test_line_names_tests_that_exist(claim, named):
    found = TEST.findall(named)
    assert found
    assert ", ".join(f"`{path}::{test}`" for path, test in found) == named
    for path, test in found:
        assert (ROOT / path).exists(), path
        assert test in functions_in(path), f"{path} has no {test}"
