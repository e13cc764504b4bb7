"""How long iterations take, and how long ranks wait in MPI, with and without the shim."""

import re
import time
from pathlib import Path

import pytest

from cosched.core.cluster.resizing.agreement import ReportDone
from tests.tools.malleable_agents import PlayedAgents

PROGRAM = Path(__file__).with_name("times_program.py")
SLEEP_S = 0.02

pytestmark = pytest.mark.mpi_job


class WithShim(PlayedAgents):
    """Starts the program by cosched-run, which preloads the shim. Only the shim decides how
    ranks wait."""

    def waiting(self):
        return []

    def launcher(self, bin_folder):
        run = ("--mpi", bin_folder / "mpiexec", "--run-dir", self.folder / "run")
        return [bin_folder / "cosched-run", *run]


@pytest.fixture(
    params=[
        pytest.param(PlayedAgents, id="alone", marks=pytest.mark.one_mpi),
        pytest.param(WithShim, id="shim"),
    ]
)
def played(request, tmp_path):
    agents = request.param(tmp_path, 2)
    yield agents
    agents.close()


def wait_for_boundary(played, number):
    deadline = time.monotonic() + 60
    while played.pages[0].look().largest < number:
        assert time.monotonic() < deadline, played.output.read_text()
        time.sleep(0.01)


def test_times_of_iterations_are_measured(played, mpi):
    stop = played.folder / "stop"
    played.start(mpi, [0, 1], PROGRAM, stop)
    wait_for_boundary(played, 20)
    assert isinstance(played.resize([1]), ReportDone)
    assert isinstance(played.resize([], [1]), ReportDone)
    wait_for_boundary(played, played.pages[0].look().largest + 20)
    stop.touch()
    status, output = played.finish()
    assert status == 0, output
    first, second = re.findall(r"^rank \d: (.*)$", output, re.M)
    assert float(first.split()[0]) >= SLEEP_S
    if isinstance(played, WithShim):
        _, waits, works = map(float, first.split())
        assert waits >= SLEEP_S / 2 > works
        _, waits, works = map(float, second.split())
        assert works >= SLEEP_S
    else:
        assert first.split()[1] == second.split()[1] == "none"
