"""Runs the programs of docs/python.md, which print the text that the page shows. Runs
functions as jobs of a real domain, also with ranks."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from cosched import Client, JobFailed
from tests.places import ROOT

BIN = Path(sys.executable).parent
PAGE = (ROOT / "docs" / "python.md").read_text()
PROGRAMS = re.findall(r"```python\n(.*?)```\n\n```text\n(.*?)```", PAGE, re.DOTALL)

pytestmark = pytest.mark.mpi_job


@pytest.fixture(scope="module")
def environ(tmp_path_factory):
    """The environment of a user on whose machine no domain is up."""
    run_dir = Path("/tmp") / f"cosched-python-{os.getpid()}"
    found = {k: v for k, v in os.environ.items() if not k.startswith("COSCHED_")}
    found |= {"COSCHED_RUN_DIR": str(run_dir), "COSCHED_RUNS": "off"}
    found["PATH"] = f"{BIN}:{os.environ['PATH']}"
    yield found
    down = [BIN / "cosched", "cluster", "down", "--end-jobs"]
    subprocess.run(down, env=found, check=True, capture_output=True)
    subprocess.run(["rm", "-rf", run_dir], check=True)


@pytest.mark.parametrize(("program", "shown"), PROGRAMS, ids=range(len(PROGRAMS)))
def test_program_of_the_page_prints_what_is_shown(environ, tmp_path, program, shown):
    (tmp_path / "program.py").write_text(program)
    done = subprocess.run(
        [sys.executable, "program.py"],
        cwd=tmp_path,
        env=environ,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, shown, "")
    assert [path.name for path in tmp_path.iterdir()] == ["program.py"]


def test_the_page_has_all_its_programs():
    assert len(PROGRAMS) == PAGE.count("```python") == 5


@pytest.fixture
def client(pair):
    with Client.connect(pair.paths.run_dir, "n1") as found:
        yield found


def test_exception_of_any_rank_comes_back_and_ends_the_others(client, pair):
    def fail(comm, item):
        if comm.rank == 1:
            raise ValueError(item)
        comm.barrier()

    with pytest.raises(ValueError, match="seven"):
        list(client.map(fail, ["seven"], ranks=2, environ={**os.environ, **pair.mark}))


def test_ranks_that_die_are_one_line(client, pair):
    def die(comm, item):
        os._exit(item)

    with pytest.raises(JobFailed, match=r"die\): failed: rank \d ended with status 5"):
        list(client.map(die, [5], ranks=2, environ={**os.environ, **pair.mark}))
