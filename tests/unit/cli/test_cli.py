"""Checks the commands' help, and that errors have one line."""

from __future__ import annotations

import contextlib
import subprocess
import sys

import click
import pytest
from click.testing import CliRunner

from cosched.cli.commands import COMMANDS, SECTIONS, cosched
from tests.tools.commands import run_command


def commands_below(command, words=()):
    """Yields all command lines with their commands."""
    yield words, command
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            yield from commands_below(command.get_command(context, name), (*words, name))


ALL = [
    pytest.param(words, command, id=" ".join(words) or "cosched")
    for words, command in commands_below(cosched)
]


@pytest.mark.parametrize(("words", "command"), ALL)
def test_help_fits_80_columns_and_has_an_example(words, command):
    result = CliRunner().invoke(cosched, [*words, "--help"])
    assert result.exit_code == 0
    assert max(len(line) for line in result.output.splitlines()) <= 80
    assert "Example" in result.output
    _, _, listed = result.output.partition("  --help ")
    for line in listed.splitlines():
        assert not line.endswith("..."), line
        assert line.count("(") == line.count(")"), line


def test_options_take_no_number_without_a_use():
    found = {
        parameter.name
        for case in ALL
        for parameter in case.values[1].params
        if isinstance(parameter.type, click.FloatRange)
        for text in ("nan", "inf", "1e-320", "1e300")
        if takes(parameter, text)
    }
    assert not found


def takes(parameter, text):
    """Returns whether an option takes this text."""
    with contextlib.suppress(click.BadParameter):
        parameter.type.convert(text, parameter, None)
        return True
    return False


@pytest.mark.parametrize(
    "words", ["status", "history", "why job", "suspend job", "boost job", "detach job"]
)
def test_nodes_here_and_hosts_elsewhere_are_refused_together(words):
    words = [*words.split(), "--node", "n1", "--hosts", "n2"]
    result = CliRunner().invoke(cosched, words)
    assert result.exit_code == 2
    assert "--hosts and --node cannot be combined." in result.output


def test_help_lists_commands_under_their_headings():
    output = CliRunner().invoke(cosched, ["--help"]).output
    places = [output.index(f"\n{heading}:\n") for heading in SECTIONS]
    assert places == sorted(places)
    for heading, entries in SECTIONS.items():
        _, _, below = output.partition(f"\n{heading}:\n")
        listed, _, _ = below.partition("\n\n")
        assert [line.split()[0] for line in listed.splitlines()] == list(entries)


def test_help_imports_no_command():
    script = (
        "import sys; from cosched.cli.commands import cosched; "
        "cosched.main(['--help'], standalone_mode=False); "
        "sys.exit([m for m in sys.modules if m.startswith(('numpy.', 'rich.', 'cosched.'))"
        " and m.split('.')[1] not in ('core', 'cli', 'start', 'version')] or 0)"
    )
    result = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    assert (result.returncode, result.stderr) == (0, "")


@pytest.mark.parametrize("name", COMMANDS)
def test_command_as_program_prints_its_help(name):
    result = run_command(name, "--help")
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout.startswith(f"Usage: cosched {name}")


def test_cosched_run_help_fits_80_columns():
    result = run_command("--help", module="cosched.cli.run.main")
    assert result.returncode == 0
    assert max(len(line) for line in result.stdout.splitlines()) <= 80
    assert "cosched-run" in result.stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["dance"], "No such command 'dance'; did you mean 'cancel'? See cosched --help."),
        (
            ["statsu"],
            "No such command 'statsu'; did you mean 'status'? See cosched --help.",
        ),
        (
            ["cluster", "add", "--hosts"],
            "cosched cluster add: Option '--hosts' requires an argument. See cosched "
            "cluster add --help.",
        ),
        (["submit", "-n"], "cosched submit: Option '-n' requires an argument."),
        (["lab", "statsu"], "No such command 'statsu'; did you mean 'status'? See cosched"),
        (["sim", "symbiosis", "strem"], "did you mean 'stream'?"),
        (["up", "--slyce", "1s"], "--slice"),
        (["bench", "w.toml", "--json", "--out", "x"], "--json and --out cannot be"),
        (["bench", "w.toml", "--hosts", "a,a"], "'a,a' names a twice"),
        (["up", "--slice", "soon"], "slice: 'soon' is not a duration"),
        (["up", "--slice", "0.1ms"], "too short"),
        (["up", "--order", "rst"], "'rst' is not one of 'rest', 'age', "),
        (["up", "--least-share", "25"], "--least-share: '25' is not a percentage and a"),
        (["up", "--fairness", "me"], "'me' is not one of 'jobs', 'users'."),
        (["config", "set", "slice"], "write NAME=VALUE"),
        (["config", "set", "speed=9"], "'speed' is not a setting"),
        (["config", "set", "order=rst"], "order: 'rst' is none of rest, age, "),
        (["config", "set", "least_share=2%"], "such as 25%/30s"),
        (["config", "set", "slice=1s", "--run-dir", "/nonexistent"], "cosched up"),
        (["status", "--run-dir", "/nonexistent"], "cosched up"),
        (["status", "--run-dir", "/nonexistent", "--node", "x"], "node x"),
        (["history", "--last", "1d"], "'1d' is a time; write --since 1d."),
        (["down", "--run-dir", "/nonexistent"], "no daemons are up"),
        (
            ["cluster", "restore", "/nonexistent"],
            "cosched: /nonexistent: cannot be read: No such file or directory; name one "
            "that cosched cluster backup wrote",
        ),
        (["cluster", "restore", "/etc/passwd"], "cosched: /etc/passwd: is not a folder"),
        (
            ["cluster", "up", "--config", "/etc"],
            "cosched: /etc: is a folder; name a domain.toml",
        ),
        (
            ["cluster", "couple", "--config", "/nonexistent"],
            "No such file or directory; name a domain.toml",
        ),
    ],
)
def test_bad_input_prints_one_line_and_fails(arguments, words):
    result = run_command(*arguments)
    assert result.returncode != 0
    assert result.stdout == ""
    assert words in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1
    assert result.stderr.startswith("cosched")


def test_status_without_daemons_prints_json():
    result = run_command("status", "--run-dir", "/nonexistent", "--json")
    assert result.stdout.strip() == '{\n  "nodes": []\n}'


def test_output_to_a_full_disk_is_one_line():
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "cosched.cli.main", "--help"],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=60,
            check=False,
        )
    assert (done.returncode, done.stderr) == (
        1,
        "cosched: standard output: No space left on device\n",
    )
