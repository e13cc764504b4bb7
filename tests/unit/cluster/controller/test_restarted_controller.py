"""A controller that is started again takes the jobs of its store."""

import asyncio
import dataclasses

import pytest
from msgspec.structs import replace

from cosched.cluster.engines.native.node_entries import NodeEntries, NodeState
from cosched.cluster.messages import (
    ENDED,
    PROTOCOL,
    Hello,
    StartFailed,
    StartReport,
    SubtreeEnded,
    SubtreePrepared,
)
from cosched.cluster.record import State
from cosched.config.domain import DomainConfig
from cosched.core.cluster.startup.two_phase import Stage
from cosched.core.errors import CoschedError
from tests.unit.cluster.controller.controller_alone import (
    NODES,
    Controller,
    passes,
    run_jobs,
)


def test_job_that_ended_while_the_controller_and_a_node_were_away_ends(store):
    async def scenario():
        await run_jobs(Controller(store), {"nodes": 3})
        again = Controller(store)
        for name in NODES[:2]:
            report = StartReport(1, 1, ENDED, 0, root=name == "n0")
            again.join(name, reports=[report] if name == "n0" else [])
        again.recovery.resolve()
        assert again.jobs.records.live[1].state is State.RUNNING
        again.take("n0", SubtreeEnded(1, 1, None))
        assert store.find(1).state is State.DONE
        second = again.submit(nodes=2)
        await passes()
        assert again.starts() == [(second, 1, ((0, 1),))]

    asyncio.run(scenario())


@pytest.mark.parametrize(("after_ns", "took_ns"), [(7, 7), (-7, 0)])
def test_job_that_ended_while_the_controller_was_away_took_until_its_end(
    store, after_ns, took_ns
):
    async def scenario():
        await run_jobs(Controller(store), {"nodes": 1})
        began_ns = store.find(1).started_ns
        again = Controller(store)
        again.join("n0", reports=[StartReport(1, 1, ENDED, began_ns, root=True)])
        again.recovery.resolve()
        again.take("n0", SubtreeEnded(1, 1, None, began_ns + after_ns))
        assert store.find(1).ended_ns == began_ns + took_ns

    asyncio.run(scenario())


def test_job_that_the_queue_refuses_after_a_restart_fails_with_the_reason(store):
    """Otherwise the controller would end at each start."""

    def refuse(_job):
        raise CoschedError("such nodes are for jobs without mates")

    async def scenario():
        await run_jobs(Controller(store), {"nodes": 1})
        again = Controller(store)
        again.jobs.queue.place.check = refuse
        report = StartReport(1, 1, Stage.GONE.value, 5, root=True)
        again.join("n0", reports=[report])
        again.recovery.resolve()
        found = store.find(1)
        assert found.state is State.FAILED
        assert found.reason == (
            "the controller restarted with other settings: such nodes are for jobs "
            "without mates"
        )
        assert again.jobs.strays.on("n0")  # its tasks are ended

    asyncio.run(scenario())


def test_no_job_ends_later_than_now(store):
    """The clock of its root may be fast."""

    async def scenario():
        controller = Controller(store)
        await run_jobs(controller, {"nodes": 1})
        controller.take("n0", SubtreeEnded(1, 1, None, 1 << 62))
        assert store.find(1).ended_ns <= controller.jobs.clock.now_ns()

    asyncio.run(scenario())


def test_ended_job_is_over_when_its_last_node_is_lost(store):
    async def scenario():
        await run_jobs(Controller(store), {"nodes": 2})
        again = Controller(store)
        again.join("n0", reports=[StartReport(1, 1, ENDED, 0, root=True)])
        again.recovery.resolve()
        root = again.members.by_name["n0"]
        root.state = NodeState.LOST
        again.jobs.node_lost(root)
        assert store.find(1).state is State.NODE_LOST

    asyncio.run(scenario())


