"""Runs the commands of docs/batch.md in their order, in a private domain."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.places import ROOT
from tests.tools.transcripts import run_page

BIN = Path(sys.executable).parent
PAGE = (ROOT / "docs" / "batch.md").read_text()


@pytest.fixture
def environ():
    run_dir = Path("/tmp") / f"cosched-batch-{os.getpid()}"
    found = {
        **{name: text for name, text in os.environ.items() if "COSCHED" not in name},
        "PATH": f"{BIN}:{os.environ['PATH']}",
        "COSCHED_RUN_DIR": str(run_dir),
    }
    yield found
    down = [BIN / "cosched", "cluster", "down", "--end-jobs"]
    subprocess.run(down, env=found, check=False, capture_output=True)
    shutil.rmtree(run_dir, ignore_errors=True)


def test_the_page_shows_what_the_commands_print(tmp_path, environ):
    steps = run_page(PAGE, tmp_path, environ, timeout_s=120)
    assert len(steps) > 20
    mistakes = [step.mistake(output, status) for step, output, status in steps]
    assert [each for each in mistakes if each] == []
