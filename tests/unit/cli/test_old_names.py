"""Checks that old names of commands and options work and print one line of warning."""

from __future__ import annotations

import json
import re

import click
import pytest
from click.testing import CliRunner
from cosched_daemons.scheduler import parse

from cosched.cli.commands import COMMANDS, cosched
from cosched.cli.run.command import Run
from cosched.core.config.old_names import (
    OLD_COMMANDS,
    OLD_OPTIONS,
    translate_command,
    translate_options,
)
from tests.places import ROOT
from tests.tools.commands import run_command

CHANGELOG = (ROOT / "docs/changelog.md").read_text()


def command_at(path):
    """Returns the command at a path such as ``cosched sim queue``."""
    program, *names = path.split()
    command = {"cosched": cosched, "cosched-run": Run.click_command}[program]
    for name in names:
        command = command.get_command(click.Context(command), name)
    return command


def options_of(path):
    return {name for parameter in command_at(path).params for name in parameter.opts}


OLD = [(path, old) for path, olds in OLD_OPTIONS.items() for old in olds]


@pytest.mark.parametrize(("path", "old"), OLD, ids=lambda x: getattr(x, "old", x))
def test_new_option_exists_and_changelog_lists_it(path, old):
    if path != "coschedd":
        assert old.new[0] in options_of(path)
    assert re.search(rf"`[^`]*{old.old}\b.*\| `[^`]*{old.new[0]}\b", CHANGELOG)


@pytest.mark.parametrize("path", OLD_COMMANDS)
def test_new_command_exists_and_changelog_lists_it(path):
    new = " ".join(OLD_COMMANDS[path])
    assert command_at(f"cosched {new}") is not None
    assert path.split()[1] not in COMMANDS
    assert f"| `{path}` | `cosched {new}` |" in CHANGELOG


@pytest.mark.parametrize(
    ("words", "new"),
    [
        (["raise", "solver"], ["boost", "solver"]),
        (["set", "slice=1s"], ["config", "set", "slice=1s"]),
    ],
)
def test_old_command_is_translated_with_one_warning(words, new):
    found, warnings = translate_command("cosched", words)
    assert found == new
    (warning,) = warnings
    assert f"'{words[0]}' is now " in warning
    assert translate_command("cosched", new) == (new, [])


@pytest.mark.parametrize(
    ("path", "words", "new"),
    [
        ("cosched up", "--align", "--align on"),
        ("cosched up", "--align --metrics", "--align on --metrics"),
        ("cosched up", "--no-align --slice 1s", "--align off --slice 1s"),
        ("cosched up", "--no-raise", "--allow-boost off"),
        ("cosched bench", "w.toml --json out.json", "w.toml --out out.json"),
        ("cosched bench", "w.toml --json=out", "w.toml --out=out"),
        ("cosched tune", "w.toml --json -", "w.toml --out -"),
        ("cosched sim queue", "a.swf --nodes --jobs 2", "a.swf --save-nodes --parallel 2"),
        ("coschedd", "--memory-capacity 1G", "--memory 1G"),
        ("cosched-run", "--status=none ./app", "--carrier=none ./app"),
    ],
)
def test_old_option_is_translated_with_a_warning(path, words, new):
    found, warnings = translate_options(path, words.split(), lambda name: name == "--slice")
    assert found == new.split()
    assert warnings


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("cosched up", "--align on --align=off"),
        ("cosched bench", "w.toml --json"),
        ("cosched bench", "--json w.toml"),
        ("cosched sim couple", "--json a.swf b.swf.gz"),
        ("cosched-run", "-n 2 ./app --status none"),
        ("cosched-run", "--job --status ./app"),
        ("cosched-run", "-- prog --status none"),
        ("cosched-run", "--carrier none ./app"),
        ("cosched status", "--json"),
    ],
)
def test_words_without_an_old_name_stay(path, words):
    found = translate_options(
        path,
        words.split(),
        ("-n", "--job", "--carrier").__contains__,
        stops_at_argument=path == "cosched-run",
    )
    assert found == (words.split(), [])


def test_old_names_work_in_the_programs(tmp_path):
    words = ["set", "speed=9"]
    result = CliRunner().invoke(cosched, words)
    assert "cosched: warning: 'set' is now 'config set'; the next version" in result.stderr
    assert "'speed' is not a setting" in str(result.exception)
    generate = ["sim", "generate", str(tmp_path / "a.swf"), "--jobs", "9", "--machine", "4"]
    assert CliRunner().invoke(cosched, generate).stderr == ""
    words = ["sim", "queue", str(tmp_path / "a.swf"), "--jobs", "1", "--json", "-"]
    result = CliRunner().invoke(cosched, words)
    assert json.loads(result.stdout)["runs"]
    assert len(result.stderr.splitlines()) == 2


def test_daemon_accepts_old_options(capsys):
    options = parse(["--memory-capacity", "1G", "--allow-raise", "on"])
    assert (options.memory, options.allow_boost) == ("1G", "on")
    assert capsys.readouterr().err.count("coschedd: warning: ") == 2


def test_cosched_run_accepts_old_carrier_option():
    result = run_command("--status", "no", "true", module="cosched.cli.run.main")
    warning, error = result.stderr.splitlines()
    assert warning.startswith("cosched-run: warning: '--status' is now '--carrier'")
    assert "Invalid value for '--carrier'" in error


def test_completion_prints_no_warning():
    environ = {
        "_COSCHED_COMPLETE": "bash_complete",
        "COMP_WORDS": "cosched set --sa",
        "COMP_CWORD": "2",
    }
    result = run_command(env=environ)
    assert (result.stdout, result.stderr) == ("plain,--save\n", "")
