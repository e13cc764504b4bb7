"""docs/dev/architecture.md names files and functions that exist."""

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
