"""The output of squeue --json in the form of Slurm 22.05 and of later versions."""

from __future__ import annotations

import json

import pytest

from cosched.cluster.engines.slurm.advice import advise
from cosched.cluster.engines.slurm.jobs import Stage, count_nodes, read_jobs
from cosched.config.slurm import SlurmSettings
from cosched.core.config.tables import read
from cosched.core.errors import CoschedError


def job(**fields):
    (found,) = read_jobs(json.dumps({"jobs": [{"job_id": 7, **fields}]}).encode())
    return found


def test_fields_of_22_05():
    found = job(
        user_id=1000,
        job_state="PENDING",
        comment="cosched:mate=g@b",
        priority=4294901759,
        time_limit=5,
        node_count=2,
        submit_time=1795565117,
        nice=None,
    )
    assert (found.stage, found.held, found.nodes) == (Stage.WAITS, False, 2)
    assert (found.limit_ns, found.submitted_ns) == (300 * 10**9, 1795565117 * 10**9)


def test_fields_of_later_versions():
    found = job(
        job_state=["RUNNING", "CONFIGURING"],
        priority={"set": True, "infinite": False, "number": 0},
        time_limit={"set": True, "infinite": True, "number": 0},
        node_count={"set": True, "infinite": False, "number": 3},
        array_job_id={"set": True, "infinite": False, "number": 0},
    )
    assert (found.stage, found.limit_ns, found.nodes) == (Stage.GETS_READY, None, 3)
    assert not found.held


@pytest.mark.parametrize(
    ("state", "stage"),
    [
        ("PENDING", Stage.WAITS),
        ("CONFIGURING", Stage.GETS_READY),
        ("RUNNING", Stage.RUNS),
        ("COMPLETING", Stage.RUNS),
        (["CANCELLED", "COMPLETING"], Stage.RUNS),
        ("SUSPENDED", Stage.RUNS),
        ("CANCELLED", Stage.OVER),
        ("NODE_FAIL", Stage.OVER),
        ("A_STATE_OF_THE_FUTURE", Stage.WAITS),
    ],
)
def test_stages(state, stage):
    assert job(job_state=state).stage is stage


def test_held_job_has_priority_0():
    assert job(job_state="PENDING", priority=0).held


def test_bytes_that_are_no_text_are_replaced():
    text = b'{"jobs": [{"job_id": 7, "comment": "caf\xe9"}]}'
    (found,) = read_jobs(text)
    assert found.comment == "caf\ufffd"


TEXTS = (
    *("user_name", "state_reason", "comment", "partition", "account", "qos", "features"),
    *("required_nodes", "excluded_nodes", "resv_name", "licenses", "tres_per_node"),
)


@pytest.mark.parametrize("name", TEXTS)
def test_any_text_may_be_missing(name):
    assert job(**{name: None}).job_id == 7


def test_answer_with_an_error_is_not_an_empty_queue():
    problem = {"description": "unable to load", "error": "Unable to contact slurm"}
    text = json.dumps({"errors": [problem], "jobs": []}).encode()
    with pytest.raises(CoschedError, match="unable to load"):
        read_jobs(text)


@pytest.mark.parametrize("text", [b"", b"{}", b'{"jobs": [{"job_id": "7"}]}', b"[]"])
def test_other_answers_are_one_line(text):
    with pytest.raises(CoschedError, match="not the jobs of Slurm: "):
        read_jobs(text)


GOOD = {
    "PrologSlurmctld": "/etc/slurm/gate",
    "PrologEpilogTimeout": "65534",
    "AuthInfo": "cred_expire=5",
    "SchedulerParameters": "bf_interval=1,batch_sched_delay=0",
    "JobRequeue": "1",
}


@pytest.mark.parametrize(
    ("key", "value", "about"),
    [
        ("PrologSlurmctld", "(null)", "PrologSlurmctld is not set"),
        ("PrologEpilogTimeout", "60", "PrologEpilogTimeout=60 ends holds"),
        ("AuthInfo", "(null)", "add cred_expire=10"),
        ("SchedulerParameters", "(null)", "add batch_sched_delay=0"),
        ("JobRequeue", "0", "JobRequeue=0"),
    ],
)
def test_each_hindrance_is_one_line(key, value, about):
    assert advise(GOOD) == []
    (line,) = advise({**GOOD, key: value})
    assert about in line


def test_settings_have_limits():
    for wrong in ({"poll": "0s"}, {"then": "stop"}, {"longest_hold": "40d"}):
        with pytest.raises(CoschedError):
            read(SlurmSettings, wrong)


@pytest.mark.parametrize(
    ("nodes", "count"),
    [
        ("", 0),
        ("n1", 1),
        ("n1,m1", 2),
        ("n[1-4]", 4),
        ("n[1-2,5,008-011],m", 8),
        ("r[0-1]n[1-3]", 6),
        ("n[1-2]-ib", 2),
    ],
)
def test_nodes_of_a_list_are_counted(nodes, count):
    assert count_nodes(nodes) == count


@pytest.mark.parametrize("nodes", ["n[1-", "n[a-b]", "n[5-1]", "n[]"])
def test_list_of_another_form_has_no_count(nodes):
    assert count_nodes(nodes) == 0
