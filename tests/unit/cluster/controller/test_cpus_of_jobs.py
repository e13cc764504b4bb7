"""A controller whose jobs have CPUs; limits and learned run times of jobs."""

import asyncio

import pytest

from cosched.cluster.engines.native.putting_back import Restoring
from cosched.cluster.messages import Chunk, SubtreeEnded, SubtreePrepared
from cosched.cluster.record import State
from cosched.config.domain import DomainConfig, parse_config, write_config
from cosched.config.queue import CPU, QueueSettings
from cosched.core.cluster.startup.jobobject import decode_object
from cosched.core.cluster.startup.seal import Tied, unseal
from cosched.core.errors import CoschedError
from cosched.core.units import NS_PER_S
from cosched.documents import read_toml
from tests.unit.cluster.controller.controller_alone import Controller, passes

NODES = ("n0",)
CPUS = QueueSettings(jobs_per_node=2, unit=CPU)


def controller_of(store, nodes=NODES, slots=2, queue=CPUS, crowd=8):
    controller = Controller(store, nodes, queue=queue, tasks_per_slot=crowd)
    for name in nodes:
        controller.join(name, slots=slots)
    controller.recovery.resolve()
    return controller


async def submit(controller, **more):
    number = controller.submit(**more)
    await passes()
    return number


def run(controller, number):
    root = controller.jobs.starts.active[number].root
    controller.take(root, SubtreePrepared(number, 1))


async def finish(controller, number):
    root = controller.jobs.starts.active[number].root
    controller.take(root, SubtreeEnded(number, 1, None))
    await passes()


def objects(controller):
    """Returns all sent job objects, by job."""
    found = {}
    for _, chunk in controller.sent:
        if isinstance(chunk, Chunk):
            tied = Tied(chunk.job, chunk.start, chunk.nodes, chunk.arity, chunk.exchange)
            found[chunk.job] = decode_object(unseal(chunk.data, tied, 0, [bytes(32)]))
    return found


async def ask(controller, number):
    return (await controller.ask(do="job", job=number))["ok"]


def test_small_jobs_run_side_by_side(store):
    async def scenario():
        controller = controller_of(store)
        first = await submit(controller, ranks=1)
        second = await submit(controller, ranks=1)
        third = await submit(controller, ranks=1)
        assert sorted(objects(controller)) == [first, second]
        found = await ask(controller, third)
        assert found["why"].startswith(
            "waits: 0 CPUs free, needs 1; its start is not known, as job 1 is the first"
        )
        assert found["reason"] == "needs 1 CPU, 0 free"
        fourth = await submit(controller, ranks=2, exclusive=True)
        (*_, found) = (await controller.ask(do="queue"))["ok"]
        assert (found["job"], found["reason"]) == (fourth, "1 before; needs 1 node")
        run(controller, first)
        await finish(controller, first)
        assert third in objects(controller)

    asyncio.run(scenario())


def test_jobs_that_share_have_the_same_cpus(store):
    async def scenario():
        controller = controller_of(store)
        first = await submit(controller, ranks=2, share=True)
        second = await submit(controller, ranks=2, share=True)
        third = await submit(controller, ranks=2)
        found = objects(controller)
        assert sorted(found) == [first, second]
        assert not found[first].alone
        assert (await ask(controller, second))["neighbours"] == [first]
        assert "0 CPUs free, needs 2" in (await ask(controller, third))["why"]
        fourth = await submit(controller, ranks=1, share=True)
        found = await ask(controller, fourth)
        assert found["reason"] == "1 before; needs 1 CPU"
        controller.submitting.cancel(third)
        found = await ask(controller, fourth)
        assert found["reason"] == "needs 1 CPU, 0 free or shared"

    asyncio.run(scenario())


def test_exclusive_job_and_a_launcher_have_the_whole_node(store):
    async def scenario():
        for more in ({"exclusive": True}, {"cpus": 1 << 32}):
            controller = controller_of(store)
            small = await submit(controller, ranks=1)
            whole = await submit(controller, ranks=1, **more)
            assert whole not in objects(controller)
            run(controller, small)
            await finish(controller, small)
            assert whole in objects(controller)
            run(controller, whole)
            await finish(controller, whole)

    asyncio.run(scenario())


