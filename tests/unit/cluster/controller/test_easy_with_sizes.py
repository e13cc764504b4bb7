"""EASY with malleable jobs, as the controller runs it; the nodes are played."""

import asyncio

import pytest

from cosched.cluster.record import State
from cosched.config.queue import ChangeSettings, QueueSettings
from cosched.core.units import NS_PER_S
from tests.unit.cluster.controller.controller_alone import passes
from tests.unit.cluster.controller.test_changing_sizes import Played

NODES = ("n0", "n1", "n2", "n3")
LATE = 60
CHANGES = ChangeSettings(late_after_ns=LATE * NS_PER_S, distribution="favour-queued")
EASY = QueueSettings("easy", size="malleable", changes=CHANGES)


def seconds(count):
    return count * NS_PER_S


async def two_running_jobs(store):
    """Returns a domain where a rigid job has two nodes for 1000 s, and a malleable one two,
    of which it needs one."""
    domain = Played(store, queue=EASY)
    rigid = await domain.run(nodes=2, ppn=1, time_ns=seconds(1000))
    malleable = await domain.run(minimum=1, ideal=2, time_ns=seconds(3000))
    return domain, rigid, malleable


def submit(domain, nodes, run_s):
    return domain.controller.submit(nodes=nodes, ppn=1, time_ns=seconds(run_s))


def test_short_job_starts_by_a_harvest_before_the_reserved_one(store):
    async def scenario():
        domain, rigid, malleable = await two_running_jobs(store)
        first = submit(domain, 3, 100)
        await passes()
        short = submit(domain, 1, 1000 - 2 * LATE)
        await passes()
        await domain.change((0,))
        assert domain.record(short).state is State.STARTING
        assert store.changes(malleable)[0].reason.startswith(f"gave 1 node to job {short}")
        domain.begin(short)
        await domain.finish(short)
        # The node is lent once more: it can be back before the first job needs it.
        await domain.change((0, 2))
        await domain.finish(rigid)
        assert domain.record(first).state is State.QUEUED
        await domain.change((0,))
        assert domain.record(first).state is State.STARTING
        assert domain.free == 0

    asyncio.run(scenario())


@pytest.mark.parametrize("run_s", [1000 - LATE // 2, 2000])
def test_job_that_would_delay_the_reserved_one_waits(store, run_s):
    """Also one that ends in time, but not if the change takes as long as it may."""

    async def scenario():
        domain, rigid, malleable = await two_running_jobs(store)
        first = submit(domain, 3, 100)
        await passes()
        later = submit(domain, 1, run_s)
        await passes()
        assert store.find(malleable).size.change is None
        assert domain.record(later).state is State.QUEUED
        expected = domain.jobs.queue.planner.reservation
        assert expected[0].number == first
        await domain.finish(rigid)
        await domain.change((0,))
        assert domain.record(first).state is State.STARTING
        assert domain.record(later).state is State.QUEUED

    asyncio.run(scenario())


def test_reload_changes_between_fcfs_and_easy(store):
    """A job that fcfs keeps waiting starts at once."""

    async def scenario():
        fcfs = QueueSettings("fcfs", size="malleable", changes=CHANGES)
        domain = Played(store, queue=fcfs)
        await domain.run(nodes=3, ppn=1, time_ns=seconds(1000))
        submit(domain, 4, 100)
        short = submit(domain, 1, 100)
        await passes()
        assert domain.record(short).state is State.QUEUED
        config = domain.controller.config
        domain.jobs.configure(
            type(config)(
                config.name, config.controller, config.nodes, 0, EASY, life=config.life
            )
        )
        await passes()
        assert domain.record(short).state is State.STARTING

    asyncio.run(scenario())
