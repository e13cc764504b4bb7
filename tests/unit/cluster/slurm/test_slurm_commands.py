"""Runs Slurm's commands as doubles that print much, last too long, or fail."""

from __future__ import annotations

import asyncio
import errno
import os
import subprocess

import pytest

from cosched.cluster.engines.slurm.commands import CommandFailed, SlurmCommands
from cosched.cluster.engines.slurm.sinfo_text import in_service
from cosched.core.errors import CoschedError

#: More than asyncio reads ahead.
MUCH = "head -c 1000000 /dev/zero"


@pytest.fixture
def double(tmp_path):
    """Makes a command ``sinfo`` of a script; returns Slurm's commands with a limit."""

    def make(script, limit_s=30.0):
        path = tmp_path / "sinfo"
        written = f"echo $$ > {tmp_path}/pid.new; mv {tmp_path}/pid.new {tmp_path}/pid"
        path.write_text(f"#!/bin/sh\n{written}\n{script}\n")
        path.chmod(0o755)
        environ = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
        return SlurmCommands(environ, "", limit_s)

    return make


def gone(tmp_path):
    """Returns whether the command that began last has ended."""
    pid = int((tmp_path / "pid").read_text())
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


def test_lines_of_a_command(double):
    commands = double("echo n1 idle NO main; echo n2 down NO main; echo n3 mixed NO main")
    assert in_service(asyncio.run(commands.nodes())) == 2


def test_nodes_of_all_partitions(double):
    shown = asyncio.run(double('echo "$@"').nodes())
    assert shown == "--all --noheader --Node --format=%N %T %h %R\n"


def test_settings_of_the_operator_for_slurms_commands_do_not_count(double, monkeypatch):
    for name in ("SINFO_PARTITION", "SQUEUE_USERS", "SCANCEL_INTERACTIVE", "SLURM_CONF"):
        monkeypatch.setenv(name, "mark")
    assert "mark" not in asyncio.run(double("env").nodes())


@pytest.mark.parametrize(
    ("script", "says"),
    [("echo no such thing >&2; exit 1", "no such thing"), ("exit 3", "3")],
)
def test_command_that_fails(double, script, says):
    with pytest.raises(CommandFailed, match=says):
        asyncio.run(double(script).nodes())


def test_command_that_is_not_there(tmp_path):
    commands = SlurmCommands({"PATH": str(tmp_path)}, "", 1.0)
    with pytest.raises(CoschedError, match=r"sinfo: No such file.*is Slurm here"):
        asyncio.run(commands.nodes())


@pytest.mark.parametrize("code", [errno.EAGAIN, errno.ENOMEM, errno.EMFILE])
def test_command_that_cannot_start_now_has_failed(double, monkeypatch, code):
    def fail(*_args, **_options):
        raise OSError(code, os.strerror(code))

    commands = double("echo n1 idle")
    with monkeypatch.context() as patched:
        patched.setattr(subprocess, "Popen", fail)
        with pytest.raises(CommandFailed, match=os.strerror(code)):
            asyncio.run(commands.nodes())
    assert asyncio.run(commands.nodes()) == "n1 idle\n"


@pytest.mark.parametrize("script", ["exec sleep 60", f"{MUCH}; exec sleep 60"])
def test_command_without_an_end_is_ended(double, tmp_path, script):
    commands = double(script, limit_s=0.2)
    with pytest.raises(CommandFailed, match=r"no answer in 0\.2 s"):
        asyncio.run(commands.nodes())
    assert gone(tmp_path)


@pytest.mark.parametrize("script", ["exec sleep 60", f"{MUCH}; exec sleep 60"])
@pytest.mark.parametrize("steps", [0, 1, 2, 3, 4, 5, 6, 8, 10, 15, 20, 1000])
def test_cancelled_command_ends_wherever_it_was(double, tmp_path, script, steps):
    """steps: the turns of the event loop before it is cancelled."""
    commands = double(script)

    async def scenario():
        asked = asyncio.ensure_future(commands.nodes())
        for _ in range(steps):
            await asyncio.sleep(0)
        asked.cancel()
        await asyncio.wait({asked}, timeout=20)
        return asked.cancelled()

    assert asyncio.run(scenario())
    assert not (tmp_path / "pid").exists() or gone(tmp_path)
