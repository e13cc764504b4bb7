"""Users, operators and scripts of a real Slurm change jobs with mates."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest

from cosched.cluster.engines.slurm.prolog_scripts import task_script
from tests.places import ROOT
from tests.slurm.conftest import USER, until
from tests.slurm.test_traps import finishes, held

pytestmark = pytest.mark.live


def test_begin_time_and_nice_value_of_the_user_are_kept(al):
    job = al.sbatch("--begin=now+1hour", "--nice=100")
    al.expect("Submitted", job)
    begins = al.show(job)["StartTime"]
    al.order("try_now", job)
    tried = al.expect("Tried", job)
    assert (tried["ready"], tried["reason"]) == (False, "its begin time has not come")
    assert al.show(job)["StartTime"] == begins
    moves(al, job, 5, "95")


def test_nice_value_of_the_user_is_kept_over_restarts_and_a_refusal(al):
    held(al, "--nodes=2")
    job = al.sbatch("--nodes=2")
    al.expect("Submitted", job)
    for places, nice in ((5, "-5"), (10, "-10")):
        moves(al, job, places, nice)
        al.kill()
        al.start()
        al.expect("Submitted", job)
    al.slurm.run("scontrol", "update", f"jobid={job}", "nice=500", user=USER)
    time.sleep(2 * al.settings.poll_s + 1)  # no event reports it
    moves(al, job, 15, "485")
    al.order("refuse", job, "eureka refuses its group")
    until(lambda: "eureka refuses" in shown(al, job), "the reason is shown")
    assert (al.show(job)["Priority"], al.show(job)["Nice"]) == ("0", "500")


def moves(al, job, places, nice):
    """Moves a job, and waits until it has the nice value."""
    al.order("set_priority", job, places)
    until(lambda: al.show(job)["Nice"] == nice, "the nice value is moved")
    assert "AdminComment=cosched: moved forward from nice value " in shown(al, job)
    assert f" to {nice} " in shown(al, job)


def shown(al, job):
    """Returns what scontrol shows of a job, in one line."""
    return " ".join(al.slurm.run("scontrol", "show", "job", str(job)).split()) + " "


def test_requeue_is_switched_off_while_a_job_waits(al):
    first = held(al, "--nodes=2")
    job = al.sbatch("--nodes=2")
    al.expect("Submitted", job)
    al.slurm.run("scontrol", "update", f"jobid={job}", "requeue=0")
    al.expect("Cancelled", job, reason="it cannot wait again any more")
    assert "--requeue" in al.expect("Refused", job)["reason"]
    until(lambda: al.show(job)["Priority"] == "0", "the job is held")
    al.slurm.run("scontrol", "update", f"jobid={job}", "requeue=1")
    al.slurm.run("scontrol", "release", str(job))
    al.expect("Submitted", job)
    finishes(al, first)
    al.order("try_now", job)
    assert al.expect("Tried", job)["ready"]
    finishes(al, job)


def test_requeue_is_switched_off_while_a_job_holds(al):
    job = held(al)
    al.slurm.run("scontrol", "update", f"jobid={job}", "requeue=0")
    time.sleep(2 * al.settings.poll_s + 1)  # no event reports it
    al.order("give_back", job, 0.2)
    al.expect("GaveBack", job)
    al.expect("Ready", job)  # it has kept its nodes
    finishes(al, job)


def test_comment_with_other_bytes_than_text_does_not_stop_the_polls(al):
    other = al.sbatch("--comment=caf\udce9", mate=False, script="sleep 60")
    until(lambda: al.show(other)["JobState"] == "RUNNING", "the other job runs")
    finishes(al, held(al))


# -- scripts of the site -------------------------------------------------------------------


@pytest.mark.long
def test_epilog_after_a_yield_is_no_start(alone):
    al = alone(scripts={"EpilogSlurmctld": "#!/bin/sh\nsleep 2\n"})
    job = held(al)
    al.order("give_back", job, 0)
    al.expect("GaveBack", job)
    seen = len(al.past)
    al.expect("Ready", job)
    assert [name for name, _ in al.past[seen:] if name in ("Started", "Ended")] == []
    finishes(al, job)


@pytest.mark.long
def test_steps_have_the_mates_of_their_script(alone):
    al = alone(scripts={"TaskProlog": task_script()})
    show = 'echo "${COSCHED_MATES-none}/$COSCHED_MATES_OF"'
    script = f"{show}; srun sh -c '{show}'"
    for mate, mates in ((False, ""), (True, "be=812@b[1-2]")):
        job = submitted(al, mate, script)
        assert Path(al.out(job)).read_text() == f"{mates}/{job}\n" * 2


@pytest.mark.long
def test_a_script_can_write_a_file_with_the_nodes_of_its_mate(alone):
    """The lines are those of the page for users."""
    text = (ROOT / "docs/coupling.md").read_text()
    (lines,) = re.findall(r"```bash\n(nodes=.*?)```", text, re.DOTALL)
    al = alone(scripts={"TaskProlog": task_script()})
    script = f"cd $(mktemp -d)\n{lines}\ncat mate-nodes.txt; rm mate-nodes.txt; rmdir $PWD"
    job = submitted(al, True, script)
    assert Path(al.out(job)).read_text() == "b1\nb2\n"


def submitted(al, mate, script):
    """Submits a job, lets it start if it has a mate, and returns its number when it has
    ended."""
    job = al.sbatch(mate=mate, script=script)
    if mate:
        al.expect("Ready", job)
        al.order("go", job, [["be", "812@b[1-2]"]])
    until(lambda: al.show(job)["JobState"] == "COMPLETED", "the job ends")
    return job
