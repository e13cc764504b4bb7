"""One word for one thing: a word of docs/glossary.md names one kind of class, and no file
has a name that says nothing. Files of one name do not call each other."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from functools import cache
from pathlib import Path

import pytest

from tests.places import ROOT
from tests.tools.sources import nodes_of, python_files

ROOMS = ("cosched", "mpi_shim", "daemons", "benchmarks", "scripts")
PATHS = python_files(*ROOMS)
GLOSSARY = (ROOT / "docs/glossary.md").read_text()
WORDS = set(re.findall(r"[a-z]+", " ".join(re.findall(r"^\| ([^|]+) \|", GLOSSARY, re.M))))

#: By word of the glossary: where classes stand whose names end with it.
HOMES = {
    "engine": ("cosched/cluster/engines/",),
    "gate": ("cosched/cluster/engines/slurm/", "cosched/cli/cluster/coupling.py"),
    "hold": ("cosched/cli/domain/cancel.py",),
    "member": ("cosched/cluster/up/members.py",),
    "place": ("cosched/core/cluster/queue/places/",),
}
#: Other forms of ``coupling``, and names of files that say nothing.
REFUSED = {"couple", "coupled", "gate", "gates", "places"} | {
    *("again", "desk", "entries", "front", "killed", "likeness", "moved", "table"),
    *("runs", "waits", "window"),
}
#: Files whose folder says the sense of the word.
PLAIN = ("cosched/core/cluster/queue/places/",)
#: Names of files that one file may import from two folders: the folder names the subject.
FOLDER_TELLS = {
    "admission": "of the node's decisions, and of its daemon",
    "claims": "of each experiment, and those that all share",
    "client": "of a domain's socket, and for a user's Python",
    "documents": "of the experiment, and what reads TOML",
    "domain": "its settings, and its start",
    "driver": "of the queue's simulator, and of one around it",
    "filling": "its accounts, and their sentences",
    "hosts": "of a launcher's command line, and the choice of cosched-run",
    "machine": "of the coupling around the queue's, and of simulators around it",
    "matrix": "of kernels that were measured, and the one that a simulator uses",
    "mpi": "of the benchmarks, and how one is found",
    "options": "of all commands, and those of simulators",
    "paths": "of a domain, and of a node",
    "pictures": "of the experiment, and what all share",
    "shadow": "of the carrier, and of its collectives",
    "tables": "of the experiment, and what lays out all tables",
    "workload": "of the experiment, and of a log",
    "worlds": "of the decisions, and of the agent",
}


def words_of(name: str) -> list[str]:
    return [word.lower() for word in re.findall(r"[A-Z][a-z0-9]*", name)]


@cache  # so that no worker that only collects the tests parses all files
def classes() -> list[tuple[str, str]]:
    return [
        (str(path.relative_to(ROOT)), node.name)
        for path in PATHS
        for node in nodes_of(path)
        if isinstance(node, ast.ClassDef)
    ]


@pytest.mark.parametrize("word", HOMES)
def test_word_of_the_glossary_names_one_kind_of_class(word: str) -> None:
    assert word in WORDS
    named = [
        (file, name)
        for file, name in classes()
        if words_of(name)[-1:] in ([word], [f"{word}s"])
    ]
    assert named
    assert [found for found in named if not found[0].startswith(HOMES[word])] == []


def test_no_file_has_a_refused_name() -> None:
    named = [
        str(path.relative_to(ROOT))
        for path in PATHS
        if REFUSED & {path.stem, path.parent.name}
    ]
    assert [name for name in named if not name.startswith(PLAIN)] == []


def modules() -> dict[str, Path]:
    return {
        ".".join(path.relative_to(ROOT).with_suffix("").parts): path
        for path in PATHS
        if path.name not in ("__init__.py", "__main__.py")
    }


def shared_names() -> dict[str, set[str]]:
    """Returns by name the files that import two files of this name, or are one of them.
    A command of ``cli`` and a program of ``daemons`` have the name of what they call."""
    known, found = modules(), defaultdict(set)
    for own, path in known.items():
        seen = defaultdict(set)
        if own.split(".")[0] != "daemons" and not own.startswith("cosched.cli."):
            seen[path.stem].add(own)
        for node in nodes_of(path):
            if isinstance(node, ast.ImportFrom):
                named = (node.module, *(f"{node.module}.{a.name}" for a in node.names))
                for module in known.keys() & named:
                    seen[known[module].stem].add(module)
        for stem, both in seen.items():
            if len(both) > 1:
                found[stem].add(own)
    return found


def test_files_of_one_name_do_not_call_each_other() -> None:
    assert shared_names().keys() == FOLDER_TELLS.keys()
