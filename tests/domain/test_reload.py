"""Lets a controller read domain.toml again."""

import signal
from dataclasses import replace

import pytest

from tests.domain.user import User

pytestmark = pytest.mark.mpi_job


@pytest.fixture
def user(make_rig):
    rig = make_rig(1)
    rig.start()
    rig.until_up()
    return User(rig)


def write(rig, config=None, **queue):
    config = config or rig.config
    rig.write_config(replace(config, queue=replace(config.queue, **queue)))


def test_reload_is_for_jobs_that_are_submitted_later(user):
    running = user.submit("sleep", "100")
    user.rig.until_state(running, "running")
    waiting = user.submit("true")
    config = replace(user.rig.config, slots=3)
    write(user.rig, config, policy="fcfs", default_time_ns=60 * 10**9)
    line = (
        "changed: queue.policy, queue.default_time; needs a restart of the controller and "
        "all agents: slots\n"
    )
    assert user.run("cluster", "reload") == (0, line, "")
    with user.rig.client() as client:
        later = user.submit("true")
        assert client.job(later)["time_ns"] == 60 * 10**9
        assert client.job(waiting)["time_ns"] is client.job(running)["time_ns"] is None
        assert client.job(running)["state"] == "running"
    user.run("cancel", str(running))
    assert user.rig.wait(waiting)["state"] == "done"


def test_more_and_fewer_jobs_share_a_node(user):
    first, second = (user.submit("sleep", "100") for _ in range(2))
    user.rig.until_state(first, "running")
    assert user.rig.state(second) == "queued"
    write(user.rig, jobs_per_node=2)
    assert user.run("cluster", "reload")[1] == "changed: queue.jobs_per_node\n"
    user.rig.until_state(second, "running")
    write(user.rig, jobs_per_node=1)
    assert user.run("cluster", "reload")[1] == "changed: queue.jobs_per_node\n"
    third = user.submit("true")
    user.run("cancel", str(second))
    user.rig.wait(second)
    assert [user.rig.state(job) for job in (first, third)] == ["running", "queued"]
    user.run("cancel", str(first))
    assert user.rig.wait(third)["state"] == "done"


def test_file_with_a_mistake_changes_nothing(user):
    text = user.rig.paths.config.read_text()
    wrong = text.replace('"easy"', '"fcfs"').replace("[life]\n", "[life]\nbeet = 1\n")
    user.rig.paths.config.write_text(wrong)
    status, out, err = user.run("cluster", "reload")
    assert (status, out) == (1, "")
    line = wrong.splitlines().index("beet = 1") + 1
    mistake = f"cosched: {user.rig.paths.config}:{line}: life.beet: no such key"
    assert err.startswith(mistake)
    assert len(err.splitlines()) == 1
    user.rig.paths.config.write_text(text)
    assert user.run("cluster", "reload")[1] == "nothing has changed\n"


def test_sighup_does_the_same(user):
    write(user.rig, policy="wfp")
    user.rig.members["controller"].send_signal(signal.SIGHUP)
    line = "changed: queue.policy"
    user.rig.until(lambda: line in user.rig.log("controller"), "has not read it")
    assert user.rig.wait(user.submit("true"))["state"] == "done"


def test_new_keys_need_a_restart(user):
    other = user.rig.paths.keys / "n1.public"
    other.write_text(user.rig.paths.keys.joinpath("controller.public").read_text())
    line = "needs a restart of the controller and the agent of n1: keys\n"
    assert user.run("cluster", "reload")[1] == line