def test_slots_are_the_cpus_and_a_crowd_has_them_all(store):
    async def scenario():
        controller = controller_of(store)
        crowd = await submit(controller, ranks=16)
        assert objects(controller)[crowd].counts == (16,)
        small = await submit(controller, ranks=1)
        assert small not in objects(controller)
        (node,) = (await controller.ask(do="nodes"))["ok"]
        assert (node["slots"], node["tasks_most"]) == (2, 16)
        with pytest.raises(CoschedError, match="only node takes 16: 8 on each"):
            controller.submit(ranks=17)
        with pytest.raises(CoschedError, match="needs 3 tasks on a node, a node takes 2"):
            controller_of(store, crowd=1).submit(nodes=1, ppn=3)

    asyncio.run(scenario())


def test_restored_jobs_keep_their_cpus(store):
    async def scenario():
        controller = controller_of(store)
        first = await submit(controller, ranks=1)
        run(controller, first)
        again = Controller(store, NODES, queue=CPUS, tasks_per_slot=8)
        restoring = Restoring(again.jobs)
        restoring.recover(store.find(first))
        again.join("n0", slots=2)
        restoring.complete()
        second = await submit(again, ranks=1)
        third = await submit(again, ranks=1)
        assert sorted(objects(again)) == [second]
        assert third in again.jobs.queue

    asyncio.run(scenario())


def test_job_without_a_time_has_no_limit_and_its_end_is_learned(store, monkeypatch):
    async def scenario():
        controller = controller_of(store)
        clock = controller.jobs.clock
        now = [clock.now_ns()]
        monkeypatch.setattr(clock, "now_ns", lambda: now[0])
        for seconds in (10, 20):
            job = await submit(controller, ranks=1)
            run(controller, job)
            found = await ask(controller, job)
            assert found["time_ns"] is None
            now[0] += seconds * NS_PER_S
            await finish(controller, job)
            assert store.find(job).state is State.DONE
        assert found["run_ns"] == 10 * NS_PER_S
        job = await submit(controller, ranks=1)
        run(controller, job)
        found = await ask(controller, job)
        assert found["run_ns"] == 15 * NS_PER_S
        assert found["ends_ns"] == found["started_ns"] + 15 * NS_PER_S
        assert "after 15s as before; no time limit" in found["why"]
        limited = await submit(controller, ranks=1, time_ns=5 * NS_PER_S)
        run(controller, limited)
        found = await ask(controller, limited)
        assert (found["time_ns"], found["run_ns"]) == (5 * NS_PER_S, 5 * NS_PER_S)
        waits = await submit(controller, ranks=2, time_ns=NS_PER_S)
        found = await ask(controller, waits)
        assert found["expected_ns"] == now[0] + 15 * NS_PER_S
        now[0] += 10**6 * NS_PER_S
        controller.jobs.driver.thaw()
        await passes()
        ending = {n for n, start in controller.jobs.starts.active.items() if start.ending}
        assert ending == {limited}

    asyncio.run(scenario())


def test_run_times_are_those_of_the_same_user_and_survive_a_restart(store):
    async def scenario():
        controller = controller_of(store)
        job = await submit(controller, ranks=1)
        run(controller, job)
        await finish(controller, job)
        again = controller_of(store)
        record = again._record(ranks=1)
        assert again.jobs.records.run_times.expected_ns(record) is not None
        record.uid += 1
        assert again.jobs.records.run_times.expected_ns(record) is None

    asyncio.run(scenario())


def test_settings_are_written_and_read(tmp_path):
    config = DomainConfig("a", "127.0.0.1:1", {"n1": "127.0.0.1:2"}, queue=CPUS)
    path = tmp_path / "domain.toml"
    path.write_text(write_config(config))
    assert parse_config(read_toml(path)) == config
    assert config.queue.default_time_ns is None


@pytest.mark.parametrize(
    ("document", "text"),
    [
        ({"queue": {"policy": "conservative"}}, 'does not combine with unit = "cpu"'),
        ({"queue": {"size": "malleable"}}, "needs whole nodes"),
        ({"symbiosis": {"parts": 2}}, "cpu does not combine with symbiosis.parts"),
    ],
)
def test_settings_that_do_not_combine_are_refused(document, text):
    base = {"controller": "127.0.0.1:1", "nodes": {"n1": "127.0.0.1:2"}}
    queue = {"unit": "cpu", **document.get("queue", {})}
    with pytest.raises(CoschedError, match=text):
        parse_config({**base, **document, "queue": queue})
