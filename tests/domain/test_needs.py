"""Jobs of a live domain that need features, licences and memory of their nodes."""

import json

import pytest

from cosched.config.queue import QueueSettings
from cosched.config.resources import ResourceSettings
from cosched.core.units import NS_PER_S
from cosched.linux.memory import machine_memory
from tests.domain.rig import PATIENT
from tests.domain.user import User

RESOURCES = ResourceSettings(
    features={"bigmem": "n2"}, counts={"gpu": {"n[1-2]": 1}}, licences={"matlab": 1}
)
STAY = ("sleep", "100")


@pytest.fixture
def user(make_rig):
    queue = QueueSettings(unit="cpu", grace_ns=NS_PER_S)
    rig = make_rig(2, slots=4, queue=queue, resources=RESOURCES, life=PATIENT)
    rig.start()
    rig.until_up()
    return User(rig)


def test_a_job_runs_where_its_needs_are_met(user):
    big = user.submit("--constraint", "bigmem", *STAY)
    assert user.hosts_of(big) == ["n2"]
    first = user.submit("--need", "gpu:1", "--constraint", "bigmem", *STAY)
    other = user.submit("--need", "gpu", *STAY)
    assert user.hosts_of(first) == ["n2"]
    assert user.hosts_of(other) == ["n1"]


def test_a_licence_is_counted_also_after_a_restart_of_the_controller(user):
    rig = user.rig
    first = user.submit("--need", "matlab:1", *STAY)
    rig.until_state(first, "running")
    rig.kill("controller")
    rig.start("controller")
    rig.until_up()
    second = user.submit("--need", "matlab", *STAY)
    assert "matlab: 0 of 1 free, needs 1" in user.run("why", str(second))[1]
    assert "needs matlab:1, 0 free" in user.run("queue")[1]
    assert rig.state(second) == "queued"
    assert user.run("cancel", str(first))[0] == 0
    rig.until_state(second, "running")


def test_jobs_together_need_no_more_memory_than_a_node_has(user):
    two_thirds = machine_memory().total_bytes * 2 // 3 >> 20
    jobs = [user.submit("--memory", f"{two_thirds}M", *STAY) for _ in range(3)]
    assert sorted(user.hosts_of(job)[0] for job in jobs[:2]) == ["n1", "n2"]
    assert user.rig.state(jobs[2]) == "queued"


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--constraint", "fast"), "the domain has no feature 'fast'; it has bigmem"),
        (("--need", "matlab:2"), "needs matlab:2, the domain has 1"),
        (
            ("--constraint", "bigmem", "-N", "2"),
            "needs 2 nodes with bigmem, the domain has 1",
        ),
    ],
)
def test_a_job_that_can_never_run_is_refused_in_one_line(user, options, says):
    status, out, err = user.run("submit", *options, "true")
    assert (status != 0, out) == (True, "")
    assert err == f"cosched: infeasible: {says}\n"
    assert json.loads(user.run("queue", "--json")[1])["jobs"] == []


def test_a_removed_node_leaves_the_lists_of_resources(user):
    assert user.run("cluster", "remove", "n2", "--wait")[0] == 0
    text = user.rig.paths.config.read_text()
    assert "n2" not in text
    user.rig.kill("controller")
    user.rig.start("controller")
    user.rig.until_up("n1")
    assert user.hosts_of(user.submit("--need", "gpu", *STAY)) == ["n1"]
    error = user.run("submit", "--constraint", "bigmem", "true")[2]
    assert "the domain has no feature 'bigmem'; it has none" in error
