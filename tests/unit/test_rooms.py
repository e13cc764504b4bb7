"""Imports run one way and in no circle, the core is pure: read from the
sources. ``docs/dev/architecture.md`` draws the rooms."""

from __future__ import annotations

import ast
import re
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

from setuptools import find_packages

from tests.places import ROOT
from tests.tools.sources import nodes_of, python_files, tree_of

#: A room imports only rooms of a lower rank.
RANK = {
    "cosched.tables": 0,
    "cosched.documents": 1,
    "cosched.core": 0,
    "cosched.start": 1,
    "cosched.shm": 1,
    "cosched.linux": 1,
    "mpi_shim": 2,
    "cosched.config": 2,
    "cosched.rundir": 2,
    "cosched.service": 2,
    "cosched.malleable": 3,
    "cosched.node": 3,
    "cosched.launch": 3,
    "cosched.sim": 3,
    "cosched.lab": 4,
    "cosched.bench": 5,
    "cosched.observe": 5,
    "cosched.cluster": 5,
    "cosched.jobs": 6,
    "cosched.dashboard": 7,
    "cosched.cli": 8,
    "cosched_daemons": 8,
}
#: Pairs of rooms of one rank where the first may import the second.
SIDEWAYS = {("cosched.bench", "cosched.lab")}
#: Pairs of rooms where the first may not import the second, though its rank is lower.
APART = {("cosched.cluster", "cosched.lab")}
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
#: Rooms that read the environment: programs begin there.
READS_ENVIRONMENT = (
    "cosched.cli",
    "cosched.jobs",
    "cosched.malleable",
    "cosched.start",
    "cosched_daemons",
    "mpi_shim",
)
#: Removes variables from the environment of what it starts.
DROPS_VARIABLES = "cosched.linux.processes.background"


class Source:
    """One Python file: its module name and what it imports, type checking included."""

    def __init__(self, path: Path, module: str) -> None:
        self.path = path
        self.module = module
        self.imports: set[str] = set()
        for node in nodes_of(path):
            if isinstance(node, ast.Import):
                self.imports |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                assert node.level == 0, f"{path}: relative import"
                self.imports |= {f"{node.module}.{alias.name}" for alias in node.names}

    @property
    def room(self) -> str | None:
        return room_of(self.module)


def sources(folder: str, package: str) -> list[Source]:
    found = []
    for path in python_files(folder):
        parts = path.relative_to(ROOT / folder).with_suffix("").parts
        module = ".".join([package, *(p for p in parts if p != "__init__")])
        found.append(Source(path, module))
    return found


@cache  # so that no worker that only collects the tests parses all files
def ours() -> list[Source]:
    return [
        *sources("cosched", "cosched"),
        *sources("mpi_shim", "mpi_shim"),
        *sources("daemons", "cosched_daemons"),
    ]


@cache
def modules() -> set[str]:
    return {source.module for source in ours()}


def room_of(name: str) -> str | None:
    return next(
        (room for room in RANK if name == room or name.startswith(room + ".")), None
    )


def module_of(name: str) -> str | None:
    """The module of ours that ``from module import name`` reads."""
    while name:
        if name in modules():
            return name
        name = name.rpartition(".")[0]
    return None


def circle(edges: dict[str, set[str]]) -> list[str]:
    """One circle of the graph, its first node repeated at the end; empty if none."""
    try:
        TopologicalSorter(edges).prepare()
    except CycleError as error:
        return error.args[1][::-1]
    return []


def test_imports_run_one_way():
    wrong = [
        f"{source.module} imports {name}"
        for source in ours()
        for name in source.imports
        if source.room and (other := room_of(name)) and other != source.room
        if (RANK[other] >= RANK[source.room] and (source.room, other) not in SIDEWAYS)
        or (source.room, other) in APART
    ]
    assert not wrong


def test_imports_form_no_circle():
    edges = {
        source.module: {
            other
            for name in source.imports
            if (other := module_of(name)) and other != source.module
        }
        for source in ours()
    }
    found = circle(edges)
    assert not found, " imports ".join(found)


def test_circle_is_found():
    assert circle({"a": {"b"}, "b": {"c"}, "c": {"b"}}) in (
        ["b", "c", "b"],
        ["c", "b", "c"],
    )
    assert circle({"a": {"b", "c"}, "b": {"c"}, "c": set()}) == []


def test_environment_is_read_only_where_programs_begin():
    for source in ours():
        if source.room in READS_ENVIRONMENT or source.module == DROPS_VARIABLES:
            continue
        top = tree_of(source.path).body
        mains = [f for f in top if isinstance(f, ast.FunctionDef) and f.name == "main"]
        allowed = {id(node) for function in mains for node in ast.walk(function)}
        for node in nodes_of(source.path):
            if isinstance(node, ast.Attribute) and node.attr in ("environ", "getenv"):
                of_os = isinstance(node.value, ast.Name) and node.value.id == "os"
                assert not of_os or id(node) in allowed, f"{source.path}:{node.lineno}"


def test_core_is_pure():
    wrong = [
        f"{source.module} imports {name}"
        for source in ours()
        if source.room == "cosched.core"
        for name in source.imports
        if name.split(".")[0] in IMPURE
    ]
    assert not wrong


def test_modules_that_python_3_10_lacks_have_a_substitute():
    """pyproject.toml supports Python 3.10, which has no tomllib."""
    folders = ("cosched", "mpi_shim", "daemons", "benchmarks", "scripts", "tests")
    for path in python_files(*folders):
        text = path.read_text()
        imported = re.search(r"^ *import tomllib$", text, re.MULTILINE)
        assert not imported or "import tomli as tomllib" in text, path


def test_no_agent_imports_the_slurm_engine():
    """Neither do the users' commands: the settings of Slurm stand beside the others."""
    edges = {
        source.module: {found for name in source.imports if (found := module_of(name))}
        for source in ours()
    }
    reached, found = set(), {"cosched_daemons.agent", "cosched.config.domain"}
    while found:
        reached |= found
        found = {name for each in found for name in edges[each]} - reached
    assert not [name for name in reached if name.startswith("cosched.cluster.engines")]


def test_every_package_has_an_init():
    """setup.py installs a folder only if it has an ``__init__.py``."""
    packages = find_packages(str(ROOT), include=["cosched*", "mpi_shim*"])
    folders = {source.path.parent for source in ours()}
    assert folders == {ROOT / name.replace(".", "/") for name in packages} | {
        ROOT / "daemons"
    }
