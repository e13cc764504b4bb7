"""The command line as people meet it: help that fits, errors of one line."""

from __future__ import annotations

import subprocess
import sys

import pytest

from cosched.cli.main import COMMANDS


def run(*arguments, module="cosched.cli.main"):
    return subprocess.run(
        [sys.executable, "-m", module, *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


HELPS = [[], *([name] for name in COMMANDS)]


@pytest.mark.parametrize("command", HELPS, ids=lambda words: " ".join(words) or "cosched")
def test_help_fits_80_columns_and_shows_an_example(command):
    result = run(*command, "--help")
    assert result.returncode == 0
    assert max(len(line) for line in result.stdout.splitlines()) <= 80
    assert "Example" in result.stdout


def test_cosched_run_help():
    result = run("--help", module="cosched.cli.run")
    assert result.returncode == 0
    assert max(len(line) for line in result.stdout.splitlines()) <= 80
    assert "cosched-run" in result.stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["dance"], "dance"),
        (["up", "--slyce", "1s"], "--slyce"),
        (["up", "--slice", "soon"], "slice: 'soon' is not a duration"),
        (["up", "--slice", "0.1ms"], "too short"),
        (["set", "slice"], "write NAME=VALUE"),
        (["set", "speed=9"], "'speed' is not a setting"),
        (["set", "slice=1s", "--run-dir", "/nonexistent"], "cosched up"),
        (["status", "--run-dir", "/nonexistent"], "cosched up"),
        (["status", "--run-dir", "/nonexistent", "--node", "x"], "node x"),
        (["down", "--run-dir", "/nonexistent"], "no daemons are up"),
    ],
)
def test_bad_input_gets_one_line_and_a_status(arguments, words):
    result = run(*arguments)
    assert result.returncode != 0
    assert result.stdout == ""
    assert words in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1
    assert result.stderr.startswith("cosched")


def test_no_status_is_still_json():
    result = run("status", "--run-dir", "/nonexistent", "--json")
    assert result.stdout.strip() == '{\n  "nodes": []\n}'
