"""Pages for developers name files and functions that exist; architecture.md has a row for
each folder."""

from __future__ import annotations

import ast
import importlib
import re
import subprocess
from collections import Counter
from functools import cache

import click
import pytest

from cosched.cli.commands import cosched
from cosched.cli.run.command import Run
from tests.places import ROOT
from tests.tools.sources import nodes_of, python_files, tree_of

PAGE = (ROOT / "docs/dev/architecture.md").read_text()
STEPS = re.findall(r"^\| .* \| `(\S+)` \| `(\w+)` \|$", PAGE, re.M)


def section(title):
    return re.search(rf"^## {re.escape(title)}\n(.*?)(?=^## )", PAGE, re.M | re.S)[1]


ROOMS = re.findall(r"^\| `([\w/]+(?:/\*\*)?)` \| ", section("Rooms"), re.M)
TASKS = [
    tuple(line.strip("| ").split(" | "))
    for line in section("Where do I change X?").splitlines()
    if line.startswith("| ") and not line.startswith("| to change ")
]


def test_walks_have_steps():
    assert len(STEPS) > 20


@pytest.mark.parametrize(("path", "function"), STEPS)
def test_walk_step_names_an_existing_function(path, function):
    assert re.search(rf"\b{function}\(", (ROOT / path).read_text())


def test_named_files_exist():
    paths = set(re.findall(r"`(\w+/[\w/]+\.(?:py|c))`", PAGE))
    assert len(paths) > 100
    assert sorted(path for path in paths if not (ROOT / path).exists()) == []


