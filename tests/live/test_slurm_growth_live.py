"""A domain in a Slurm allocation grows to four nodes and shrinks to one, by its queue."""

from __future__ import annotations

import os
import re
from types import SimpleNamespace

import pytest

from tests.live.conftest import DEADLINE_S
from tests.live.test_slurm_live import MISSING, Site, alone, until
from tests.live.test_users_live import skip_in_tmp
from tests.places import ROOT

pytestmark = [
    pytest.mark.live,
    pytest.mark.mpi_job,
    pytest.mark.skipif(
        bool(MISSING),
        reason=f"{', '.join(MISSING)} not found; scripts/slurm-lab installs it",
    ),
]
WORDS = ("--nodes", "4", "--share-cpus")
NAMES = ("lab1", "lab2", "lab3", "lab4")
#: The domain's own job takes so much memory that no other job fits beside it.
MEMORY = "--mem=600"
#: The words of the guide, and what a lab of four nodes needs.
IN_A_LAB = (("1-8", "1-4"), ("5m", "5s"), ("2:00:00 --exclusive", f"10 {MEMORY}"))


def command_of_the_guide():
    page = (ROOT / "docs" / "domain.md").read_text()
    (line,) = re.findall(r"^`(cosched cluster up --nodes 1-8 .*)`\.$", page, re.MULTILINE)
    for shown, here in IN_A_LAB:
        assert shown in line
        line = line.replace(shown, here)
    return line


SCRIPT = f"""#!/bin/sh
export COSCHED_RUN_DIR=$HOME/grows
{command_of_the_guide()}
cosched submit --nodes 4 --ppn 1 --wait ./look
echo status $?
while ! test -e end; do sleep 0.2; done
cosched cluster down
"""


@pytest.fixture(scope="module")
def site():
    if os.geteuid() != 0:
        pytest.skip("needs root")
    skip_in_tmp()
    with alone():
        made = Site(SimpleNamespace(words=WORDS, names=NAMES, last=NAMES[-1]))
        yield made
        made.close()


def output(site, name):
    """Returns what a file of the user has; nothing if it is not there yet."""
    return site.user("lab1", "sh", "-c", f"cat {name} 2>/dev/null || true")


def running(site):
    """Returns the nodes of the user's jobs in Slurm that run."""
    text = site.user("lab1", "squeue", "--noheader", "--states=RUNNING", "--format=%N")
    return sorted(text.split())


def test_domain_grows_to_its_most_for_a_job_and_shrinks_to_its_least(site):
    job = site.sbatch(SCRIPT, "--nodes=1", "--ntasks-per-node=1", MEMORY)
    until(lambda: "status" in output(site, f"{job}.out"), "the job ends", 3 * DEADLINE_S)
    lines = output(site, f"{job}.out").splitlines()
    assert lines[-1] == "status 0", lines
    assert sorted(line.split()[0] for line in lines[1:-1]) == list(NAMES)
    log = "grows/domain/slurmnodes.log"
    assert "asked Slurm for 3 more nodes" in output(site, log)
    until(lambda: len(running(site)) == 1, "the nodes are given back", DEADLINE_S)
    assert output(site, log).count("is given back") == 3
    status = site.user(
        "lab1", "sh", "-c", "COSCHED_RUN_DIR=$HOME/grows cosched cluster status"
    )
    assert len(status.splitlines()) == 2, status
    site.user("lab1", "touch", "end")
    site.wait(job)
    assert running(site) == []
    site.until_nothing_runs()


def test_nodes_end_with_the_allocation_of_the_domain(site):
    site.user("lab1", "rm", "-f", "end")
    job = site.sbatch(SCRIPT.replace("./look", "sleep 600"), "--nodes=1", MEMORY)
    until(lambda: len(running(site)) == 4, "the domain grows", 3 * DEADLINE_S)
    site.user("lab1", "scancel", job)
    until(lambda: running(site) == [], "all jobs of Slurm end", 2 * DEADLINE_S)
    site.until_nothing_runs()


WIDE = f"""#!/bin/sh
export COSCHED_RUN_DIR=$HOME/wide
{command_of_the_guide()}
cosched submit --nodes 3 --ppn 1 --wait ./look
while ! test -e next; do sleep 0.2; done
echo the job has $(squeue --noheader --job=$SLURM_JOB_ID --format=%D)
cosched submit --nodes 2 --ppn 1 --wait ./look
cosched cluster down
"""


def test_job_of_the_domain_gives_idle_nodes_to_slurm(site):
    """Another job gets one of them, while the first one goes on with what it has."""
    job = site.sbatch(WIDE, "--nodes=3", "--ntasks-per-node=1", MEMORY)
    until(lambda: running(site) == ["lab1"], "the job has one node", 3 * DEADLINE_S)
    lines = output(site, f"{job}.out").splitlines()
    assert sorted(line.split()[0] for line in lines[1:]) == list(NAMES[:3])
    log = output(site, "wide/domain/slurmnodes.log")
    assert "Slurm has got lab2, lab3 back; the job has lab1" in log
    other = site.sbatch("#!/bin/sh\nuname -n\n", "--nodelist=lab3", MEMORY)
    until(lambda: output(site, f"{other}.out") == "lab3\n", "the other job", DEADLINE_S)
    site.user("lab1", "touch", "next")
    site.wait(job)
    printed = output(site, f"{job}.out")
    assert "the job has 1\n" in printed, printed
    _, first, second, down = printed[printed.index("the job has") :].splitlines()
    assert down == "the domain is down"
    assert first.split()[0] != second.split()[0]
    site.until_nothing_runs()


def test_nodes_outside_of_slurm_are_one_line(site):
    words = "cosched cluster up --run-dir $HOME/none --nodes 1-4 2>&1; echo status $?"
    said = site.user("lab1", "sh", "-c", words)
    assert said == (
        "cosched: --nodes: no allocation of Slurm is here; use it in a batch script or in "
        "salloc\nstatus 1\n"
    )
