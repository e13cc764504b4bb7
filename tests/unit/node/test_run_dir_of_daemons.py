"""The daemons use the run directory that the commands use."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from cosched.rundir.option import chosen_run_dir


def test_option_then_variable_then_the_users_own():
    environ = {"COSCHED_RUN_DIR": "/variable"}
    assert chosen_run_dir(Path("/option"), environ) == Path("/option")
    assert chosen_run_dir(None, environ) == Path("/variable")
    if os.geteuid() == 0:
        assert chosen_run_dir(None, {}) == Path("/run/cosched")


@pytest.mark.parametrize("daemon", ["controller", "agent"])
def test_daemon_reads_the_variable(daemon, tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", f"cosched_daemons.{daemon}"],
        env={**os.environ, "COSCHED_RUN_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr.startswith(f"cosched-{daemon}: {tmp_path}/domain/domain.toml")
