"""Checks that the manual pages are valid and equal to the commands' --help."""

from __future__ import annotations

import re
import shutil
import subprocess

import pytest

from cosched.cli.commands import COMMANDS
from scripts import manpages

PAGES = dict(manpages.pages())


def test_every_command_has_a_page():
    assert set(PAGES) == {
        "cosched.1",
        "cosched-run.1",
        "coschedd.8",
        "cosched-timerd.8",
        "cosched-controller.8",
        "cosched-agent.8",
        *(f"cosched-{name}.1" for name in COMMANDS),
    }


@pytest.mark.parametrize("name", sorted(PAGES))
def test_page_in_docs_is_up_to_date(name):
    path = manpages.FOLDER / name
    assert path.exists(), "run scripts/dev man"
    assert path.read_text() == PAGES[name], "run scripts/dev man"


def test_docs_have_no_page_of_a_removed_command():
    assert {path.name for path in manpages.FOLDER.iterdir()} == set(PAGES)


def test_groff_reads_pages_without_warning(tmp_path):
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


def test_every_option_has_a_sentence():
    bare = [
        f"{name}: {option}"
        for name, page in PAGES.items()
        for option, words in re.findall(r"^\.TP\n(.+)\n(.*)$", page, re.MULTILINE)
        if not re.sub(r"\[.*?\]", "", words).strip()
    ]
    assert bare == []


def test_page_of_group_has_its_commands():
    page = PAGES["cosched-lab.1"]
    for words in ("LAB UP", "LAB DOWN", "LAB EXEC", r"\-\-cores\-per\-node"):
        assert words in page


def test_line_with_leading_dot_is_escaped():
    assert manpages._prose("first\n\n./app and so on") == [
        "first",
        ".PP",
        r"\&./app and so on",
    ]
