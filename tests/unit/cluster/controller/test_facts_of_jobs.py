"""The controller reports facts of jobs, and refuses jobs and settings that cannot be."""

import asyncio

import pytest

from cosched.cluster.engines.native.node_entries import NodeState
from cosched.cluster.engines.native.queueing import Queueing, Walltime
from cosched.cluster.messages import SubtreePrepared
from cosched.cluster.record import State
from cosched.config.domain import DomainConfig, LifeSettings, parse_config, write_config
from cosched.config.queue import QueueSettings
from cosched.core.errors import CoschedError
from cosched.core.units import parse_duration
from cosched.documents import read_toml
from tests.unit.cluster.controller.controller_alone import Controller, passes

NODES = {"n0": "127.0.0.1:2"}


def test_nodes_of_a_job_are_those_that_it_has_when_slots_change(store):
    async def scenario():
        controller = Controller(store, nodes=("n0", "n1"))
        for name in ("n0", "n1"):
            controller.join(name, slots=2)
        controller.recovery.resolve()
        number = controller.submit(ranks=4)
        await passes()
        controller.take(controller.jobs.starts.active[number].root, SubtreePrepared(1, 1))
        for name in ("n0", "n1"):
            controller.members.by_name[name].state = NodeState.LOST
            controller.join(name, slots=4)
        found = (await controller.ask(do="job", job=number))["ok"]
        assert (found["state"], found["nodes"], found["tasks"]) == ("running", 2, 4)
        waits = controller.submit(ranks=4)
        found = (await controller.ask(do="job", job=waits))["ok"]
        assert (found["state"], found["nodes"], found["tasks"]) == ("queued", 1, 4)

    asyncio.run(scenario())


def test_default_time_of_nothing_is_refused():
    text = {"controller": "127.0.0.1:1", "nodes": NODES, "queue": {"default_time": "0s"}}
    with pytest.raises(CoschedError, match=r"default_time: '0s' is too short; write more"):
        parse_config(text)


@pytest.fixture
def no_walltime(monkeypatch):
    """The queue gets jobs that it refuses."""
    none = Walltime(0, limited=False, known=False)
    monkeypatch.setattr(Queueing, "_walltime", lambda queueing, record: none)


@pytest.mark.usefixtures("no_walltime")
def test_stored_job_that_the_queue_refuses_ends_and_the_controller_starts(store):
    async def scenario():
        Controller(store).submit_unchecked()
        again = Controller(store)
        again.recovery.resolve()
        stored = store.find(1)
        assert (stored.state, stored.reason) == (State.CANCELLED, "job 1 has no walltime")

    asyncio.run(scenario())


@pytest.mark.usefixtures("no_walltime")
def test_submission_that_the_queue_refuses_is_not_left_in_the_store(store):
    async def scenario():
        controller = Controller(store)
        controller.join("n0")
        with pytest.raises(CoschedError, match="job 1 has no walltime"):
            controller.submit(ranks=1)
        assert store.find(1).state is State.CANCELLED
        assert not store.live()

    asyncio.run(scenario())


@pytest.mark.parametrize("default_time", ["500ms", "1500ms", "1h", "7us"])
def test_written_configuration_is_read_as_it_was(tmp_path, default_time):
    config = DomainConfig(
        'a "quoted" \\ name',
        "127.0.0.1:1",
        NODES,
        queue=QueueSettings(default_time_ns=parse_duration(default_time, "")),
        life=LifeSettings(beat_ns=10**9 + 1),
    )
    path = tmp_path / "domain.toml"
    path.write_text(write_config(config))
    assert parse_config(read_toml(path)) == config


def test_why_names_later_jobs_that_run(store):
    async def scenario():
        controller = Controller(store, nodes=("n0", "n1"))
        for name in ("n0", "n1"):
            controller.join(name)
        controller.recovery.resolve()
        controller.submit(nodes=1, time_ns=10**12)
        await passes()
        waits = controller.submit(nodes=2)
        controller.submit(nodes=1, time_ns=10**9)
        await passes()
        found = (await controller.ask(do="job", job=waits))["ok"]
        assert "1 later job runs: it needs less" in found["why"]

    asyncio.run(scenario())


