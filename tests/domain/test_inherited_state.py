"""A job has the limits of the shell that submits it, not those of the shell that happened
to start the private domain."""

import os
import re
import resource
import subprocess

import pytest

from tests.domain.rig import ENVIRON
from tests.domain.user import BIN

STATE = "echo files $(ulimit -n) stack $(ulimit -s) cpu $(ulimit -t) nice $(nice)"
WORDS = "submit --wait --input none -n 1 sh -c"


@pytest.fixture
def private(tmp_path):
    """Runs words of a shell with a private domain of its own; $SUBMIT is the submission of
    a program that prints its state."""
    environ = {**ENVIRON, "COSCHED_RUN_DIR": str(tmp_path), "COSCHED_RUNS": "off"}

    def run(script):
        submit = f"{BIN}/cosched {WORDS} '{STATE}; {{more}}'"
        script = re.sub(r"SUBMIT\((.*?)\)", lambda m: submit.format(more=m[1]), script)
        words = ["bash", "-c", script]
        return subprocess.run(
            words, cwd=tmp_path, env=environ, capture_output=True, text=True, check=True
        )

    yield run
    run(f"{BIN}/cosched cluster down --end-jobs; true")


def expected(**changed):
    now = {
        "files": resource.getrlimit(resource.RLIMIT_NOFILE)[0],
        "stack": resource.getrlimit(resource.RLIMIT_STACK)[0] // 1024 or "unlimited",
        "cpu": "unlimited",
        "nice": os.getpriority(os.PRIO_PROCESS, 0),
        **changed,
    }
    return " ".join(f"{name} {value}" for name, value in now.items()) + "\n"


@pytest.mark.skipif(
    resource.getrlimit(resource.RLIMIT_CPU)[0] != resource.RLIM_INFINITY
    or os.getpriority(os.PRIO_PROCESS, 0) > 0,
    reason="this shell has a limit of CPU time, or a nice value",
)
def test_the_limits_of_the_first_shell_stay_there_and_those_of_each_travel(private):
    low = private("ulimit -t 100; ulimit -n 200; ulimit -s 2048; nice -n 5 SUBMIT(:)")
    assert low.stdout.startswith("files 200 stack 2048 cpu 100")
    # Hard limits cannot be raised again: the domain was started again.
    usual = private("SUBMIT(:)")
    assert (usual.stdout, usual.stderr) == (expected(), "")
    assert private("ulimit -Ss 1000; SUBMIT(:)").stdout == expected(stack=1000)
    assert private("ulimit -Sn 77; SUBMIT(:)").stdout == expected(files=77)


def test_a_domain_that_runs_jobs_is_not_started_again(private):
    job = "SUBMIT(touch began; until [ -e go ]; do sleep 0.05; done)"
    wait = "until [ -e began ]; do sleep 0.05; done"
    warned = "for i in $(seq 300); do grep warning err && break; sleep 0.1; done"
    next_one = f"SUBMIT(:) 2>err & {warned} >&2; touch go; wait"
    done = private(f"(ulimit -t 100; {job}) & {wait}; {next_one}")
    line = (
        "jobs run in the private domain, so it keeps the hard limit cpu 100, not unlimited"
    )
    assert f"warning: {line}; so does this job\n" in done.stderr
    assert done.stdout.count("cpu 100") == 2
