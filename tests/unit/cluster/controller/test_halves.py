"""A controller whose nodes have halves: users' words, halves of jobs, restarts."""

import asyncio
from dataclasses import replace

import pytest

from cosched.cluster.engines.native.node_entries import NodeState
from cosched.cluster.messages import (
    Chunk,
    NodeEnded,
    StartReport,
    SubtreeEnded,
    SubtreePrepared,
)
from cosched.cluster.record import State
from cosched.config.domain import DomainConfig, parse_config, write_config
from cosched.config.queue import QueueSettings
from cosched.config.symbiosis import SymbiosisSettings
from cosched.core.cluster.startup.jobobject import decode_object
from cosched.core.cluster.startup.seal import Tied, unseal
from cosched.core.cluster.startup.two_phase import Stage
from cosched.core.errors import CoschedError
from cosched.documents import read_toml
from tests.unit.cluster.controller.controller_alone import Controller, passes

NODES = ("n0", "n1", "n2")
HALVES = SymbiosisSettings(parts=2, share_up_to=1.0)
MEMORY, CPU = {"limited_by": ("memory",)}, {"limited_by": ("cpu",)}


def controller_of(store, nodes=("n0", "n1"), symbiosis=HALVES, **more):
    controller = Controller(store, nodes, symbiosis=symbiosis, **more)
    for name in nodes:
        controller.join(name, slots=4, part_slots=2)
    controller.recovery.resolve()
    return controller


async def ask(controller, number):
    return (await controller.ask(do="job", job=number))["ok"]


def run(controller, *numbers):
    for number in numbers:
        root = controller.jobs.starts.active[number].root
        controller.take(root, SubtreePrepared(number, 1))


def objects(controller):
    """Returns nodes, parts and counts of the job objects that were sent, by job."""
    found = {}
    for _, chunk in controller.sent:
        if isinstance(chunk, Chunk):
            tied = Tied(chunk.job, chunk.start, chunk.nodes, chunk.arity, chunk.exchange)
            job = decode_object(unseal(chunk.data, tied, 0, [bytes(32)]))
            found[chunk.job] = (chunk.nodes, job.parts, job.counts)
            (label,) = controller.store.find(chunk.job).submission.limited_by or (None,)
            assert job.environ.get("COSCHED_LIMITED_BY") == label
    return found


def test_two_jobs_with_labels_share_nodes_half_and_half(store):
    async def scenario():
        controller = controller_of(store)
        first = controller.submit(ranks=4, **MEMORY)
        await passes()
        second = controller.submit(ranks=3, **CPU)
        await passes()
        assert objects(controller) == {
            first: (((0, 1),), (0, 0), (2, 2)),
            second: (((0, 1),), (1, 1), (2, 1)),
        }
        run(controller, first, second)
        found = await ask(controller, second)
        assert (found["halves"], found["neighbours"]) == (["bottom", "bottom"], [first])
        assert (found["shares"], found["limited_by"]) == (True, ["cpu"])
        assert (
            found["why"].split("; ")[0]
            == "running on the bottom halves of n0, n1, beside job 1"
        )
        controller.take("n0", SubtreeEnded(first, 1, None))
        found = await ask(controller, second)
        assert (
            found["why"].split("; ")[0]
            == "running on the bottom halves of n0, n1, beside no job"
        )
        assert (await ask(controller, first))["halves"] == ["top", "top"]

    asyncio.run(scenario())


def test_job_without_a_word_has_whole_nodes(store):
    async def scenario():
        controller = controller_of(store)
        words = ({}, {"share_node": False}, {"exclusive": True})
        numbers = [controller.submit(ranks=4, **more) for more in words]
        await passes()
        assert objects(controller) == {
            numbers[0]: (((0, 0),), (), (4,)),
            numbers[1]: (((1, 1),), (), (4,)),
        }
        waits = await ask(controller, numbers[2])
        assert waits["why"].startswith(
            "waits: 0 nodes free, needs 1; its start is not known, as job 1 is the first "
            "of its kind"
        )
        assert (waits["shares"], waits["halves"]) == (False, [])

    asyncio.run(scenario())


