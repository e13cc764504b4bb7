"""A live domain that gives jobs aligned blocks of nodes."""

import pytest

from cosched.config.queue import QueueSettings
from cosched.core.units import NS_PER_S
from tests.domain.rig import PATIENT
from tests.domain.user import User

STAY = ("sleep", "100")


@pytest.fixture
def user(make_rig):
    queue = QueueSettings(block=1, grace_ns=NS_PER_S)
    rig = make_rig(4, slots=1, queue=queue, life=PATIENT)
    rig.start()
    rig.until_up()
    return User(rig)


def test_a_job_waits_for_a_block_though_enough_nodes_are_free(user):
    rig = user.rig
    singles = [user.submit("-N", "1", *STAY) for _ in range(4)]
    by_node = {user.hosts_of(number)[0]: number for number in singles}
    assert sorted(by_node) == ["n1", "n2", "n3", "n4"]
    assert user.run("cancel", str(by_node["n2"]), str(by_node["n3"]))[0] == 0
    for node in ("n2", "n3"):
        rig.wait(by_node[node])
    pair = user.submit("-N", "2", *STAY)
    text = "2 nodes free, needs 2, in an aligned block of 2"
    assert text in user.run("why", str(pair))[1]
    assert rig.state(pair) == "queued"
    assert user.run("cancel", str(by_node["n4"]))[0] == 0
    assert user.hosts_of(pair) == ["n3", "n4"]


def test_jobs_keep_their_blocks_when_the_controller_restarts(user):
    rig = user.rig
    three = user.submit("-N", "3", *STAY)
    assert user.hosts_of(three) == ["n1", "n2", "n3"]
    rig.kill("controller")
    rig.start("controller")
    rig.until_up()
    one = user.submit("-N", "1", *STAY)
    assert rig.state(one) == "queued"
    assert user.run("cancel", str(three))[0] == 0
    assert len(user.hosts_of(one)) == 1


def test_nodes_cannot_be_added(user):
    status, _, err = user.run("cluster", "remove", "n4")
    assert status != 0
    assert "a domain with blocks keeps its nodes" in err
