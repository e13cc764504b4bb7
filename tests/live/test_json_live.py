"""docs/json.md has every field that commands print about live daemons, and no other."""

from __future__ import annotations

import json

import pytest

from tests.live.conftest import eventually
from tests.tools.commands import run_command
from tests.tools.json_fields import PAGE, differences, sections

pytestmark = pytest.mark.live

TOLD = sections()


def compare(run_dir, *words):
    """Runs the command with --json; its output is as the page says."""
    done = run_command(*words, "--run-dir", run_dir, "--json")
    assert done.returncode == 0, done.stderr
    section = " ".join(["cosched", words[0], *[w for w in words if w == "--once"]])
    untold, absent = differences(TOLD[section], json.loads(done.stdout))
    assert not untold, f"{PAGE.name}, {section}: tell of these: {untold}"
    assert not absent, f"{PAGE.name}, {section}: these are not there: {absent}"


def test_json_fields_match_documentation(node, run_dir):
    node.up(slice="60s", gmet="30s")
    first, second = node.task("a"), node.task("b")
    asker = second if first.scheduled else first
    asker.ask("arrive 1")
    name = "b" if asker is second else "a"
    eventually(lambda: any(node.job(name)["refused"].values()), "a refusal")
    compare(run_dir, "status")
    compare(run_dir, "top", "--once", "--interval", "0.5")
    compare(run_dir, "why", name)
    for word in ("suspend", "resume", "detach"):
        compare(run_dir, word, name)
    compare(run_dir, "advise", "a")
    for task in (first, second):
        task.ask("leave")
    eventually(lambda: not node.status()["jobs"], "the end of both")
    compare(run_dir, "history")
