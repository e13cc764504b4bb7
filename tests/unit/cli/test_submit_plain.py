"""A plain command line of cosched submit is read as click reads it, without click."""

from __future__ import annotations

import pytest

from cosched.cli.domain.plain import read_plain
from cosched.cli.domain.submit import Submit
from tests.unit.cli.clicked import LEFT_TO_CLICK, PLAIN, by_click


@pytest.mark.parametrize(
    "line",
    [
        *PLAIN,
        "true",
        "-N 2 --ppn 2 --time 1:30 --memory 8G app",
        "--ranks 4 -n 2 --name mine --label --bind app",
        "--nodes 2 --exclusive --hold --requeue app",
        "--share --mpi openmpi --no-shim app",
        "--output a --error b --input c --run-dir some/where app",
        "--wait --json app",
        "--wait --input none app",
    ],
)
def test_both_read_the_same(line, monkeypatch):
    found = by_click(Submit, "cosched.cli.domain.submitting.submit", line, monkeypatch)
    assert read_plain(line.split()) == found


@pytest.mark.parametrize(
    "line",
    [
        *LEFT_TO_CLICK,
        *("--array 1-4 app", "--min 1 app", "--after 3 app", "--cwd / app", "- app"),
        *("--exclusive --share app", "--wait --input - app", "--limited-by cpu app"),
    ],
)
def test_other_lines_are_left_to_click(line):
    assert read_plain(line.split()) is None


@pytest.mark.parametrize(
    ("line", "is_plain"),
    [
        ("set -e", True),
        ("#COSCHED -n 2", False),
        ("#SBATCH --ntasks 2", False),
        ("#COSCHED --name 'open", False),
    ],
)
def test_script_with_options_is_left_to_click(tmp_path, line, is_plain):
    script = tmp_path / "job.sh"
    script.write_text(f"#!/bin/sh\n{line}\n")
    assert (read_plain(["--", str(script)]) is not None) is is_plain
