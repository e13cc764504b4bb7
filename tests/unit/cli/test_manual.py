"""The manual pages say what the commands' --help says, and are pages that man reads."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from cosched.cli.main import COMMANDS
from scripts import manpages

PAGES = dict(manpages.pages())


def test_each_command_has_a_page():
    assert set(PAGES) == {
        "cosched.1",
        "cosched-run.1",
        "coschedd.8",
        "cosched-timerd.8",
        *(f"cosched-{name}.1" for name in COMMANDS),
    }


@pytest.mark.parametrize("name", sorted(PAGES))
def test_the_page_in_docs_is_up_to_date(name):
    path = manpages.FOLDER / name
    assert path.exists(), "run scripts/dev man"
    assert path.read_text() == PAGES[name], "run scripts/dev man"


def test_no_page_is_left_of_a_command_that_is_gone():
    assert {path.name for path in manpages.FOLDER.iterdir()} == set(PAGES)


def test_man_reads_them_without_a_warning(tmp_path):
    if shutil.which("groff") is None:
        pytest.skip("no groff on this machine")
    for name, text in PAGES.items():
        run = subprocess.run(
            ["groff", "-man", "-ww", "-Tutf8", "-z"],
            input=text,
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )
        assert run.stderr == "", name


def test_what_stands_in_a_group_is_on_its_page():
    page = PAGES["cosched-lab.1"]
    for words in ("LAB UP", "LAB DOWN", "LAB EXEC", r"\-\-cores\-per\-node"):
        assert words in page


def test_a_line_that_begins_with_a_dot_is_no_request():
    assert manpages._prose("first\n\n./app and so on") == [
        "first",
        ".PP",
        r"\&./app and so on",
    ]
