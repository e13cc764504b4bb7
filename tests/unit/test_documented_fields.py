"""Each public field of the data of these rooms has a comment of its own.

The comment begins with ``#:``, behind the field or above it. A setting or an option
that is declared has its meaning there.
"""

from __future__ import annotations

import ast
import re

import pytest

from tests.places import ROOT
from tests.tools.sources import nodes_of, python_files

ROOMS = (
    "cosched/bench",
    "cosched/cli",
    "cosched/cluster",
    "cosched/config",
    "cosched/core",
    "cosched/jobs",
    "cosched/lab",
    "cosched/launch",
    "cosched/linux",
    "cosched/malleable",
    "cosched/node",
    "cosched/observe",
    "cosched/rundir",
    "cosched/service",
    "cosched/shm",
    "cosched/sim",
    "cosched/start",
    "mpi_shim",
    "benchmarks",
    "scripts",
)
DECLARED = re.compile(
    r"(key|table|inline|optional_table|flag|(\w+_)?(option|argument|part)(_with)?)\("
)
DATA = re.compile(r"dataclass|Struct|NamedTuple|Message|Frame|Event|Command|OfJob|OfWorld")


def undocumented(text, nodes):
    """Yields each public field, of a public class with data, that has no comment."""
    lines = text.splitlines()
    for one in nodes:
        if not isinstance(one, ast.ClassDef) or one.name.startswith("_"):
            continue
        made_by = " ".join(map(ast.unparse, [*one.decorator_list, *one.bases]))
        if not DATA.search(made_by):
            continue
        for field in one.body:
            if not isinstance(field, ast.AnnAssign) or not isinstance(
                field.target, ast.Name
            ):
                continue
            first = lines[field.lineno - 1 : field.end_lineno]
            if not (
                field.target.id.startswith("_")
                or (field.value is not None and DECLARED.match(ast.unparse(field.value)))
                or lines[field.lineno - 2].lstrip().startswith("#:")
                or any("  #: " in line for line in first)
            ):
                yield f"{one.name}.{field.target.id}"


@pytest.mark.parametrize("room", ROOMS)
def test_each_public_field_has_a_comment(room):
    wrong = [
        f"{path.relative_to(ROOT)}: {field}"
        for path in python_files(room)
        for field in undocumented(path.read_text(), nodes_of(path))
    ]
    assert wrong == []


@pytest.mark.parametrize("head", ["@dataclass\nclass A:", "class A(NamedTuple):"])
def test_field_without_a_comment_is_found(head):
    fields = "a: int  #: nodes", "#: In ns.", "b: int", "c: int"
    text = "\n    ".join((head, *fields))
    assert list(undocumented(text, ast.walk(ast.parse(text)))) == ["A.c"]
