"""Checks what cosched offers to shells that complete a line."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

from cosched.cli.commands import COMMANDS
from cosched.cli.tools.completion import SHELLS
from tests.tools.commands import run_command
from tests.tools.desk import FakeDesk

MODULES = {"cosched": "cosched.cli.main", "cosched-run": "cosched.cli.run.main"}


def ask(program, variables, cwd=None):
    """Returns the lines that ``program`` prints for a shell."""
    name = f"_{program.replace('-', '_').upper()}_COMPLETE"
    variables = {name if key == "HOW" else key: value for key, value in variables.items()}
    done = run_command(module=MODULES[program], env={**os.environ, **variables}, cwd=cwd)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.splitlines()


def script_of(shell):
    done = run_command("completion", shell)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


@pytest.mark.parametrize("shell", SHELLS)
def test_script_has_valid_syntax_for_its_shell(shell, tmp_path):
    if shutil.which(shell) is None:
        pytest.skip(f"no {shell} on this machine")
    script = script_of(shell)
    assert "cosched-run" in script
    (tmp_path / "script").write_text(script)
    subprocess.run([shell, "-n", tmp_path / "script"], check=True, timeout=60)


def test_script_completes_both_programs():
    for shell in SHELLS:
        script = script_of(shell)
        assert "_COSCHED_COMPLETE" in script, shell
        assert "_COSCHED_RUN_COMPLETE" in script, shell


def test_bash_completes_commands():
    variables = {"HOW": "bash_complete", "COMP_WORDS": "cosched s", "COMP_CWORD": "1"}
    offered = [line.partition(",")[2] for line in ask("cosched", variables)]
    assert offered == [name for name in COMMANDS if name.startswith("s")]


def test_tcsh_completes_commands_of_a_group():
    variables = {"HOW": "tcsh_complete", "COMMAND_LINE": "cosched lab "}
    assert ask("cosched", variables) == ["down", "exec", "status", "up"]


def test_tcsh_completes_within_an_open_quotation():
    variables = {"HOW": "tcsh_complete", "COMMAND_LINE": 'cosched lab "u'}
    assert ask("cosched", variables) == [""]


@pytest.mark.parametrize("line", ["cosched-run -n 2 ", "cosched-run -n 2 pro"])
def test_tcsh_completes_program_as_path(tmp_path, line):
    (tmp_path / "programs").mkdir()
    variables = {"HOW": "tcsh_complete", "COMMAND_LINE": line}
    assert ask("cosched-run", variables, tmp_path) == ["programs/"]


@pytest.mark.parametrize("command", ["cancel", "output", "why"])
def test_bash_completes_numbers_of_the_domains_jobs(command):
    with tempfile.TemporaryDirectory(prefix="cosched-t-") as run_dir:
        desk = FakeDesk(Path(run_dir))
        for number in (3, 12, 13):
            desk.job(number)
        variables = {
            "HOW": "bash_complete",
            "COMP_WORDS": f"cosched {command} 1",
            "COMP_CWORD": "2",
            "COSCHED_RUN_DIR": run_dir,
        }
        offered = [line.partition(",")[2] for line in ask("cosched", variables)]
        desk.close()
    assert offered == ["12", "13"]