def test_job_on_whole_nodes_has_no_limit_that_no_user_named(store):
    async def scenario():
        controller = controller_of(store)
        whole = controller.submit(ranks=4, exclusive=True)
        halves = controller.submit(ranks=4, **MEMORY)
        limited = controller.submit(ranks=4, time_ns=60 * 10**9)
        await passes()
        jobs = controller.jobs.queue.jobs
        found = [jobs[number].job for number in (whole, halves, limited)]
        assert [job.limited for job in found] == [False, False, True]
        assert [job.known for job in found] == [False, False, True]

    asyncio.run(scenario())


def test_operator_may_let_jobs_without_a_label_share(store):
    async def scenario():
        sharing = replace(HALVES, share_unlabelled=True)
        controller = controller_of(store, ("n0",), sharing)
        first, second = (controller.submit(ranks=2) for _ in range(2))
        # Its tasks fit no half, and no user asked to share.
        whole = controller.submit(nodes=1, ppn=4)
        await passes()
        assert objects(controller) == {
            first: (((0, 0),), (0,), (2,)),
            second: (((0, 0),), (1,), (2,)),
        }
        assert (await ask(controller, whole))["state"] == "queued"

    asyncio.run(scenario())


def test_large_job_takes_whole_nodes_that_are_free_before_halves(store):
    async def scenario():
        controller = controller_of(store, NODES)
        whole = controller.submit(nodes=2, ppn=4)
        await passes()
        large = controller.submit(ranks=4, **MEMORY)
        await passes()
        assert objects(controller) == {
            whole: (((0, 1),), (), (4, 4)),
            large: (((2, 2),), (), (4,)),
        }

    asyncio.run(scenario())


def test_job_that_is_large_for_the_domain_takes_whole_nodes(store):
    async def scenario():
        nodes = tuple(f"n{at}" for at in range(8))
        controller = controller_of(store, nodes, replace(HALVES, share_up_to=1 / 8))
        large = controller.submit(ranks=5, **MEMORY)
        small = controller.submit(ranks=4, **CPU)
        await passes()
        assert objects(controller) == {
            large: (((0, 1),), (), (3, 2)),
            small: (((2, 3),), (0, 0), (2, 2)),
        }
        run(controller, large)
        text = "; takes whole nodes: it is larger than 1/8 of the nodes"
        assert text in (await ask(controller, large))["why"]
        assert "whole nodes" not in (await ask(controller, small))["why"]
        waiting = controller.submit(ranks=25, **MEMORY)
        await passes()
        found = await ask(controller, waiting)
        assert (found["nodes"], found["state"]) == (7, "queued")
        assert found["why"].startswith("waits: 4 nodes free, needs 7; ")
        assert text in found["why"]
        # A reload lets it share; jobs that run keep what they have.
        sharing = replace(HALVES, share_up_to=1.0)
        controller.jobs.configure(replace(controller.config, symbiosis=sharing))
        await passes()
        assert text not in (await ask(controller, waiting))["why"]
        assert (await ask(controller, large))["halves"] == []

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("placement", "ranks", "halves"), [("labels", 8, 4), ("anyhow", 8, 0), ("anyhow", 4, 2)]
)
def test_default_lets_jobs_share_that_never_lose_by_it(store, placement, ranks, halves):
    async def scenario():
        nodes = tuple(f"n{at}" for at in range(16))
        default = SymbiosisSettings(parts=2, placement=placement)
        controller = controller_of(store, nodes, default)
        number = controller.submit(ranks=ranks, **MEMORY)
        await passes()
        assert len(store.find(number).parts) == halves

    asyncio.run(scenario())


def test_job_of_one_half_shares_in_the_smallest_domain(store):
    async def scenario():
        controller = controller_of(store, ("n0",), SymbiosisSettings(parts=2))
        numbers = [controller.submit(ranks=2, **each) for each in (MEMORY, CPU)]
        whole = controller.submit(ranks=3, **CPU)
        await passes()
        assert [store.find(number).parts for number in numbers] == [(0,), (1,)]
        assert (await ask(controller, whole))["state"] == "queued"

    asyncio.run(scenario())


