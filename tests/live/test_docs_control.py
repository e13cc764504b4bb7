"""docs/control.md, run in its order; the job that is steered runs longer than shown."""

from __future__ import annotations

import os
import shlex
import subprocess
from pathlib import Path

import pytest

from cosched.node.sockets.client import request
from cosched.rundir.paths import NodePaths
from tests.live.conftest import eventually
from tests.live.test_docs_live import BIN, ROOT, commands
from tests.live.test_docs_live import folder as folder  # noqa: PLC0414
from tests.live.test_docs_live import folder_with_app as folder_with_app  # noqa: PLC0414

pytestmark = [pytest.mark.live, pytest.mark.mpi_job]

PAGE = ROOT / "docs/control.md"


def tasks(paths: NodePaths, name: str) -> int:
    jobs = request(paths, "status")["jobs"]
    return sum(len(job["tasks"]) for job in jobs if job["name"] == name)


def test_control_page_commands_run_as_printed(folder_with_app: Path, run_dir: Path):
    paths = NodePaths(run_dir, os.uname().nodename)
    environment = {
        **os.environ,
        "PATH": f"{BIN}:{os.environ['PATH']}",
        "COSCHED_RUN_DIR": str(run_dir),
    }
    started, said = [], {}
    try:
        for line in commands(PAGE):
            words = shlex.split(line)
            if words[-1] == "&":
                # So long that it is there for every command; they are not about its result.
                long = [*words[:-1], "-i", "100000"]
                started.append(subprocess.Popen(long, cwd=folder_with_app, env=environment))
                eventually(lambda: tasks(paths, "solver") == 2, line, within_s=60)
                continue
            if words[:3] == ["cosched", "advise", "solver"]:
                assert started[0].poll() is None, "the job ended too early to be judged"
            if words[-1] == "./app":
                words += ["--preset", "short"]
            run = subprocess.run(
                words,
                cwd=folder_with_app,
                env=environment,
                capture_output=True,
                text=True,
                timeout=240,
                check=False,
            )
            assert run.returncode == 0, f"{line}\n{run.stdout}{run.stderr}"
            said[line] = run.stdout
        assert "solver: " in said["cosched advise solver"]
        assert "suspended" in said["cosched status"]
        assert "boosted" not in said["cosched status"]
        assert "alone on its CPUs" in said["cosched boost solver"]
        assert [one.poll() for one in started] == [None]
    finally:
        for one in started:
            one.terminate()
            one.wait(timeout=240)
        subprocess.run(
            [BIN / "cosched", "down"], env=environment, check=False, cwd=folder_with_app
        )
