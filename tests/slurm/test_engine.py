"""The Slurm engine reports the events of real jobs, and carries out orders."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

import pytest

from tests.slurm.conftest import GROUP, QUICK, USER, until

pytestmark = pytest.mark.live


def test_job_without_mate_starts_without_the_controller(al):
    job = al.sbatch(mate=False)
    until(lambda: al.show(job)["JobState"] == "COMPLETED", "the job runs")
    assert not [event for _, event in al.past if event.get("number") == job]


def test_ready_job_waits_for_go(al):
    job = al.sbatch("--nodes=2", "--time=3")
    submitted = al.expect("Submitted", job)["job"]
    assert submitted == {
        "number": job,
        "uid": 65534,
        "user": "nobody",
        "mates": {
            "group": GROUP,
            "domains": ["be"],
            "within_ns": 0,
            "after": None,
            "delay_ns": 0,
            "token": "",
        },
        "nodes": 2,
        "limit_ns": 180 * 10**9,
        "submitted_ns": submitted["submitted_ns"],
        "may_yield": True,
    }
    assert abs(submitted["submitted_ns"] / 1e9 - time.time()) < 30
    assert al.expect("Ready", job)["nodes"] == "al[1-2]"
    assert al.show(job)["JobState"] == "CONFIGURING"
    al.order("go", job)
    started = al.expect("Started", job)
    assert abs(started["at_ns"] / 1e9 - time.time()) < 10
    assert al.expect("Ended", job)["outcome"] == "COMPLETED"
    assert len(al.times(job)) == 1


def test_jobs_of_two_clusters_run_together(both):
    """Each ends only if the other one runs meanwhile."""
    al, be = both
    here = {each: each.out("here") for each in both}
    meet = "touch {}; until [ -e {} ]; do sleep 0.1; done".format
    scripts = {al: meet(here[al], here[be]), be: meet(here[be], here[al])}
    jobs = [(each, each.sbatch("--nodes=2", script=scripts[each])) for each in both]
    for each, job in jobs:
        each.expect("Ready", job)
    for each, job in jobs:
        each.order("go", job)
    for each, job in jobs:
        each.expect("Ended", job, outcome="COMPLETED")


#: Slurm holds a job that it has requeued more than five times.
MANY_TIMES = 6


def test_job_yields_as_often_as_it_must(al):
    job = al.sbatch()
    for _ in range(MANY_TIMES):
        al.expect("Ready", job)
        al.order("give_back", job, 0)
        al.expect("GaveBack", job)
    al.expect("Ready", job)
    assert al.show(job)["Restarts"] == str(MANY_TIMES)
    al.order("go", job)
    al.expect("Ended", job, outcome="COMPLETED")
    assert len(al.times(job)) == 1


class Stay:
    """The script of a job that runs until it may end."""

    def __init__(self, al, name):
        self._file = Path(al.out(f"end of {name}"))
        self.script = f"until [ -e '{self._file}' ]; do sleep 0.1; done"

    def end(self):
        self._file.touch()


def test_other_job_gets_the_nodes_of_one_that_yields(al):
    within = f"--comment=cosched:mate={GROUP}@be,within=60s"
    job = al.sbatch("--nodes=2", within, mate=False)
    al.expect("Ready", job)
    stay = Stay(al, "one that yields")
    other = al.sbatch("--nodes=2", mate=False, script=stay.script)
    al.order("give_back", job, 3600)
    al.expect("GaveBack", job)
    until(lambda: al.show(other)["JobState"] == "RUNNING", "the other job starts")
    al.order("try_now", job)
    tried = al.expect("Tried", job)
    assert not tried["ready"]
    assert 30 < tried["expected_s"] <= 900  # jobs that wait count, too
    stay.end()
    until(lambda: al.show(other)["JobState"] == "COMPLETED", "the other job ends")
    al.order("try_now", job)
    assert al.expect("Tried", job)["ready"]
    al.order("try_now", job)
    assert al.expect("Tried", job)["ready"]  # it is still ready
    al.order("go", job)
    al.expect("Ended", job, outcome="COMPLETED")


def test_job_is_refused_at_once_if_too_few_nodes_are_free(al):
    stay = Stay(al, "one that is refused")
    other = al.sbatch(mate=False, script=stay.script)
    until(lambda: al.show(other)["JobState"] == "RUNNING", "the other job starts")
    job = al.sbatch("--nodes=2")
    al.expect("Submitted", job)
    asked = time.monotonic()
    al.order("try_now", job)
    assert not al.expect("Tried", job)["ready"]
    assert time.monotonic() - asked < QUICK["try_s"] / 2
    stay.end()
    al.expect("Ready", job)  # when the other job has ended
    al.order("go", job)
    al.expect("Ended", job, outcome="COMPLETED")


def test_orders_for_other_jobs_have_no_effect(al):
    for order in (("go",), ("give_back", 0), ("try_now",), ("cancel", "why")):
        al.order(order[0], 9_999_999, *order[1:])
    tried = al.expect("Tried", 9_999_999)
    assert (tried["ready"], tried["reason"]) == (
        False,
        "Slurm has no such job with mates",
    )


def test_cancelled_job_shows_the_reason(al):
    job = al.sbatch()
    al.expect("Ready", job)
    al.order("cancel", job, "its group is disputed: eureka has other members")
    al.expect("Cancelled", job)
    assert "AdminComment=cosched: its group is disputed" in al.slurm.run(
        "scontrol", "show", "job", str(job)
    )


def test_priority_moves_a_queued_job(al):
    hold = al.sbatch("--nodes=2")
    al.expect("Ready", hold)
    jobs = [al.sbatch("--nodes=2") for _ in range(2)]
    for job in jobs:
        al.expect("Submitted", job)
    al.order("set_priority", jobs[1], 5)
    until(lambda: al.show(jobs[1])["Nice"] == "-5", "the nice value is set")
    first, second = (int(al.show(job)["Priority"]) for job in jobs)
    assert second > first


# -- bad input -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("comment", "reason"),
    [
        ("cosched:mate=g1@nowhere", "domain 'nowhere' is not coupled"),
        ("cosched:", "none of mate=GROUP@DOMAIN"),
        ("cosched:mate=g1@al", "al is this domain"),
    ],
)
def test_comment_that_does_not_parse_is_held_with_a_reason(al, comment, reason):
    job = al.sbatch(f"--comment={comment}", mate=False)
    refused = al.expect("Refused", job)
    assert refused["uid"] == 65534
    assert reason in refused["reason"]
    until(lambda: al.show(job)["Priority"] == "0", "the job is held")
    wanted = ("AdminComment=cosched: mates: ", reason, "JobState=PENDING")

    def waits_with_a_reason():
        shown = al.slurm.run("scontrol", "show", "job", str(job))
        return shown if all(text in shown for text in wanted) else None

    until(waits_with_a_reason, "the job waits, and shows the reason")
    # The user can correct it and release the job.
    good = f"comment=cosched:mate={GROUP}@be"
    al.slurm.run("scontrol", "update", f"jobid={job}", good, user=USER)
    al.slurm.run("scontrol", "release", str(job), user=USER)
    al.expect("Ready", job)


def test_arrays_are_refused(al):
    job = al.sbatch("--array=1-2")
    refused = al.expect("Refused")
    assert refused["number"] >= job
    assert refused["reason"] == "a task of a job array cannot have mates"


@pytest.mark.parametrize("command", ["srun", "salloc"])
def test_interactive_jobs_get_one_line(al, command):
    words = [command, "--time=1", f"--comment=cosched:mate={GROUP}@be", "echo", "ran"]
    done = subprocess.run(
        al.slurm.argv(*words, user=USER),
        env=al.slurm.environ,
        cwd="/tmp",
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert done.returncode != 0
    assert done.stdout == ""
    reason = "a job with mates must be able to wait again: use sbatch, with --requeue"
    assert f"{command}: cosched: {reason}" in done.stderr.splitlines()
    while al.expect("Refused")["reason"] != reason:
        pass  # a job of an earlier test


def test_batch_job_that_must_not_be_requeued_is_refused(al):
    job = al.sbatch("--no-requeue")
    al.expect("Refused", job)