def test_labels_keep_a_job_from_halves_beside_its_like(store):
    async def scenario():
        strict = replace(HALVES, placement="labels")
        controller = controller_of(store, ("n0",), strict)
        asked = {"ranks": 2, "time_ns": 60 * 10**9, **MEMORY}
        first, second = (controller.submit(**asked) for _ in range(2))
        await passes()
        assert list(objects(controller)) == [first]
        found = await ask(controller, second)
        assert found["reason"] == "needs 1 half of a node, 1 free"
        assert found["why"].startswith(
            "waits: halves of 1 node free, needs 1, or 1 whole node, 0 free; "
            "free halves beside job 1: limited by memory, too; expected "
        )
        with pytest.raises(CoschedError, match="cannot start at once: halves of 1 node"):
            controller.submit(ranks=2, at_once=True, **MEMORY)
        third = controller.submit(ranks=2, limited_by=("io",))
        await passes()
        assert objects(controller)[third] == (((0, 0),), (1,), (2,))

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("job", "text"),
    [
        (
            {"nodes": 1, "ppn": 4, **CPU},
            "infeasible: needs 4 tasks on half of a node, half of a node takes 2; submit "
            "it with --share-node no",
        ),
        ({"ranks": 20, **CPU}, "infeasible: needs 5 nodes, the domain has 2"),
        ({"limited_by": ("disk",)}, "limited by: 'disk' is not one of cpu, memory, io, "),
        ({"limited_by": ("io", "io")}, "limited by: names a resource twice"),
        (
            {"exclusive": True, **CPU},
            "limited by: a label is for a job that may share its nodes, but this one is "
            "exclusive; leave one of them out",
        ),
        ({"share_node": False, **CPU}, "this one is not to share its nodes"),
        ({"minimum": 1, **CPU}, "this one is malleable"),
        ({"mates": "a@b", "share_node": True}, "this one is to start with mates"),
    ],
    ids=["ppn", "large", "unknown", "twice", "exclusive", "no", "malleable", "mates"],
)
def test_jobs_that_cannot_share_are_refused_in_one_line(store, job, text):
    async def scenario():
        controller = controller_of(store)
        words = {"token": "t", "name": "a", "argv": ["x"], "environ": {}, "cwd": "/", **job}
        answer = await controller.ask(do="submit", job=words)
        assert text in answer["error"]
        assert "\n" not in answer["error"]
        assert controller.jobs.records.live == {}

    asyncio.run(scenario())


@pytest.mark.parametrize("parts", [2, 1])
def test_restarted_controller_gives_no_half_to_a_second_job(store, parts):
    async def scenario():
        before = controller_of(store, ("n0",))
        first = before.submit(ranks=2, **MEMORY)
        second = before.submit(ranks=2, **CPU)
        await passes()
        run(before, first, second)
        before.take("n0", SubtreeEnded(first, 1, None))
        again = Controller(store, ("n0",), symbiosis=replace(HALVES, parts=parts))
        report = StartReport(second, 1, Stage.GONE.value, 0, root=True)
        again.join("n0", 4, [report], part_slots=2 if parts == 2 else 0)
        again.recovery.resolve()
        third = again.submit(ranks=2, **CPU)
        await passes()
        if parts == 1:  # the operator divides nodes no more
            assert objects(again) == {}
            again.take("n0", SubtreeEnded(second, 1, None))
            await passes()
            assert objects(again) == {third: (((0, 0),), (), (2,))}
            return
        assert objects(again) == {third: (((0, 0),), (0,), (2,))}
        assert (await ask(again, second))["neighbours"] == [third]

    asyncio.run(scenario())


def test_job_on_a_half_waits_again_with_the_halves_that_it_needs_then(store):
    async def scenario():
        controller = controller_of(store)
        number = controller.submit(ranks=4, requeue=True, **CPU)
        await passes()
        run(controller, number)
        lost = controller.members.by_name["n1"]
        lost.state = NodeState.LOST
        controller.jobs.node_lost(lost)
        controller.take("n0", NodeEnded(number, 1))
        await passes()
        # One node is left: its halves are too few, so the job gets it whole.
        assert store.find(number).parts == ()
        assert objects(controller)[number] == (((0, 0),), (), (4,))

    asyncio.run(scenario())


