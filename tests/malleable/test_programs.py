"""STEN, GE and CL, in Python and in C: in random changes of their size they end with the
answer of a rigid run. Python and C have the same answer."""

import re

import pytest

from benchmarks.mpi import PROGRAMS
from cosched.core.cluster.resizing.agreement import ReportDone
from tests.malleable.conftest import folders
from tests.tools.malleable_agents import compiled, run_without_agents

NAMES = ("sten", "ge", "cl")
#: A rank in Python takes five times the CPU of one in C to start.
CHANGES = {"python": 5, "c": 20}
FREE, ENDED = 0, 4
#: A seed changes all programs alike, so one of them does so under each MPI.
CHANGED = (
    NAMES[0],
    *(pytest.param(name, marks=pytest.mark.one_mpi) for name in NAMES[1:]),
)

pytestmark = pytest.mark.mpi_job


@pytest.fixture(params=sorted(CHANGES, reverse=True))
def language(request):
    return request.param


@pytest.fixture
def find(language, mpi):
    """Returns a function that finds a program by its name."""
    if language == "python":
        return lambda name: PROGRAMS / f"{name}.py"
    return lambda name: compiled(PROGRAMS / f"{name}.c", mpi)


def change_at_random(played, times, most):
    """Changes the job to 1 to ``most`` ranks on any nodes; some orders are withdrawn."""
    done = 0
    for number in range(times):
        report = played.resize_to(played.random_target(most), withdraw=number % 5 == 4)
        done += isinstance(report, ReportDone)
        assert isinstance(report, ReportDone) or report.reason == "the queue wants it so"
        if isinstance(report, ReportDone):
            assert played.results[-1].ranks == len(played.ranks)
    return done


def states(played):
    return {slot.state for page in played.pages for slot in page.data.slots}


def run(name, program, played, mpi, rigid, changes):
    stop = played.folder / "stop"
    played.start(mpi, [0, 1], program, "--size", "24", "--until", stop, "--pause", "0.01")
    assert change_at_random(played, changes, 4) >= 0.6 * changes
    stop.touch()
    status, output = played.finish()
    assert status == 0, output
    iterations = re.search(r"iterations (\d+)", output)[1]
    program = compiled(PROGRAMS / f"{name}.c", mpi)  # its answers are the same, see below
    expected = rigid(2, program, "--size", "24", "--iterations", iterations)
    assert output == expected.stdout, expected.stderr
    assert states(played) <= {FREE, ENDED}


@pytest.mark.parametrize("name", CHANGED)
def test_program_survives_random_changes(agents, mpi, rigid, find, language, name):
    run(name, find(name), agents(6, seed=1), mpi, rigid, CHANGES[language])


@pytest.mark.long
@pytest.mark.parametrize("seed", [2])
@pytest.mark.parametrize("name", NAMES)
def test_program_survives_many_random_changes(agents, mpi, rigid, find, name, seed):
    run(name, find(name), agents(6, seed), mpi, rigid, 500)


@pytest.mark.parametrize("problem", [1, 2, 3, 4])
@pytest.mark.parametrize("name", NAMES)
def test_problems_of_the_table_have_one_answer(any_mpi, name, problem):
    words = ("--problem", str(problem), "--scale", "0.1", "--iterations", "9")
    python = (any_mpi / "python", PROGRAMS / f"{name}.py")
    expected = run_without_agents(any_mpi, 1, *python, *words)
    assert re.search(r" answer [0-9a-f]{8}$", expected.stdout), expected.stderr
    for mpi in folders():
        program = compiled(PROGRAMS / f"{name}.c", mpi)
        assert run_without_agents(mpi, 2, program, *words).stdout == expected.stdout


@pytest.mark.one_mpi
def test_elimination_ends_with_a_triangle(rigid):
    """After as many iterations as columns, each row was the pivot once."""
    done = rigid(2, PROGRAMS / "ge.py", "--size", "16")
    assert "iterations 16 " in done.stdout, done.stderr
