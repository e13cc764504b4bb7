"""Each test has an assertion, or calls a function, fixture or method of the tests that has
one. A call of pytest.raises and the like is an assertion.

A method is found by its name, in the classes of the files that the test's file imports. If
several classes have one of this name, all must have an assertion.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path

import pytest

from tests.places import ROOT
from tests.tools.sources import tree_of

Function = (ast.FunctionDef, ast.AsyncFunctionDef)
OF_PYTEST = {"raises", "fail", "warns"}


@dataclass(eq=False)
class File:
    """A file of the tests. functions, classes: at its top, by name. imports: by the name
    here, the module and the name there; no name for the module itself."""

    path: Path
    root: Path
    functions: dict[str, ast.FunctionDef] = field(default_factory=dict)
    classes: dict[str, ast.ClassDef] = field(default_factory=dict)
    imports: dict[str, tuple[str, str]] = field(default_factory=dict)

    @cached_property
    def fixture_places(self):
        """This file and each conftest.py above it: where pytest looks for a fixture."""
        above = [folder for folder in self.path.parents if folder.is_relative_to(self.root)]
        found = [folder / "conftest.py" for folder in above]
        return [self, *(read(path, self.root) for path in found if path.exists())]

    @cached_property
    def near(self):
        """All files that this one and its fixtures import, and what those import."""
        seen, left = set(), list(self.fixture_places)
        while left:
            file = left.pop()
            if file not in seen:
                seen.add(file)
                modules = (
                    (module, f"{module}.{name}") for module, name in file.imports.values()
                )
                found = {file.other(each) for pair in modules for each in pair}
                left += [each for each in found if each is not None]
        return seen

    def other(self, module):
        """Returns another file of the tests by the name of its module, or None."""
        base = self.root.joinpath(*module.split("."))
        for path in (base.with_suffix(".py"), base / "__init__.py"):
            if module.startswith("tests") and path.exists():
                return read(path, self.root)
        return None

    def find(self, name):
        """Returns where a name is defined, and its definition."""
        definition = self.functions.get(name) or self.classes.get(name)
        if definition is not None:
            return self, definition
        module, there = self.imports.get(name, ("", ""))
        file = self.other(module)
        return (None, None) if file is None or not there else file.find(there)

    def imported(self, name):
        """Returns the file that a name stands for, or None."""
        module, there = self.imports.get(name, ("", ""))
        return self.other(f"{module}.{there}" if there else module)


@cache
def read(path, root):
    file = File(path, root)
    package = path.parent.relative_to(root).parts
    for node in tree_of(path).body:
        if isinstance(node, ast.ImportFrom):
            above = package[: len(package) + 1 - node.level] if node.level else ()
            module = ".".join((*above, *([node.module] if node.module else [])))
            for alias in node.names:
                file.imports[alias.asname or alias.name] = (module, alias.name)
        elif isinstance(node, ast.Import):
            for alias in node.names:
                file.imports[alias.asname or alias.name] = (alias.name, "")
        elif isinstance(node, Function):
            file.functions[node.name] = node
        elif isinstance(node, ast.ClassDef):
            file.classes[node.name] = node
    return file


class Reader:
    """Finds out which functions have an assertion. Remembers them by their definition."""

    def __init__(self):
        self._asserts = {}

    def asserts(self, file, function):
        """Whether a function of a file, or one that it calls, has an assertion."""
        if function not in self._asserts:
            self._asserts[function] = False  # as long as it only calls itself
            self._asserts[function] = any(map(is_assertion, ast.walk(function))) or any(
                isinstance(node, ast.Call) and self._called(file, function, node.func)
                for node in ast.walk(function)
            )
        return self._asserts[function]

    def _called(self, file, function, called):
        """Whether what a function calls has an assertion."""
        if isinstance(called, ast.Name):
            if called.id in parameters(function):
                return self._made(*fixture(file, called.id))
            return self._defined(*file.find(called.id))
        if not isinstance(called, ast.Attribute):
            return False
        if isinstance(called.value, ast.Name) and called.value.id in file.imports:
            if (other := file.imported(called.value.id)) is not None:
                return self._defined(*other.find(called.attr))
            if file.find(called.value.id)[1] is None:  # a library has it
                return False
        found = [
            self.asserts(near, method)
            for near in file.near
            for each in near.classes.values()
            for method in methods(each, called.attr)
        ]
        return bool(found) and all(found)

    def _defined(self, file, definition):
        if isinstance(definition, ast.ClassDef):
            return any(self.asserts(file, each) for each in methods(definition, "__init__"))
        return definition is not None and self.asserts(file, definition)

    def _made(self, file, definition):
        """Whether the function that a fixture makes has an assertion."""
        for node in ast.walk(definition) if definition is not None else ():
            if isinstance(node, Function) and node is not definition:
                if self.asserts(file, node):
                    return True
            elif isinstance(node, ast.Return | ast.Yield) and node.value is not None:
                parts = ast.walk(node.value)
                names = (
                    each for each in parts if isinstance(each, ast.Name | ast.Attribute)
                )
                if any(self._called(file, definition, each) for each in names):
                    return True
        return False


def is_assertion(node):
    if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
        return getattr(node.exc.func, "id", "") == "AssertionError"
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        if getattr(node.func.value, "id", "") == "pytest":
            return node.func.attr in OF_PYTEST
        return node.func.attr.startswith("assert_")
    return isinstance(node, ast.Assert)


def parameters(function):
    given = function.args
    return {each.arg for each in (*given.posonlyargs, *given.args, *given.kwonlyargs)}


def methods(definition, name):
    return [
        node for node in definition.body if isinstance(node, Function) and node.name == name
    ]


def fixture(file, name):
    for place in file.fixture_places:
        found, definition = place.find(name)
        if isinstance(definition, Function) and any(
            "fixture" in ast.unparse(each) for each in definition.decorator_list
        ):
            return found, definition
    return None, None


def without_assertion(root):
    """Returns a line for each, and the number of all tests."""
    reader, lines, count = Reader(), [], 0
    for path in sorted((root / "tests").rglob("test_*.py")):
        file = read(path, root)
        nodes = [*file.functions.values()]
        nodes += [node for each in file.classes.values() for node in each.body]
        for node in nodes:
            if isinstance(node, Function) and node.name.startswith("test_"):
                count += 1
                if not reader.asserts(file, node):
                    lines.append(f"{path.relative_to(root)}:{node.lineno} {node.name}")
    return lines, count


def test_each_test_has_an_assertion():
    lines, count = without_assertion(ROOT)
    assert not lines, "\n".join(lines)
    assert count > 4000


HELPERS = """
import contextlib, pytest
class Near:
    def look(self):
        assert self
    def peek(self):
        return 1
@pytest.fixture
def check():
    def inner(it):
        assert it
    return inner
@pytest.fixture
def make():
    def inner(it):
        return it
    return inner
def until(it):
    if not it:
        raise AssertionError("no")
"""


@pytest.mark.parametrize(
    ("body", "has"),
    [
        ("assert 1", True),
        ("with pytest.raises(OSError): open('x')", True),
        ("until(1)", True),
        ("near.look()", True),
        ("check(1)", True),
        ("[until(each) for each in 'ab']", True),
        ("pass", False),
        ("near.peek()", False),
        ("make(1)", False),
        ("os.look()", False),
        ("'assert 1'", False),
    ],
)
def test_call_of_a_helper_counts_if_the_helper_asserts(tmp_path, body, has):
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "conftest.py").write_text(HELPERS)
    text = "import os, pytest\nfrom tests.conftest import Near, until\n"
    text += f"def test_it(near, check, make):\n    {body}\n"
    (tmp_path / "tests" / "test_it.py").write_text(text)
    lines, count = without_assertion(tmp_path)
    assert (lines, count) == ([] if has else ["tests/test_it.py:3 test_it"], 1)
