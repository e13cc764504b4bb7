"""Programs in Python and in C predict their times: the page has the prediction before and
after a change, and a wrong one is one line."""

import re
import subprocess
import time

import pytest

from cosched.core.cluster.resizing.agreement import ReportDone
from tests.malleable.conftest import flags_for
from tests.tools.malleable_agents import CHANGE_S

pytestmark = pytest.mark.mpi_job

IN_PYTHON = """
import sys, time
from pathlib import Path
from cosched import malleable

def predict(nodes):
    return float("nan") if "wrong" in sys.argv and nodes == 2 else 1.0 / nodes

with malleable.Job(1, 4, predict=predict) as job:
    for step in job.steps():
        if job.resized:
            job.redistribute()
        if job.bcast(Path(sys.argv[1]).exists()):
            break
        time.sleep(0.01)
    if job.rank == 0:
        print("done")
"""
IN_C = r"""
#include <cosched/malleable.h>
#include <math.h>
#include <stdio.h>
#include <unistd.h>

static double predict(int32_t nodes, void *data) {
    return *(int *)data > 2 && nodes == 2 ? NAN : 1.0 / nodes;
}

int main(int argc, char **argv) {
    struct cosched_job *job;
    int64_t step;
    int rank, ends = 0;
    MPI_Init(&argc, &argv);
    cosched_job_begin(&job, 1, 4);
    cosched_job_predict(job, predict, &argc);
    while (cosched_job_next(job, -1, &step) == 1) {
        if (cosched_job_resized(job) && cosched_job_redistribute(job, NULL, 0) != 0)
            break;
        ends = access(argv[1], F_OK) == 0;
        cosched_job_bcast(job, &ends, sizeof ends);
        if (ends)
            break;
        usleep(10000);
    }
    if (!cosched_job_left(job)) {
        MPI_Comm_rank(cosched_job_comm(job), &rank);
        if (rank == 0)
            printf("done\n");
    }
    cosched_job_end(job);
    MPI_Finalize();
    return 0;
}
"""
POINTS = ((1, 10**9), (2, 5 * 10**8), (3, 333333333), (4, 25 * 10**7))


@pytest.fixture(params=["python", "c"])
def program(request, mpi, tmp_path):
    if request.param == "python":
        source = tmp_path / "predicts.py"
        source.write_text(IN_PYTHON)
        return source
    source = tmp_path / "predicts.c"
    source.write_text(IN_C)
    made = source.with_suffix("")
    words = ("-Wall", "-Wextra", "-Werror", *flags_for(mpi / "mpicc"))
    subprocess.run([mpi / "mpicc", source, *words, "-o", made], check=True)
    return made


def until_predicted(played, node):
    """Waits until rank 0 is there and predicts: it reports a change before that."""
    deadline = time.monotonic() + CHANGE_S
    while played.pages[node].prediction() != POINTS:
        assert time.monotonic() < deadline, played.pages[node].prediction()
        time.sleep(0.001)


@pytest.mark.one_mpi
def test_the_page_of_rank_0_has_the_prediction(agents, mpi, program):
    played = agents(2)
    stop = played.folder / "stop"
    played.start(mpi, [0], program, stop)
    assert isinstance(played.resize([], [1]), ReportDone)
    until_predicted(played, 0)
    assert isinstance(played.resize([0]), ReportDone)
    until_predicted(played, 1)
    stop.touch()
    assert played.finish() == (0, "done\n")


@pytest.mark.one_mpi
def test_a_wrong_prediction_is_one_line_and_the_job_goes_on(agents, mpi, program):
    played = agents(2)
    stop = played.folder / "stop"
    played.start(mpi, [0], program, stop, "wrong")
    assert isinstance(played.resize([], [1]), ReportDone)
    assert played.pages[0].prediction() == ()
    stop.touch()
    status, output = played.finish()
    assert status == 0, output
    assert re.fullmatch(
        r"cosched: the program's prediction is ignored: with 2 nodes it is nan, "
        r"not a time in seconds\ndone\n",
        output,
    )
