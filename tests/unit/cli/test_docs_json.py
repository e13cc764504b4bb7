"""Checks that docs/json.md has every field that the commands print, and no other."""

from __future__ import annotations

import json
import sys
from pathlib import Path, PurePath

import pytest
from click.testing import CliRunner

from cosched.bench.results.document import document
from cosched.bench.run.arms import Arm
from cosched.bench.workload.file import parse_workload
from cosched.cli.commands import cosched
from tests.places import ROOT
from tests.tools.commands import run_command
from tests.tools.json_fields import PAGE, differences, leaves, sections
from tests.unit.bench.bench_samples import BATCH, COSCHED, KERNEL, failed_run, summaries

DOCUMENTED = sections()
#: A pool of processes takes longer than these runs.
ONE = ("--parallel", "1", "--json")
#: Commands without requirements: the section, and the words to run in a new folder.
SMALL = {
    "cosched replay": ("replay", "--json", str(ROOT / "tests/golden/wavefronts.jsonl")),
    "cosched config show": ("config", "show", "--json"),
    "cosched config check": ("config", "check", "--json", "faulty.toml"),
    "cosched doctor": ("doctor", "--run-dir", "nowhere", "--json"),
    "cosched lab status": ("lab", "status", "--run-dir", "nowhere", "--json"),
    "cosched sim queue": ("sim", "queue", "a.swf", "--policy", "easy", "--json"),
    "cosched sim share": ("sim", "share", "a.swf", *ONE),
    "cosched sim couple": (
        *("sim", "couple", "a.swf", "b.swf", "--pairs", "50%"),
        *("--schemes", "hold-yield", *ONE),
    ),
    "cosched sim fit": ("sim", "fit", "a.swf", "--json"),
    "cosched sim malleable": (
        *("sim", "malleable", "sdsc", "--count", "50", "--policy", "even-fr"),
        "--json",
    ),
    "cosched sim nodes": ("sim", "nodes", "--nodes", "2", "--work", "1s", *ONE),
    "cosched sim startup": ("sim", "startup", "--nodes", "3", *ONE),
    "cosched sim symbiosis pairs": (
        *("sim", "symbiosis", "pairs", "--rounds", "1", "--json"),
    ),
    "cosched sim symbiosis log": (
        *("sim", "symbiosis", "log", "a.swf", "--repeat", "1", "--json"),
    ),
    "cosched sim symbiosis stream": (
        *("sim", "symbiosis", "stream", "--repeat", "1", "--jobs", "20"),
        "--json",
    ),
}


def run(*words):
    done = CliRunner().invoke(cosched, words, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.stdout


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with two logs of jobs and a faulty configuration."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "faulty.toml").write_text("[node]\nslyce = 3\n")
    for name, seed in (("a", "1"), ("b", "2")):
        run(
            *("sim", "generate", f"{name}.swf", "--jobs", "30", "--machine", "16"),
            *("--seed", seed),
        )
    return tmp_path


@pytest.mark.parametrize("section", SMALL)
def test_page_has_fields_of_command(folder, section):
    printed = json.loads(run(*SMALL[section]))
    documented = DOCUMENTED[section]
    assert documented, section
    undocumented, absent = differences(documented, printed)
    assert not undocumented, f"{PAGE.name}, {section}: missing: {undocumented}"
    assert not absent, f"{PAGE.name}, {section}: these are not there: {absent}"


@pytest.mark.skipif(
    not (Path(sys.executable).parent / "mpicc").exists(), reason="no MPI beside python"
)
@pytest.mark.parametrize(
    ("section", "words"),
    [
        (
            "cosched-run --dry-run",
            ("cosched.cli.run.main", "--dry-run", "--json", "-n", "2", "true"),
        ),
        ("cosched shim info", ("cosched.cli.main", "shim", "info", "--json")),
    ],
)
def test_page_has_fields_of_command_with_mpi(section, words):
    module, *rest = words
    done = run_command(*rest, module=module)
    assert done.returncode == 0, done.stderr
    assert differences(DOCUMENTED[section], json.loads(done.stdout)) == ([], [])


def test_page_has_fields_of_bench():
    workload = parse_workload(
        '[[job]]\nname = "w"\ncommand = "true"\nranks = 2\ncount = 2', "w.toml", None
    )
    other = parse_workload(
        '[arrivals]\npoisson = 1\n[[job]]\nname = "a"\nsource = "a.c"\nranks = 1',
        "a.toml",
        PurePath("/w"),
    )
    failed = failed_run(Arm.COSCHED, 2)
    documents = [
        document(workload, summaries(BATCH, KERNEL, (*COSCHED[:1], failed)), {}),
        document(other, summaries([failed]), {}),
    ]
    assert differences(DOCUMENTED["cosched bench"], *documents) == ([], [])


def test_differences_finds_new_and_missing_fields():
    documented = ["a", "b[].c", "d.*", "e?", "f[].g.**"]
    whole = {"a": 1, "b": [{"c": None}], "d": {"x.y": 1}, "f": [{"g": {"h": [{"i": 1}]}}]}
    assert differences(documented, whole) == ([], [])
    assert differences(documented, {**whole, "new": 1}) == (["new"], [])
    assert differences(documented, {**whole, "e": 2, "b": []}) == ([], [])
    assert differences(documented, {**whole, "b": [{"x": 1}]}) == (["b[].x"], ["b[].c"])
    assert differences(documented, {**whole, "a": None, "d": {}}) == ([], [])
    gone = {name: value for name, value in whole.items() if name != "a"}
    assert differences(documented, gone) == ([], ["a"])
    assert list(leaves({"a": [{}, {"b": 1}]})) == [("a[]", False), ("a[].b", True)]
