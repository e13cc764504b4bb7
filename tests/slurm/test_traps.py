"""Events in a real Slurm that break a hold or a yield, and the engine's answers to them."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time

import pytest

from tests.places import ROOT
from tests.slurm.conftest import GROUP, USER, until

pytestmark = pytest.mark.live

LUA = ROOT / "cosched/cluster/engines/slurm/job_submit.lua"
MATE = f"--comment=cosched:mate={GROUP}@be"


def held(al, *options):
    """Submits a job that holds its nodes; returns its number."""
    job = al.sbatch(*options)
    al.expect("Ready", job)
    return job


def finishes(al, job):
    """Starts a ready job, which runs once and ends."""
    al.order("go", job)
    al.expect("Ended", job, outcome="COMPLETED")
    assert len(al.times(job)) == 1


# -- users and administrators --------------------------------------------------------------


def test_scancel_while_held(al):
    job = held(al, "--nodes=2")
    al.slurm.run("scancel", str(job), user=USER)
    al.expect("Cancelled", job, reason="CANCELLED")
    until(al.slurm.idle, "the nodes are free")


def test_scancel_while_queued(al):
    first = held(al, "--nodes=2")
    job = al.sbatch("--nodes=2")
    al.expect("Submitted", job)
    al.slurm.run("scancel", str(job), user=USER)
    al.expect("Cancelled", job)
    finishes(al, first)


def test_requeue_while_held(al):
    job = held(al)
    al.slurm.run("scontrol", "requeue", str(job))
    al.expect("NotReady", job, reason="it was put back into Slurm's queue")
    al.order("try_now", job)
    assert al.expect("Tried", job)["ready"]
    finishes(al, job)


def test_requeuehold_while_held_leaves_no_cleaning(al):
    job = held(al)
    al.slurm.run("scontrol", "requeuehold", str(job))
    al.expect("NotReady", job)
    until(lambda: al.show(job)["Reason"] != "Cleaning", "the prolog has ended")
    al.order("try_now", job)
    assert al.expect("Tried", job)["reason"] == "it is held in Slurm's queue"
    al.slurm.run("scontrol", "release", str(job))
    al.order("try_now", job)
    assert al.expect("Tried", job)["ready"]
    finishes(al, job)


def test_requeue_of_a_running_job(al):
    job = al.sbatch(script="date +%s.%N; sleep 60")
    al.expect("Ready", job)
    al.order("go", job)
    al.expect("Started", job)
    al.slurm.run("scontrol", "requeue", str(job))
    al.expect("Ended", job, outcome="REQUEUED")
    al.expect("Submitted", job)
    al.order("try_now", job)
    al.expect("Ready", job)


# -- deaths --------------------------------------------------------------------------------


def test_slurmctld_is_killed_while_a_job_holds(al):
    job = held(al)
    al.save(job)
    al.slurm.kill_controller()
    al.expect("NotReady", job)
    al.expect("Reached", up=False)
    al.slurm.start_controller()
    al.expect("Reached", up=True)
    al.expect("Ready", job)
    finishes(al, job)


def test_slurmctld_is_killed_at_go(al):
    job = held(al)
    al.save(job)
    al.order("go", job)
    al.slurm.kill_controller()
    al.slurm.start_controller()
    event = al.expect("Ended", job, others=["Ready"])
    if "nodes" in event:  # the start was lost, so the job is ready once more
        finishes(al, job)
    assert len(al.times(job)) == 1


def test_slurmctld_is_killed_at_yield(al):
    job = held(al)
    al.save(job)
    al.order("give_back", job, 0)
    al.slurm.kill_controller()
    al.slurm.start_controller()
    al.expect("Ready", job)
    finishes(al, job)


def test_slurmctld_is_killed_while_a_job_waits(al):
    job = held(al)
    al.order("give_back", job, 3600)
    al.expect("GaveBack", job)
    until(lambda: "BeginTime" in al.show(job)["Reason"], "the job waits")
    al.save(job)
    al.slurm.kill_controller()
    al.slurm.start_controller()
    until(al.slurm.idle, "the nodes are back")
    al.order("try_now", job)
    assert al.expect("Tried", job)["ready"]
    finishes(al, job)


def test_controller_is_killed_while_a_job_holds(al):
    job = held(al)
    al.kill()
    assert al.show(job)["JobState"] == "CONFIGURING"
    al.start()
    al.expect("Ready", job)
    finishes(al, job)


def test_controller_is_killed_at_go(al):
    job = al.sbatch(script="date +%s.%N; sleep 3")
    al.expect("Ready", job)
    al.order("go", job)
    al.kill()
    al.start()
    event = al.expect("Started", job, others=["Ready"])
    if "nodes" in event:  # the order was lost
        al.order("go", job)
    until(lambda: al.show(job)["JobState"] == "COMPLETED", "the job runs")
    assert len(al.times(job)) == 1


def test_controller_is_killed_at_yield(al):
    job = held(al)
    al.order("give_back", job, 3600)
    al.kill()
    al.start()
    al.order("try_now", job)
    assert al.expect("Tried", job)["ready"]
    finishes(al, job)


def test_gate_is_killed(al):
    job = held(al)
    for line in subprocess.run(
        ["pgrep", "-f", f"gate.py --socket {al.socket}"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split():
        os.kill(int(line), signal.SIGKILL)
    al.expect("NotReady", job)
    al.slurm.run("scancel", str(job))


# -- the controller stays away -------------------------------------------------------------


@pytest.mark.long
def test_job_starts_when_the_controller_stays_away(alone):
    al = alone(controller_lost_after_s=1.0, then="start")
    job = held(al)
    al.kill()
    until(lambda: al.show(job)["JobState"] == "COMPLETED", "the job runs")
    al.start()


@pytest.mark.long
def test_job_yields_when_the_controller_stays_away(alone):
    al = alone(controller_lost_after_s=1.0, then="yield")
    job = held(al)
    al.kill()
    until(lambda: int(al.show(job)["Restarts"]) >= 1, "the job yields")
    al.start()
    al.expect("Ready", job)
    finishes(al, job)


@pytest.mark.long
def test_lease_ends_a_hold(alone):
    al = alone(longest_hold_s=2.0)
    job = held(al)
    al.expect("NotReady", job, reason="its prolog has ended")
    al.expect("Ready", job)
    finishes(al, job)


def interactive(al):
    """Starts srun with a mate."""
    words = ["srun", "--time=5", f"--comment=cosched:mate={GROUP}@be", "echo", "ran"]
    return subprocess.Popen(
        al.slurm.argv(*words, user=USER),
        env=al.slurm.environ,
        cwd="/tmp",
        stdout=subprocess.PIPE,
        text=True,
    )


@pytest.mark.long
def test_interactive_job_starts_before_its_lease_ends(alone):
    """Slurm ends such a job if it is put back."""
    al = alone(cannot_yield="hold", longest_hold_s=5.0)
    srun = interactive(al)
    job = al.expect("Submitted")["job"]["number"]
    al.expect("Ready", job)
    al.expect("Started", job)
    assert srun.communicate(timeout=30)[0] == "ran\n"


@pytest.mark.long
def test_interactive_job_only_holds_where_the_site_wants_that(alone):
    al = alone(cannot_yield="hold")
    srun = interactive(al)
    job = al.expect("Submitted")["job"]
    assert not job["may_yield"]
    al.expect("Ready", job["number"])
    al.order("give_back", job["number"], 0.2)
    al.expect("GaveBack", job["number"])
    al.expect("Ready", job["number"])  # it has kept its nodes
    al.order("go", job["number"])
    assert srun.communicate(timeout=30)[0] == "ran\n"


@pytest.mark.long
def test_finite_prolog_timeout_ends_holds_and_is_reported(alone):
    al = alone("PrologEpilogTimeout=2")
    job = held(al)
    al.expect("NotReady", job)
    log = (al.slurm.cluster.folder / "engine.log").read_text()
    assert "slurm.conf: PrologEpilogTimeout=2 ends holds; leave it unset" in log


@pytest.mark.long
def test_job_submit_plugin_refuses_at_submission(alone):
    al = alone("JobSubmitPlugins=lua", beside={"job_submit.lua": LUA.read_text()})
    for words, line in (
        (["sbatch", "--wrap=true", "--comment=cosched:mate=g"], "'mate=g' is none of"),
        (["sbatch", "--wrap=true", "--comment=cosched:within=5s"], "name at least one"),
        (["sbatch", "--wrap=true", "--array=1-2", MATE], "a task of a job array cannot"),
        (["srun", MATE, "true"], "must be able to wait again: use sbatch"),
        (["sbatch", "--wrap=true", "--no-requeue", MATE], "must be able to wait again"),
    ):
        done = al.slurm.try_run(*words, user=USER)
        assert done.returncode != 0
        assert re.search(f"^{words[0]}: (error: )?cosched: .*{line}", done.stderr, re.M)
    job = held(al)
    finishes(al, job)
    al.sbatch(mate=False)


@pytest.mark.long
def test_job_submit_plugin_lets_interactive_jobs_hold_where_the_site_wants_that(alone):
    plugin = LUA.read_text().replace('CANNOT_YIELD = "refuse"', 'CANNOT_YIELD = "hold"')
    al = alone(
        "JobSubmitPlugins=lua", beside={"job_submit.lua": plugin}, cannot_yield="hold"
    )
    srun = interactive(al)
    job = al.expect("Ready")["number"]
    al.order("go", job)
    assert srun.communicate(timeout=30)[0] == "ran\n"


# -- two clusters --------------------------------------------------------------------------


def test_deadlock_of_two_holds_ends_when_one_side_releases(both):
    """Each cluster is full of a job that waits for a job that waits for the other."""
    al, be = both
    a1, b2 = held(al, "--nodes=2"), held(be, "--nodes=2")
    a2, b1 = al.sbatch("--nodes=2"), be.sbatch("--nodes=2")
    al.expect("Submitted", a2)
    be.expect("Submitted", b1)
    al.order("give_back", a1, 60)
    al.expect("GaveBack", a1)
    al.order("try_now", a2)
    assert al.expect("Tried", a2)["ready"]
    al.order("go", a2)
    be.order("go", b2)
    al.expect("Ended", a2)
    be.expect("Ended", b2)
    be.expect("Ready", b1)
    al.order("try_now", a1)
    assert al.expect("Tried", a1)["ready"]
    al.order("go", a1)
    be.order("go", b1)
    al.expect("Ended", a1)
    be.expect("Ended", b1)


def test_released_job_does_not_take_its_nodes_again(both):
    """The other deadlock: a job that has released its nodes holds them again at once, so
    that the next job never gets them. Its wait prevents that."""
    al, _ = both
    first = held(al, "--nodes=2")
    second = al.sbatch("--nodes=2")
    al.expect("Submitted", second)
    al.order("give_back", first, 30)
    al.expect("GaveBack", first)
    seen = len(al.past)
    al.expect("Ready", second)
    assert [name for name, event in al.past[seen:] if event.get("number") == first] == []
    finishes(al, second)
    al.order("wake", first)
    al.expect("Ready", first)
    finishes(al, first)


@pytest.mark.long
def test_many_holds_leave_slurm_quick(alone):
    al = alone("MaxJobCount=100", nodes=32)
    jobs = [al.sbatch() for _ in range(32)]
    for _ in jobs:
        al.expect("Ready")
    begun = time.monotonic()
    al.slurm.run("squeue")
    assert time.monotonic() - begun < 1.0
    for job in jobs:
        al.order("go", job)
    for _ in jobs:
        al.expect("Ended")
