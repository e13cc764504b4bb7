"""The controller restarts with another ``queue.size`` in domain.toml while jobs run."""

import asyncio

import pytest

from cosched.cluster.engines.native.engine import NativeEngine
from cosched.cluster.keys import load_keys, make_keys
from cosched.cluster.messages import NodeEnded
from cosched.cluster.paths import DomainPaths
from cosched.cluster.record import State
from cosched.cluster.size_messages import Admit, Admitted, ChangeEnded, JobSensed
from cosched.config.domain import DomainConfig
from cosched.config.queue import QueueSettings
from cosched.core.errors import CoschedError
from cosched.core.units import NS_PER_S
from tests.unit.cluster.controller.controller_alone import passes
from tests.unit.cluster.controller.test_changing_sizes import (
    MALLEABLE,
    NODES,
    TIMES,
    Played,
    growing,
    lose,
    restarted,
)

RIGID = QueueSettings("fcfs")
MOLDABLE = QueueSettings("fcfs", size="moldable")
OTHERS = pytest.mark.parametrize("queue", [RIGID, MOLDABLE])
HOUR = 3600 * NS_PER_S


@OTHERS
def test_malleable_job_keeps_its_nodes_and_its_reports_are_dropped(store, queue):
    async def scenario():
        domain, number = await growing(store)
        await domain.change((0, 1, 2, 3))
        assert domain.nodes(number) == ("n3", "n0", "n1", "n2")
        domain = restarted(store, number, *domain.nodes(number), queue=queue)
        for message in (
            JobSensed(number, 1, 4, 0, 0, 0, 0, 0, 1, 1),
            Admitted(number, 1, 1),
            ChangeEnded(number, 1, 1, (0, 1, 2, 3), TIMES),
        ):
            domain.controller.take("n3", message)
        await passes()
        domain.jobs.node_drained(domain.controller.members.by_name["n0"])
        await passes()
        assert domain.sent(Admit) == []
        assert domain.nodes(number) == ("n3", "n0", "n1", "n2")
        assert domain.free == 0
        await domain.finish(number)
        assert domain.free == 3

    asyncio.run(scenario())


@OTHERS
def test_malleable_job_has_the_time_of_its_minimum(store, queue):
    """It may have had fewer nodes before the restart."""

    async def scenario():
        domain = Played(store)
        number = await domain.run(minimum=1, ideal=4, time_ns=HOUR)
        domain = restarted(store, number, *NODES, queue=queue)
        entry = domain.jobs.queue.jobs[number]
        assert entry.limit_ns - entry.since_ns == 4 * HOUR + queue.grace_ns

    asyncio.run(scenario())


@pytest.mark.parametrize("queue", [RIGID, MOLDABLE, MALLEABLE])
def test_controller_refuses_to_start_with_an_open_change(store, tmp_path, queue):
    async def scenario():
        _, number = await growing(store)
        nodes = {name: f"127.0.0.{at}:2" for at, name in enumerate(NODES, 1)}
        config = DomainConfig("test", "127.0.0.1:1", nodes, queue=queue)
        make_keys(tmp_path / "keys", config.members)
        keys = load_keys(tmp_path / "keys", "controller", config.members)
        paths = DomainPaths(tmp_path / "domain")
        paths.directory.mkdir(parents=True)
        if queue is MALLEABLE:
            NativeEngine(config, keys, paths, store, print)
            return
        with pytest.raises(CoschedError) as refused:
            NativeEngine(config, keys, paths, store, print)
        assert str(refused.value) == (
            f'job {number}: a change of its size is open; write size = "malleable" into '
            f'[queue] of domain.toml, start the controller, and write "{queue.size}" again '
            "once the change has ended"
        )

    asyncio.run(scenario())


async def on_half(store, **more):
    """Returns a domain of malleable jobs and a job of before that started on two of its
    four nodes when the domain had moldable ones."""
    domain = Played(store, queue=MOLDABLE)
    rigid = await domain.run(nodes=2, ppn=1)
    number = await domain.run(minimum=1, ideal=4, **more)
    await domain.finish(rigid)
    return restarted(store, number, "n2", "n3"), number


def test_moldable_job_keeps_its_size_in_a_domain_that_changes_sizes(store):
    async def scenario():
        domain, number = await on_half(store, time_ns=HOUR)
        await passes()
        other = domain.controller.submit(nodes=3, ppn=1)
        await passes()
        domain.jobs.node_drained(domain.controller.members.by_name["n3"])
        await passes()
        assert domain.sent(Admit) == []
        assert domain.nodes(number) == ("n2", "n3")
        entry = domain.jobs.queue.jobs[number]
        assert entry.limit_ns - entry.since_ns == 2 * HOUR + MALLEABLE.grace_ns
        assert domain.record(other).state is State.QUEUED

    asyncio.run(scenario())


def test_moldable_job_that_starts_again_is_malleable(store):
    async def scenario():
        domain, number = await on_half(store, requeue=True)
        lose(domain, "n3")
        domain.controller.take("n2", NodeEnded(number, 1))
        await passes()
        assert domain.record(number).start == 2
        assert domain.nodes(number) == ("n0", "n1", "n2")
        assert domain.record(number).size is not None
        assert domain.jobs.queue.place.running[number].minimum == 1

    asyncio.run(scenario())
