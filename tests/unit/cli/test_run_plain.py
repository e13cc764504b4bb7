"""A plain command line of cosched-run is read as click reads it, without click. A wrong
label is reported."""

from __future__ import annotations

import pytest

from cosched.cli.run.command import Run
from cosched.cli.run.label import label_text
from cosched.cli.run.plain import read_plain
from tests.unit.cli.clicked import LEFT_TO_CLICK, PLAIN, by_click


@pytest.mark.parametrize(
    "line",
    [
        *PLAIN,
        "-- -app",
        "mpiexec -n 2 app -- x",
        "--ranks 4 -n 2 --job mine -v app",
        "--account --verbose --time 1:30 --memory 8G app",
        "--hosts n[1-3] --mpi openmpi --run-dir some/where app",
        "--wait block:5us --require-all app",
        "--no-shim app",
    ],
)
def test_both_read_the_same(line, monkeypatch):
    found = by_click(Run, "cosched.cli.run.start.start", line, monkeypatch)
    assert read_plain(line.split()) == found


@pytest.mark.parametrize(
    "line",
    [
        *LEFT_TO_CLICK,
        *("--dry-run app", "--domain app", "--status none app", "--job a/b app"),
        *("--no-shim --memory 1G app", "--hosts a,a app"),
    ],
)
def test_other_lines_are_left_to_click(line):
    assert read_plain(line.split()) is None


@pytest.mark.parametrize(
    ("label", "warning"),
    [
        ("", ""),
        ("memory", ""),
        ("io,network", ""),
        (
            "io,memmory",
            "COSCHED_LIMITED_BY: 'memmory' is not one of cpu, memory, io, network; the job "
            "has no label",
        ),
    ],
)
def test_wrong_label_is_one_warning(label, warning):
    assert label_text({"COSCHED_LIMITED_BY": label}) == warning
    assert label_text({}) == ""
