"""Runs the commands of docs/domain.md in their order. tests/live/test_slurm_live.py runs
its batch script."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.places import ROOT

BIN = Path(sys.executable).parent
PAGE = (ROOT / "docs" / "domain.md").read_text()
#: It names a job that has ended by then, as the page says.
FAILS = "cosched cancel later"


@pytest.fixture
def shell(tmp_path):
    """Returns a function that runs a command in a folder with the program ``app``."""
    source = ROOT / "benchmarks/programs/wavefront.c"
    subprocess.run(
        [BIN / "mpicc", "-O2", "-o", tmp_path / "app", source, "-lm"], check=True
    )
    run_dir = Path("/tmp") / f"cosched-guide-{os.getpid()}"
    environ = {
        **os.environ,
        "PATH": f"{BIN}:{os.environ['PATH']}",
        "COSCHED_RUN_DIR": str(run_dir),
    }

    def run(line):
        return subprocess.run(
            line,
            shell=True,
            cwd=tmp_path,
            env=environ,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    yield run
    for line in ("cosched cluster down --end-jobs", "cosched lab down"):
        run(line)
    subprocess.run(["rm", "-rf", run_dir], check=True)


@pytest.mark.skipif(os.geteuid() != 0, reason="the lab needs root")
def test_the_commands_of_the_guide_run_in_their_order(shell):
    found = re.findall(r"^```(.*)\n((?:.*\n)*?)```$", PAGE, re.MULTILINE)
    blocks = [(language, block) for language, block in found if language != "bash"]
    kinds = ["", "python", "", "text", "toml", "", "", "toml", "", "toml"]
    assert [language for language, _ in blocks] == kinds
    for language, block in blocks:
        for line in () if language else block.splitlines():
            done = shell(line)
            assert (done.returncode != 0) == (line == FAILS), (line, done.stderr)
        if language == "python":
            done = shell(f"python -c {shlex.quote(block)}")
            assert re.fullmatch(r"\[.*\]\ndone 0 cosched-4.out\n", done.stdout), done.stderr
            # The private domain would end by itself.
            done = shell("cosched cluster down --end-jobs")
            assert done.returncode == 0, done.stderr