def test_each_folder_with_source_has_exactly_one_row():
    listed = subprocess.run(
        ["git", "ls-files", "*.py", "*.c", "*.h", "*.toml", "*.js"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    folders = {path.rpartition("/")[0] for path in listed} - {""}
    rows = Counter(
        folder
        for folder in folders
        for room in ROOMS
        if folder == room.removesuffix("/**")
        or (room.endswith("/**") and folder.startswith(room.removesuffix("**")))
    )
    assert {folder for folder in folders if rows[folder] != 1} == set()
    assert [room for room in ROOMS if not (ROOT / room.removesuffix("/**")).is_dir()] == []
    assert len(ROOMS) == len(set(ROOMS))


@cache
def defined(path):
    """Returns the names that a file defines."""
    if path.suffix != ".py":
        text = path.read_text()
        return set(
            re.findall(r"^\w.*?\b(\w+)(?:\(| parameters)", text, re.M)
            + re.findall(r"\b(?:struct|enum|const) (\w+)", text)
            + re.findall(r"^#define (\w+)", text, re.M)
            + re.findall(r"\b(COSCHED_\w+) = ", text)
            + re.findall(r"^  (\w+)\(.*\{$", text, re.M)  # methods in JavaScript
        )
    names = set()
    for node in nodes_of(path):
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                names.add(node.name)
            case ast.Assign(targets=targets):
                names |= {each.id for each in targets if isinstance(each, ast.Name)}
            case ast.AnnAssign(target=ast.Name(id=name)):
                names.add(name)
    return names


def named(cell):
    """Returns each pair (file or folder, name of it or None) that a cell names."""
    path = None
    for code in re.findall(r"`([^`]+)`", cell):
        if "/" in code:
            path = code.split()[0]
            yield path, None
        elif re.fullmatch(r"\w+", code):
            yield path, code


def test_page_answers_where_to_change_many_things():
    assert len(TASKS) >= 40
    assert len({task for task, *_ in TASKS}) == len(TASKS)
    assert [task for task in TASKS if len(task) not in (2, 3)] == []
    assert [task for task in TASKS if not list(named(task[1])) and "`" in task[1]] == []


def problem(path, name):
    """Returns what is wrong with a file and a name of it, as a row has them, or None."""
    if path is None:
        return f"{name} has no file before it"
    if not (ROOT / path).exists():
        return f"{path} does not exist"
    if name is not None and name not in defined(ROOT / path):
        return f"{path} does not define {name}"
    return None


def test_rows_name_existing_files_and_what_they_define():
    wrong = [
        f"{task[0]}: {found}"
        for task in TASKS
        for cell in task[1:]
        for pair in named(cell)
        if (found := problem(*pair)) is not None
    ]
    assert wrong == []


def commands(group=cosched, words="cosched"):
    """Returns each command by its words, without groups."""
    found = {}
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if isinstance(command, click.Group):
            found |= commands(command, f"{words} {name}")
        else:
            found[f"{words} {name}"] = command
    return found


def objects(cell):
    """Yields the command for click, if any, of each name in a cell."""
    for path, name in named(cell):
        if name is not None:
            module = importlib.import_module(path.removesuffix(".py").replace("/", "."))
            found = getattr(module, name)
            yield getattr(found, "click_command", found)


def test_each_command_has_one_line_that_names_its_class():
    part = re.search(r"^### Options of each command\n(.*?)^### ", PAGE, re.M | re.S)[1]
    lines = [
        (words, cell)
        for task, cell in re.findall(r"^\| (`cosched.*?) \| (.*?) \|", part, re.M)
        for words in re.findall("`(.*?)`", task)
    ]
    expected = {**commands(), "cosched-run": Run.click_command}
    assert len(expected) > 50
    assert Counter(words for words, _ in lines) == Counter(list(expected))
    wrong = [words for words, cell in lines if expected[words] not in list(objects(cell))]
    assert wrong == []


def test_docstrings_of_packages_name_what_they_have():
    """That is a file, a folder, or a name that the package defines or exports."""
    packages = [
        path
        for path in python_files("cosched", "mpi_shim", "benchmarks", "scripts", "tests")
        if path.name == "__init__.py"
    ]
    missing = []
    for path in packages:
        text = ast.get_docstring(tree_of(path)) or ""
        code = path.read_text().replace(text, "")
        there = {each.stem for each in path.parent.iterdir()} | {path.parent.name}
        words = re.findall(r"``([a-z_]+)(?:\.[A-Z]\w+)?``", text)
        missing += [
            (path, word) for word in words if word not in there | set(code.split('"'))
        ]
    assert len(packages) > 50
    assert missing == []


def files_of_tables():
    """Yields a page, the folder in the head of a table there, and each file in its rows."""
    for page in sorted((ROOT / "docs/dev").glob("*.md")):
        tables = re.findall(
            r"^\|(?: part \|)? files? (?:of|in) `(\S+)` \|.*\n\|[-|]+\|\n((?:\|.*\n)+)",
            page.read_text(),
            re.M,
        )
        for folder, rows in tables:
            for name in re.findall(r"`(\w[\w/]*\.py)`", rows):
                yield page.name, folder, name


def test_tables_name_existing_files():
    named = list(files_of_tables())
    assert {page for page, _, _ in named} >= {
        "simulator.md",
        "queue.md",
        "coupling-protocol.md",
    }
    wrong = [
        f"{page}: {name}"
        for page, folder, name in named
        if not any((ROOT / folder).rglob(name)) and not (ROOT / "cosched" / name).exists()
    ]
    assert wrong == []


#: Names of numbers that a user or an operator may want to change: limits, times, sizes.
LIMIT = re.compile(
    r"(?:MOST|LONGEST|LEAST)(?:_[A-Z]+)*|[A-Z]\w*_(?:S|NS|MS|BYTES|MOST|MAX|MIB)"
)
#: Such names that limit nothing: units, pauses between two looks, times of simulations.
NO_LIMIT = re.compile(
    r"NS_PER_\w+|HOUR_N?S|NEVER_NS|EPOCH_NS|NO_LIMIT_MS|"
    r"\w*(?:POLL|AWAIT|RETRY|LOOK|PAUSE)_S|FITS_MAX|DONE_NS|BEGAN_WITHIN_NS|LEAST_LEFT_S"
)


def limits():
    """Returns each file and number at the top of a module whose name is that of a limit."""
    for path in python_files("cosched", "daemons", "mpi_shim"):
        for node in tree_of(path).body:
            match node:
                case ast.Assign(targets=[ast.Name(id=name)], value=value):
                    pass
                case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                    pass
                case _:
                    continue
            is_number = any(
                isinstance(each, ast.Constant) and isinstance(each.value, int | float)
                for each in ast.walk(value)
            )
            if is_number and LIMIT.fullmatch(name) and not NO_LIMIT.fullmatch(name):
                yield str(path.relative_to(ROOT)), name


def test_each_limit_has_a_row():
    rows = {pair for task in TASKS for cell in task[1:] for pair in named(cell)}
    found = set(limits())
    assert len(found) > 100
    assert sorted(found - rows) == []


def test_rooms_name_existing_files():
    rows = re.findall(r"^\| `([\w/]+)(?:/\*\*)?` \| (.*) \|$", section("Rooms"), re.M)
    missing = [
        (room, name)
        for room, text in rows
        for name in re.findall(r"`(\w+\.(?:py|c|h|js))`", text)
        if not (ROOT / room / name).exists()
    ]
    assert missing == []
