"""The C interposer and the mpi4py wrapper: the same scenarios, counters and statuses."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest

from cosched.core.errors import CoschedError
from cosched.launch.shim import make_shim, plan_build
from tests.fakes import FakeNode
from tests.wrapper.form_scenarios import PROGRESS, SCENARIOS
from tests.wrapper.per_rank import INTERPOSED, NODES

pytestmark = pytest.mark.mpi_job

FORMS = ("interposer", "wrapper")
#: Equal in both forms.
EXACT = (
    *("sent", "bytes_sent", "received", "bytes_received", "told", "foreign", "dropped"),
    "arrivals",
)
#: Zero in both forms, or in none: how often a task sleeps depends on the machine.
SLEEPS = ("waits", "pauses", "paused_ns", "waited_ns")
#: Scenarios in which the receiver certainly sleeps.
SLEEPING = ("late", "late_nonblocking")


@pytest.fixture
def form_environ(site):
    """Gives the environment of a form."""
    try:
        shim = make_shim(plan_build(site.mpiexec.parent / "mpicc", os.environ))
    except CoschedError as error:
        pytest.skip(str(error))
    return {"interposer": {INTERPOSED: f"all:{shim}"}, "wrapper": {}}


def results_of(site, run_dir, environ):
    """Runs all scenarios as one job; returns the results of each rank."""
    progress = run_dir / "progress"
    progress.write_bytes(b"\0\0")
    environ = {**environ, PROGRESS: str(progress), NODES: "a,b"}
    with FakeNode(run_dir, "a"), FakeNode(run_dir, "b", scheduled=False):
        done = site.run(2, "-m", "tests.wrapper.form_scenarios", environ=environ)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return {
        rank: json.loads(Path(f"{progress}.{rank}.json").read_text()) for rank in (0, 1)
    }


def comparable(result, scenario):
    """The part of a result that does not depend on time."""
    counters = dict(result["counters"])
    # Which of the two depends on whether the receiver looked before the message came.
    counters["arrivals"] = counters["trapped"] + counters["stale"]
    names = (*EXACT, *(("trapped",) if scenario in SLEEPING else ()))
    kept = {name: counters[name] for name in names}
    if scenario in SLEEPING:
        kept |= {name: counters[name] > 0 for name in SLEEPS}
    return {**kept, "statuses": result["statuses"]}


@pytest.mark.parametrize("carrier", ["prefix", "shadow"])
def test_forms_count_and_report_alike(site, run_dir, job_environ, form_environ, carrier):
    seen = {}
    for form in FORMS:
        environ = {**job_environ, **form_environ[form], "COSCHED_STATUS": carrier}
        seen[form] = results_of(site, run_dir, environ)
        expected = "mpi_shim.MPI" if form == "wrapper" else "mpi4py.MPI"
        assert seen[form][0]["module"] == expected
    differences = [
        f"{scenario.__name__}, rank {rank}: {forms}"
        for scenario in SCENARIOS
        for rank in (0, 1)
        for forms in [
            {
                form: comparable(
                    seen[form][rank]["results"][scenario.__name__], scenario.__name__
                )
                for form in FORMS
            }
        ]
        if forms["interposer"] != forms["wrapper"]
    ]
    assert not differences, "\n".join(differences)
    late = seen["wrapper"][1]["results"]["late"]["counters"]
    assert late["trapped"] == 1
    assert late["pauses"] > 0


ODD = {
    "COSCHED_MEMORY": "100000000000000000000",
    "COSCHED_SUBMITTED": "-1",
    "COSCHED_WAIT": "block:5us",
    "COSCHED_STATUS": "pigeon",
    "COSCHED_COLLECTIVES": "x",
    "COSCHED_JOB": os.fsdecode(b"j\xff"),
}


@pytest.mark.one_mpi
def test_forms_report_an_odd_environment_alike(site, job_environ, form_environ):
    program = (
        "from tests.wrapper.per_rank import preload_interposer; preload_interposer(); "
        "from mpi_shim import MPI; print(MPI.COMM_WORLD.Get_size())"
    )
    lines = {}
    for form in FORMS:
        environ = {**job_environ, **form_environ[form], **ODD, "COSCHED_VERBOSE": "1"}
        done = site.run(1, "-c", program, environ=environ)
        assert (done.returncode, done.stdout) == (0, "1\n"), done.stderr
        found = [line for line in done.stderr.splitlines() if line.startswith("cosched")]
        lines[form] = [re.sub(r"pid \d+", "pid N", line) for line in found]
    assert lines["interposer"] == lines["wrapper"]
    assert [line.split("=")[0] for line in lines["wrapper"][:-2]] == [
        f"cosched: pid N: {name}"
        for name in (
            "COSCHED_WAIT",
            "COSCHED_COLLECTIVES",
            "COSCHED_STATUS",
            "COSCHED_MEMORY",
            "COSCHED_SUBMITTED",
        )
    ]
    assert "rank 0 runs on its own: no scheduler daemon" in lines["wrapper"][-2]
    assert lines["wrapper"][-1] == "cosched: not coscheduled; no daemon on a"