def test_half_a_node_counts_half(store):
    async def scenario():
        controller = controller_of(store)
        whole, half = controller.submit(ranks=4), controller.submit(ranks=2, **CPU)
        await passes()
        run(controller, whole, half)
        for number in (whole, half):
            record = store.find(number)
            now_ns = record.started_ns + 1000
            assert record.used_ns(now_ns) == (1000 if number == whole else 500)

    asyncio.run(scenario())


def test_size_of_waiting_job_follows_the_slots_of_nodes(store):
    async def scenario():
        controller = Controller(store, ("n0", "n1"), symbiosis=HALVES)
        controller.recovery.resolve()
        number = controller.submit_unchecked(ranks=4, **CPU)
        controller = Controller(store, ("n0", "n1"), symbiosis=HALVES)
        controller.recovery.resolve()
        for name in ("n0", "n1"):
            controller.join(name, slots=4, part_slots=2)
        await passes()
        assert objects(controller) == {number: (((0, 1),), (0, 0), (2, 2))}
        assert store.find(number).state is State.STARTING

    asyncio.run(scenario())


def test_domain_without_halves_keeps_the_word_and_gives_whole_nodes(store):
    async def scenario():
        controller = controller_of(store, ("n0",), SymbiosisSettings())
        number = controller.submit(ranks=4, **CPU)
        await passes()
        assert objects(controller) == {number: (((0, 0),), (), (4,))}
        found = await ask(controller, number)
        assert (found["limited_by"], found["shares"]) == (["cpu"], False)

    asyncio.run(scenario())


BASE = {"controller": "127.0.0.1:1", "nodes": {"n0": "127.0.0.1:2"}}


@pytest.mark.parametrize(
    ("tables", "text"),
    [
        (
            {"symbiosis": {"parts": 3}},
            "symbiosis.parts: 3 is not a whole number from 1 to 2",
        ),
        ({"symbiosis": {"parts": 0}}, "symbiosis.parts: 0 is not a whole number"),
        (
            {"symbiosis": {"share_up_to": 0}},
            "symbiosis.share_up_to: 0 is not a number above 0 and up to 1",
        ),
        ({"symbiosis": {"share_up_to": 1.5}}, "1.5 is not a number above 0 and up to 1"),
        ({"symbiosis": {"placement": "best"}}, "symbiosis.placement: 'best' is none of"),
        (
            {"symbiosis": {"parts": 2}, "queue": {"jobs_per_node": 2}},
            "queue.jobs_per_node: write 1: it does not combine with symbiosis.parts = 2",
        ),
        (
            {"symbiosis": {"parts": 2}, "queue": {"policy": "conservative"}},
            "queue.policy: conservative does not combine with symbiosis.parts = 2",
        ),
        (
            {"symbiosis": {"parts": 2}, "queue": {"size": "moldable", "policy": "fcfs"}},
            'queue.size: moldable does not combine with symbiosis.parts = 2; write "rigid"',
        ),
        (
            {
                "symbiosis": {"parts": 2},
                "coupling": {"listen": "127.0.0.1:3", "domains": {"b": "127.0.0.1:4"}},
            },
            "symbiosis.parts: is 2, which does not combine with [coupling]",
        ),
    ],
)
def test_settings_that_do_not_combine_are_refused(tables, text):
    with pytest.raises(CoschedError) as caught:
        parse_config({**BASE, **tables})
    assert text in str(caught.value)


def test_settings_survive_their_file(tmp_path):
    config = DomainConfig(
        *("d", "127.0.0.1:1", BASE["nodes"]),
        queue=QueueSettings("largest"),
        symbiosis=SymbiosisSettings(2, "learned", share_unlabelled=True, share_up_to=0.25),
    )
    path = tmp_path / "domain.toml"
    path.write_text(write_config(config))
    assert parse_config(read_toml(path)) == config
    undivided = DomainConfig("d", "127.0.0.1:1", BASE["nodes"], queue=config.queue)
    assert config.digest("n0") != undivided.digest("n0")
