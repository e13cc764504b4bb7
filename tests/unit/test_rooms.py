"""Imports run one way, and the core is pure: read from the sources."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
RANK = {
    "cosched.core": 0,
    "cosched.shm": 1,
    "cosched.linux": 1,
    "mpi_shim": 2,
    "cosched.node": 2,
    "cosched.launch": 2,
    "cosched.sim": 2,
    "cosched.lab": 3,
    "cosched.bench": 4,
    "cosched.observe": 4,
    "cosched.cli": 5,
    "cosched_daemons": 5,
}
#: Rooms of the same rank that may see each other all the same.
SIDEWAYS = {("cosched.bench", "cosched.lab")}
IMPURE = {
    "asyncio",
    "logging",
    "mpi4py",
    "os",
    "pathlib",
    "psutil",
    "random",
    "secrets",
    "socket",
    "subprocess",
    "sys",
    "threading",
    "time",
}


def room_of(module: str) -> str | None:
    return next(
        (room for room in RANK if module == room or module.startswith(room + ".")), None
    )


def modules():
    for folder, package in (
        ("cosched", "cosched"),
        ("mpi_shim", "mpi_shim"),
        ("daemons", "cosched_daemons"),
    ):
        for path in sorted((ROOT / folder).rglob("*.py")):
            parts = path.relative_to(ROOT / folder).with_suffix("").parts
            yield path, ".".join([package, *(p for p in parts if p != "__init__")])


def imports_of(path: Path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            yield node.module or ""


@pytest.mark.parametrize(("path", "module"), [pytest.param(*m, id=m[1]) for m in modules()])
def test_imports_run_one_way(path, module):
    room = room_of(module)
    if room is None:
        return
    for name in imports_of(path):
        other = room_of(name)
        if other is None or other == room:
            continue
        allowed = RANK[other] < RANK[room] or (room, other) in SIDEWAYS
        assert allowed, f"{module} imports {name}"


@pytest.mark.parametrize(("path", "module"), [pytest.param(*m, id=m[1]) for m in modules()])
def test_the_environment_is_read_where_a_program_begins(path, module):
    """Everyone else is told what of it matters: by the command line, or by ``main``."""
    if (
        room_of(module) in ("cosched.cli", "cosched_daemons")
        or path.parts[-2] == "mpi_shim"
    ):
        return
    tree = ast.parse(path.read_text())
    begins = [f for f in tree.body if isinstance(f, ast.FunctionDef) and f.name == "main"]
    allowed = {id(node) for function in begins for node in ast.walk(function)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr in ("environ", "getenv"):
            of_os = isinstance(node.value, ast.Name) and node.value.id == "os"
            assert not of_os or id(node) in allowed, f"{path}:{node.lineno}"


@pytest.mark.parametrize("path", sorted((ROOT / "cosched/core").rglob("*.py")), ids=str)
def test_the_core_is_pure(path):
    used = {name.split(".")[0] for name in imports_of(path)}
    assert not used & IMPURE


def test_nothing_but_our_packages_is_installed():
    import tomllib

    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    packages = project["tool"]["setuptools"]["packages"]
    assert {p.split(".")[0] for p in packages} == {"cosched", "mpi_shim", "cosched_daemons"}
    on_disk = {module for path, module in modules() if path.name == "__init__.py"}
    assert on_disk == set(packages)