def test_job_that_waits_again_after_the_restart_has_not_begun(store):
    async def scenario():
        await run_jobs(Controller(store), {"nodes": 1, "requeue": True})
        assert store.find(1).started_ns is not None
        again = Controller(store)
        again.recovery.resolve()  # no node answers
        job = (await again.ask(do="job", job=1))["ok"]
        assert (job["state"], job["started_ns"], job["node_s"]) == ("queued", None, 0.0)
        assert store.find(1).started_ns is None

    asyncio.run(scenario())


def test_job_runs_on_if_its_node_is_drained_during_the_recovery(store):
    async def scenario():
        await run_jobs(Controller(store), {"nodes": 1})
        again = Controller(store)
        for name in NODES:
            report = StartReport(1, 1, Stage.GONE.value, 0, root=True)
            again.join(name, reports=[report] if name == "n0" else [])
        again.members.by_name["n0"].state = NodeState.DRAINED
        again.jobs.node_drained(again.members.by_name["n0"])
        again.recovery.resolve()
        second = again.submit(nodes=2)
        await passes()
        assert again.starts() == [(second, 1, ((1, 2),))]
        again.take("n0", SubtreeEnded(1, 1, None))
        assert store.find(1).state is State.DONE
        again.submit(nodes=1)
        await passes()
        assert len(again.starts()) == 1

    asyncio.run(scenario())


def test_jobs_that_share_nodes_run_on_where_fewer_may_after_the_restart(store):
    async def scenario():
        await run_jobs(Controller(store, rows=2), {"nodes": 3}, {"nodes": 3, "ppn": 1})
        again = Controller(store, rows=1)
        reports = [StartReport(n, 1, Stage.GONE.value, 0, root=True) for n in (1, 2)]
        for name in NODES:
            again.join(name, reports=reports if name == "n0" else [])
        again.recovery.resolve()
        third = again.submit(nodes=1)
        again.take("n0", SubtreeEnded(1, 1, None))
        await passes()
        assert again.starts() == []
        again.take("n0", SubtreeEnded(2, 1, None))
        await passes()
        assert again.starts() == [(third, 1, ((0, 0),))]

    asyncio.run(scenario())


# -- other nodes in domain.toml ------------------------------------------------------------

OTHER_NODES = [("n0", "n2"), ("n2", "n1", "n0"), ("n0", "new", "n1", "n2"), ("new",)]


@pytest.mark.parametrize("nodes", OTHER_NODES, ids=",".join)
def test_ended_job_keeps_the_names_of_its_nodes(store, nodes):
    async def scenario():
        controller = Controller(store)
        await run_jobs(controller, {"nodes": 1}, {"nodes": 2})
        controller.take("n0", SubtreeEnded(1, 1, None))
        controller.take("n1", SubtreeEnded(2, 1, None))
        again = Controller(store, nodes)
        found = (await again.ask(do="queue", ended=9))["ok"]
        assert [job["hosts"] for job in found] == [["n0"], ["n1", "n2"]]
        assert (await again.ask(do="job", job=2))["ok"]["hosts"] == ["n1", "n2"]

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("other", "fits"),
    [
        ({"nodes": {"n0": "n0:1", "n9": "n9:1"}}, True),
        ({"nodes": {"n0": "n0:2"}}, False),
        ({"nodes": {"n0": "n0:1"}, "controller": "c:2"}, False),
        ({"nodes": {"n0": "n0:1"}, "name": "other"}, False),
    ],
    ids=["other nodes", "own address", "controller", "name"],
)
def test_agent_must_have_its_own_address_and_that_of_the_controller(other, fits):
    own = DomainConfig("test", "c:1", {name: f"{name}:1" for name in NODES})
    members = NodeEntries(own)
    hello = Hello(PROTOCOL, 1, own.digest("n0"), {"slots": 1}, ())
    assert members.problem("n0", hello) is None
    digest = dataclasses.replace(own, **other).digest("n0")
    problem = members.problem("n0", replace(hello, config=digest))
    differs = "its domain.toml differs from the controller's"
    assert problem == (None if fits else differs)


