"""Runs jobs that want their nodes alone, on nodes that take two jobs."""

import pytest

from cosched.config.queue import QueueSettings
from cosched.core.units import NS_PER_S
from tests.domain.user import User

pytestmark = pytest.mark.mpi_job


@pytest.fixture(scope="module")
def user(tmp_path_factory):
    from tests.domain.rig import Rig

    settings = QueueSettings(jobs_per_node=2, grace_ns=NS_PER_S)
    rig = Rig(tmp_path_factory.mktemp("two"), 1, queue=settings, forks=True)
    rig.start()
    rig.until_up()
    yield User(rig)
    rig.close()


def cancel(user, *numbers):
    user.run("cancel", *map(str, numbers))
    return [user.rig.wait(number) for number in numbers]


def test_exclusive_job_waits_for_a_node_without_jobs(user):
    first = user.submit("--share", "sleep", "100")
    second = user.submit("--time", "2h", "sleep", "100")
    user.rig.until_state(second, "running")
    alone = user.submit("--exclusive", "--time", "50", "sleep", "100")
    cancel(user, first)
    why = user.run("why", str(alone))[1]
    assert "waits: 0 nodes free, needs 1; expected " in why
    later = user.submit("true")
    cancel(user, second)
    user.rig.until_state(alone, "running")
    assert user.rig.state(later) == "queued"
    with user.rig.client() as client:
        assert client.nodes()[0]["jobs"] == [alone]
    cancel(user, alone)
    assert user.rig.wait(later)["state"] == "done"


def test_restarted_controller_keeps_the_nodes_of_an_exclusive_job(user):
    alone = user.submit("--exclusive", "sleep", "100")
    user.rig.until_state(alone, "running")
    user.rig.kill("controller")
    user.rig.start("controller")
    user.rig.until_up()
    later = user.submit("true")
    assert user.rig.state(later) == "queued"
    assert cancel(user, alone)[0]["state"] == "cancelled"
    assert user.rig.wait(later)["state"] == "done"
