"""The help of the scripts: it only prints. That of ``scripts/dev`` names each command."""

import os
import re
import shutil
import subprocess
import sys

import pytest

from tests.places import ROOT

SCRIPTS = ROOT / "scripts"
COMMANDS = sorted(
    path.name for path in SCRIPTS.iterdir() if path.is_file() and os.access(path, os.X_OK)
)
#: Programs that make environments, install packages or change sources.
MAKERS = ("pip", "apt-get", "gcc", "ruff")
REFUSES = """#!/bin/sh
echo "$0 $* was called" >&2
exit 99
"""
#: A Python without packages, which makes no environment.
PYTHON = """#!/bin/sh
case "$*" in *venv*|*pip*) exec {maker} "$@" ;; esac
exec {python} -S "$@"
"""


def executable(path, text):
    path.write_text(text)
    path.chmod(0o755)


def files(folder):
    return sorted(
        os.path.join(at, name) for at, _, names in os.walk(folder) for name in names
    )


@pytest.fixture
def clone(tmp_path):
    """A clone without environments, whose PATH has programs that refuse to make any."""
    folder, tools = tmp_path / "clone", tmp_path / "tools"
    shutil.copytree(
        SCRIPTS, folder / "scripts", ignore=shutil.ignore_patterns("__pycache__")
    )
    (folder / "cosched").symlink_to(ROOT / "cosched")
    tools.mkdir()
    for name in MAKERS:
        executable(tools / name, REFUSES)
    executable(tools / "python3", PYTHON.format(maker=tools / "pip", python=sys.executable))
    return folder


def run(clone, words):
    """Runs a script of a clone, with the programs that refuse."""
    name, *rest = words
    path = f"{clone.parent / 'tools'}:{os.environ['PATH']}"
    return subprocess.run(
        [clone / "scripts" / name, *rest],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PATH": path},
    )


@pytest.mark.parametrize(
    "words",
    [
        *[(name, "--help") for name in COMMANDS],
        *[("dev", name, "--help") for name in ("lint", "format", "pictures", "screens")],
        ("package", "deb", "--help"),
        ("package", "wheels", "--help"),
        ("slurm-lab", "up", "--help"),
        ("vm-lab", "up", "--help"),
    ],
    ids=" ".join,
)
def test_help_only_prints(clone, words):
    before = files(clone)
    done = run(clone, words)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(f"usage: scripts/{words[0]}")
    assert files(clone) == before


def test_mistake_in_a_command_line_makes_no_environment(clone):
    for words, message in (
        (("vm-lab", "up", "--nods", "2"), "unrecognized arguments: --nods 2"),
        (("vm-lab",), "the following arguments are required: COMMAND"),
        (("dev", "format", "cosched"), "format takes no arguments; see scripts/dev --help"),
    ):
        done = run(clone, words)
        assert done.returncode != 0
        assert done.stdout == ""
        assert done.stderr.endswith(f"{message}\n")


def test_help_names_each_command_in_80_columns():
    words = [SCRIPTS / "dev", "--help"]
    text = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    assert max(map(len, text.splitlines())) <= 80
    table = text.partition("\n\n")[2].partition("\n\n")[0]
    named = re.findall(r"^  (\S+)", table, re.MULTILINE)
    (accepted,) = re.findall(
        r"^        (lint \|.*)\) ;;$", (SCRIPTS / "dev").read_text(), re.MULTILINE
    )
    assert sorted(named) == sorted(accepted.split(" | "))