@pytest.mark.parametrize("removed", ["n1", "n2"])
def test_running_job_of_a_removed_node_is_given_up(store, removed):
    async def scenario():
        await run_jobs(Controller(store), {"nodes": 3})
        again = Controller(store, [name for name in NODES if name != removed])
        assert again.recovery.awaited == set()
        again.recovery.resolve()
        found = (await again.ask(do="job", job=1))["ok"]
        assert found["state"] == "node lost"
        assert found["reason"] == f"node {removed} is not in domain.toml any more"
        assert found["hosts"] == ["n0", "n1", "n2"]
        assert [job["job"] for job in (await again.ask(do="queue", ended=9))["ok"]] == [1]

    asyncio.run(scenario())


def test_node_behind_a_removed_one_is_asked_for_its_job(store):
    async def scenario():
        await run_jobs(Controller(store), {"nodes": 1}, {"nodes": 1}, {"nodes": 1})
        again = Controller(store, ("n0", "n2"))
        assert again.recovery.awaited == {"n0", "n2"}
        for name in ("n0", "n2"):
            again.members.by_name[name].restarted = True
            again.join(name)
        again.recovery.resolve()
        assert [store.find(number).reason for number in (1, 2, 3)] == [
            "node n0 lost it while the controller was away",
            "node n1 is not in domain.toml any more",
            "node n2 lost it while the controller was away",
        ]

    asyncio.run(scenario())


@pytest.mark.parametrize("nodes", [("n0", "n2"), ("n2", "n1", "n0")], ids=",".join)
def test_job_that_runs_on_keeps_its_node_under_another_number(store, nodes):
    async def scenario():
        await run_jobs(Controller(store), {"nodes": 1}, {"nodes": 1}, {"nodes": 1})
        again = Controller(store, nodes)
        for name in nodes:
            report = StartReport(3, 1, Stage.GONE.value, 0, root=True)
            again.join(name, reports=[report] if name == "n2" else [])
        again.recovery.resolve()
        assert (await again.ask(do="job", job=3))["ok"]["why"].startswith("running on n2;")
        again.submit(nodes=len(nodes) - 1)
        await passes()
        assert "n2" not in again.jobs.starts.active[4].record.nodes
        again.take("n2", SubtreeEnded(3, 1, None))
        assert store.find(3).state is State.DONE

    asyncio.run(scenario())


def test_root_of_a_job_stays_the_root_if_nodes_change_places(store):
    async def scenario():
        await run_jobs(Controller(store), {"nodes": 3})
        again = Controller(store, NODES[::-1])
        for name in NODES:
            report = StartReport(1, 1, Stage.GONE.value, 0, root=name == "n0")
            again.join(name, reports=[report])
        again.recovery.resolve()
        assert again.jobs.starts.active[1].root == "n0"

    asyncio.run(scenario())


@pytest.mark.parametrize("requeue", [True, False])
def test_job_of_a_removed_node_waits_again_if_it_may(store, requeue):
    async def scenario():
        controller = Controller(store)
        if requeue:
            await run_jobs(controller, {"nodes": 1}, {"nodes": 2, "requeue": True})
        else:
            for name in NODES:
                controller.join(name)
            controller.recovery.resolve()
            for nodes in (1, 2):
                controller.submit(nodes=nodes)
            await passes()
            assert store.find(2).state is State.STARTING
        again = Controller(store, NODES[:2])
        for name in NODES[:2]:
            again.join(name)
        again.recovery.resolve()
        await passes()
        assert (2, 2, ((0, 1),)) in again.starts() or not requeue
        assert store.find(2).state in (State.STARTING, State.QUEUED)

    asyncio.run(scenario())


