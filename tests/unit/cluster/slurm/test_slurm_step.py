"""The allocation that a command finds around it, and the step that starts the agents."""

import subprocess

import pytest

from cosched.cluster.paths import DomainPaths
from cosched.cluster.slurm.allocation import Allocation, find_allocation
from cosched.cluster.slurm.step import (
    Step,
    allocation_places,
    log_path,
    start_in_allocation,
    step_environment,
    step_words,
)
from cosched.core.errors import CoschedError

NODES = {"SLURM_JOB_ID": "17", "SLURM_JOB_NODELIST": "n[1-2]"}


def test_batch_script_runs_on_a_node_of_its_job():
    found = find_allocation({**NODES, "SLURMD_NODENAME": "n1"}, "n1.site.org")
    assert found == Allocation(17, ("n1", "n2"), "n1")
    assert found.port == 10034
    assert allocation_places(found, 7)[1].address == "n2:7"
    assert find_allocation(NODES, "n2.site.org").here == "n2"


def test_shell_of_salloc_may_run_on_another_machine():
    assert find_allocation(NODES, "login").here == "login"


def test_outside_of_slurm_there_is_no_allocation():
    assert find_allocation({}, "n1") is None
    assert find_allocation({"SLURM_JOB_ID": "17"}, "n1") is None


def test_damaged_environment_is_one_line():
    with pytest.raises(CoschedError, match="SLURM_JOB_ID: 'x' is not a whole number"):
        find_allocation({**NODES, "SLURM_JOB_ID": "x"}, "n1")
    with pytest.raises(CoschedError, match="is not a list of hosts"):
        find_allocation({**NODES, "SLURM_JOB_NODELIST": "n[1"}, "n1")


def test_step_has_one_agent_a_node_and_overlaps(tmp_path):
    allocation = Allocation(17, ("n1", "n2"), "n1")
    words = step_words("/bin/srun", allocation, DomainPaths(tmp_path), "abc")
    assert {"--nodes=2", "--ntasks=2", "--ntasks-per-node=1", "--overlap"} <= set(words)
    assert words[-4:] == ["--run-dir", str(tmp_path), "--mark", "abc"]


def test_step_does_not_get_the_cpus_of_one_task_of_the_script():
    environ = {**NODES, "SRUN_CPUS_PER_TASK": "1", "SLURM_HINT": "nomultithread"}
    assert step_environment(environ) == NODES


def make_step(tmp_path, script):
    paths = DomainPaths(tmp_path)
    paths.directory.mkdir(exist_ok=True)
    with log_path(paths).open("wb") as log:
        process = subprocess.Popen(["sh", "-c", script], stdout=subprocess.PIPE, stderr=log)
    return Step(process, ("n1", "n2", "n3"), paths)


def test_step_is_ready_when_all_agents_are(tmp_path):
    step = make_step(tmp_path, "echo odd; echo 2: ready; echo 0: ready; echo 1: ready; cat")
    step.wait_ready()
    step.end()
    assert step.process.returncode is not None


@pytest.mark.parametrize(
    ("script", "problem"),
    [
        (
            "echo 0: ready; echo 1: absent; cat",
            "n2 does not see {run} of this node; name a directory that all nodes share: "
            "export COSCHED_RUN_DIR=$HOME/.cosched/$SLURM_JOB_ID",
        ),
        ("echo 2: failed no key; cat", "n3: agent: no key"),
        (
            "echo 0: ready; echo srun: error: n2 is away >&2; echo bye >&2",
            "2 of 3 nodes did not answer before the step ended: n2, n3; "
            "srun: error: n2 is away (log: {run}/domain/step.log)",
        ),
        (
            "echo 0: ready; exec sleep 60",
            "2 of 3 nodes did not answer within 0.5 s: n2, n3 (log: {run}/domain/step.log)",
        ),
    ],
)
def test_step_that_fails_is_one_line(tmp_path, script, problem):
    step = make_step(tmp_path, script)
    with pytest.raises(CoschedError) as error:
        step.wait_ready(0.5 if "sleep" in script else 30)
    step.end()
    assert str(error.value) == problem.format(run=tmp_path)


def test_missing_srun_is_one_line(tmp_path):
    paths = DomainPaths(tmp_path)
    paths.directory.mkdir()
    with pytest.raises(CoschedError) as error:
        start_in_allocation(paths, Allocation(17, ("n1",), "n1"), {"PATH": str(tmp_path)})
    assert str(error.value) == (
        "srun not found in job 17 of Slurm; add Slurm's commands to PATH, or name the "
        "nodes with --hosts"
    )