def test_queued_job_is_explained_before_a_node_has_joined_again(store):
    """Also ``submit --wait`` of root, which asks the controller without an agent."""

    async def scenario():
        before = Controller(store)
        before.join("n0")
        number = before.submit(nodes=3)
        again = Controller(store)
        found = (await again.ask(uid=0, do="job", job=number))["ok"]
        assert found["why"] == "waits: the controller has restarted and asks the nodes"
        assert found["reason"] == "the controller asks the nodes"
        again.recovery.resolve()
        found = (await again.ask(uid=0, do="job", job=number))["ok"]
        assert (found["state"], found["nodes"]) == ("queued", None)
        assert found["why"] == "waits: no node has joined the domain yet"
        assert found["reason"] == "no node has joined yet"

    asyncio.run(scenario())


def test_queued_job_that_fits_no_more_is_explained(store):
    async def scenario():
        controller = Controller(store)
        for name in ("n0", "n1"):
            controller.join(name, slots=4)
        controller.recovery.resolve()
        controller.members.by_name["n1"].state = NodeState.LOST
        controller.jobs.node_lost(controller.members.by_name["n1"])
        number = controller.submit(nodes=2, ppn=4)
        controller.members.by_name["n0"].slots = 2
        found = (await controller.ask(do="job", job=number))["ok"]
        assert found["nodes"] is None
        assert found["why"] == (
            "waits: infeasible: needs 4 tasks on a node, a node takes 2"
        )
        assert found["reason"] == "infeasible: needs 4 tasks on a node, a node takes 2"

    asyncio.run(scenario())


def test_reasons_are_short_and_those_of_why(store):
    async def scenario():
        controller = Controller(store)
        for name in ("n0", "n1"):
            controller.join(name)
        controller.recovery.resolve()
        running = controller.submit(nodes=2)
        await passes()
        controller.submit(nodes=1)
        controller.submit(nodes=3)
        controller.submit(held=True)
        controller.submit(after=f"{running}")
        found = {job["job"]: job for job in (await controller.ask(do="queue"))["ok"]}
        assert [found[number]["reason"] for number in range(1, 6)] == [
            "",
            "needs 1 node, 0 free",
            "needs 3 nodes, 2 in service",
            "until cosched unhold",
            "after 1",
        ]
        why = (await controller.ask(do="job", job=2))["ok"]["why"]
        assert why.startswith("waits: 0 nodes free, needs 1;")

    asyncio.run(scenario())


def test_job_without_a_node_in_service_is_explained(store):
    async def scenario():
        controller = Controller(store)
        controller.join("n0")
        controller.recovery.resolve()
        controller.members.by_name["n0"].state = NodeState.LOST
        controller.jobs.node_lost(controller.members.by_name["n0"])
        number = controller.submit()
        found = (await controller.ask(do="job", job=number))["ok"]
        assert found["reason"] == "needs 1 node, none in service"
        assert found["why"].endswith("; no node is in service: see cosched cluster status")

    asyncio.run(scenario())


def test_reasons_of_a_long_queue_are_found_once_for_all(store, monkeypatch):
    async def scenario():
        controller = Controller(store)
        controller.join("n0")
        controller.recovery.resolve()
        for _ in range(50):
            controller.submit()
        await passes()
        asked = []
        machine = type(controller.jobs.queue)
        get = machine.waiting.fget
        waiting = property(lambda queue: asked.append(1) or get(queue))
        monkeypatch.setattr(machine, "waiting", waiting)
        found = (await controller.ask(do="queue"))["ok"]
        assert found[-1]["reason"] == "48 before; needs 1 node"
        assert len(asked) < 10

    asyncio.run(scenario())