@pytest.mark.parametrize("job", [{}, {"array": "1-5"}])
def test_job_that_is_sent_again_while_nodes_are_asked_is_the_stored_one(store, job):
    """The answer may have been lost with the former controller."""

    async def scenario():
        first = Controller(store)
        for name in NODES:
            first.join(name)
        first.recovery.resolve()
        record = first._record(**job)
        number = first.submitting.submit(record).number
        await passes()
        running = first.jobs.starts.active
        for each in list(running.values()):
            first.take(each.root, SubtreePrepared(each.record.number, 1))
        again = Controller(store)
        assert again.submitting.submit(record).number == number
        for name in NODES:
            again.join(
                name,
                reports=[
                    StartReport(each.record.number, 1, Stage.GONE.value, 5, root=True)
                    for each in running.values()
                    if each.root == name
                ],
            )
        assert again.submitting.submit(record).number == number
        again.recovery.resolve()
        await passes()
        assert again.jobs.starts.active.keys() == running.keys()
        assert again.jobs.records.live.keys() == first.jobs.records.live.keys()
        assert not any(each.state.over for each in store.latest(9))

    asyncio.run(scenario())


# -- sizes of jobs -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("job", "slots", "nodes"),
    [
        ({"ranks": 4}, 4, ((0, 0),)),
        ({"ranks": 4}, 2, ((0, 1),)),
        ({"ranks": 4, "nodes": 2}, 4, ((0, 1),)),
        ({"ranks": 4, "ppn": 2}, 4, ((0, 1),)),
        ({"ranks": 4, "exclusive": True}, 2, ((0, 1),)),
    ],
)
def test_waiting_job_gets_its_size_once_a_node_has_joined(store, job, slots, nodes):
    async def scenario():
        first = Controller(store)
        first.join("n0", 4)
        first.submit(**job)
        again = Controller(store)
        for name in NODES:
            again.join(name, slots)
        again.recovery.resolve()
        await passes()
        assert again.starts() == [(1, 1, nodes)]

    asyncio.run(scenario())


def test_waiting_job_grows_when_a_node_with_fewer_slots_joins(store):
    async def scenario():
        controller = Controller(store)
        for name in NODES[:2]:
            controller.join(name, 2)
        controller.recovery.resolve()
        controller.submit(nodes=2)
        await passes()
        second = controller.submit(ranks=3)
        assert [job.size for job in controller.jobs.queue.waiting] == [2]
        controller.join("n2", 1)
        assert [job.size for job in controller.jobs.queue.waiting] == [3]
        controller.take("n0", SubtreeEnded(1, 1, None))
        await passes()
        assert controller.starts()[1:] == [(second, 1, ((0, 2),))]

    asyncio.run(scenario())


def test_job_whose_size_has_changed_at_its_start_keeps_its_attempts(store):
    async def scenario():
        controller = Controller(store)
        for name in NODES:
            controller.join(name, 2)
        controller.recovery.resolve()
        number = controller.submit(ranks=2)
        controller.members.by_name["n2"].slots = 1  # it joins drained
        await passes()
        assert controller.starts() == [(number, 1, ((0, 1),))]
        for start in (1, 2):
            controller.take("n0", StartFailed(number, start, 0, "no", True))
            controller.take("n0", SubtreeEnded(number, start, None))
            await passes()
        assert controller.starts()[-1] == (number, 3, ((0, 1),))

    asyncio.run(scenario())


def test_job_with_a_changed_size_can_be_cancelled(store):
    async def scenario():
        controller = Controller(store)
        controller.join("n0", 2)
        controller.recovery.resolve()
        number = controller.submit(ranks=2)
        controller.members.by_name["n2"].slots = 1
        await passes()
        assert store.find(number).state is State.QUEUED
        assert (await controller.ask(do="cancel", job=number)) == {"ok": {"job": number}}
        assert store.find(number).state is State.CANCELLED
        assert controller.starts() == []

    asyncio.run(scenario())
