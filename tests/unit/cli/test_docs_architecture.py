"""docs/dev/architecture.md and simulator.md name files and functions that exist."""

from __future__ import annotations

import re

import pytest

from tests.places import ROOT

PAGE = (ROOT / "docs/dev/architecture.md").read_text()
STEPS = re.findall(r"^\| .* \| `(\S+)` \| `(\w+)` \|$", PAGE, re.M)


def test_walks_have_steps():
    assert len(STEPS) > 20


@pytest.mark.parametrize(("path", "function"), STEPS)
def test_walk_step_names_an_existing_function(path, function):
    assert re.search(rf"\b{function}\(", (ROOT / path).read_text())


@pytest.mark.parametrize("path", sorted(set(re.findall(r"`(\w+/[\w/]+\.(?:py|c))`", PAGE))))
def test_named_file_exists(path):
    assert (ROOT / path).exists()


@pytest.mark.parametrize(
    "folder", sorted(set(re.findall(r"^\| `([\w/]+)` \| ", PAGE, re.M)))
)
def test_room_of_the_table_exists(folder):
    assert (ROOT / folder).is_dir()


def files_of_simulator_page():
    page = (ROOT / "docs/dev/simulator.md").read_text()
    tables = re.findall(r"^\| file of `(\S+)` \| content \|\n((?:\|.*\n)+)", page, re.M)
    for folder, rows in tables:
        for cell in re.findall(r"^\| (`.*?`) \|", rows, re.M):
            yield from (f"{folder}/{name}" for name in re.findall(r"`(\w+\.py)`", cell))


def test_simulator_page_names_existing_files():
    paths = [ROOT / path for path in files_of_simulator_page()]
    assert len(paths) > 10
    assert [path for path in paths if not path.exists()] == []
