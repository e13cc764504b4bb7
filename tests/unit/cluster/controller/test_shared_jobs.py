"""A controller learns from nodes about jobs that share them."""

import asyncio
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cosched.cluster.messages import SubtreeEnded, SubtreePrepared, decode, encode
from cosched.cluster.sharing_messages import NEIGHBOURS_MOST, BesideJob, JobShared, Spent
from cosched.config.symbiosis import SymbiosisSettings
from cosched.core.bounds import NATURAL_MOST
from cosched.core.cluster.queue.halves.learner import Priors
from cosched.core.decoding import Malformed
from cosched.core.errors import CoschedError
from cosched.core.symbiosis.program_pairs import HARM_KEPT_NS, KEPT_NS
from cosched.core.symbiosis.resources import Resource
from cosched.core.units import NS_PER_S
from tests.unit.cluster.controller.controller_alone import Controller, passes

NODES = ("n0", "n1")
LEARNS = SymbiosisSettings(parts=2, placement="learned", share_up_to=1.0)
MEMORY, CPU = {"limited_by": ("memory",)}, {"limited_by": ("cpu",)}
#: All of its time in MPI: the network limits the job.
IN_MPI = Spent(90 * NS_PER_S, 80 * NS_PER_S, 0, 10 * NS_PER_S, 0, 0, 0, 0)


def controller_of(store, nodes=("n0", "n1"), symbiosis=LEARNS):
    controller = Controller(store, nodes, symbiosis=symbiosis)
    for name in nodes:
        controller.join(name, slots=4, part_slots=2)
    controller.recovery.resolve()
    return controller


async def start(controller, program, ranks=2, **more):
    number = controller.submit(ranks=ranks, program=program, **more)
    await passes()
    active = controller.jobs.starts.active.get(number)
    if active is not None:
        controller.take(active.root, SubtreePrepared(number, 1))
    return number


def beside(number, slowdown, at_least=0.0, trials=9):
    return BesideJob(number, trials, round(1000 * slowdown), round(1000 * at_least))


async def pairs(controller):
    found = (await controller.ask(do="pairs"))["ok"]
    return {
        (each["program"], each["beside"]): (
            round(each["speed"], 3),
            each["seen"],
            each["harmful"],
        )
        for each in found
    }


def pass_time(controller, ns):
    before = controller.jobs.clock.now_ns
    controller.jobs.clock.now_ns = lambda: before() + ns


def test_reported_speeds_are_learned_and_survive_a_restart(store):
    async def scenario():
        controller = controller_of(store, ("n0",))
        lu, ep = [await start(controller, name, **CPU) for name in ("lu", "ep")]
        controller.take("n0", JobShared(lu, 1, (beside(ep, 2.0),)))
        controller.take("n0", JobShared(lu, 1, (beside(ep, 1.25),)))  # it knows better now
        controller.take("n0", JobShared(ep, 1, (beside(lu, 1.0),)))
        await passes()
        expected = {("lu", "ep"): (0.8, 1, False), ("ep", "lu"): (1.0, 1, False)}
        assert await pairs(controller) == expected
        learner = controller.jobs.queue.place.learner
        assert learner.estimate("7.lu", None) == Priors().alone
        assert learner.seen["7.lu", "7.ep"].mean == pytest.approx(0.8 * Priors().alone)
        again = controller_of(store, ("n0",))
        assert await pairs(again) == expected
        assert again.jobs.queue.place.learner.seen == learner.seen

    asyncio.run(scenario())


@pytest.mark.parametrize(("placement", "node"), [("learned", "n1"), ("anyhow", "n0")])
def test_learned_placement_goes_by_what_live_jobs_have_shown(store, placement, node):
    async def scenario():
        controller = controller_of(store, NODES, replace(LEARNS, placement=placement))
        ep, lu = [await start(controller, name, **CPU) for name in ("ep", "lu")]
        assert controller.store.find(lu).hosts == ("n0",)
        controller.take("n0", JobShared(lu, 1, (beside(ep, 2.5),)))
        controller.take("n0", SubtreeEnded(lu, 1, None))
        await passes()
        again = await start(controller, "lu", **CPU)
        assert controller.store.find(again).hosts == (node,)

    asyncio.run(scenario())


@pytest.mark.parametrize("placement", ["split", "labels", "anyhow", "learned"])
def test_harmful_pair_is_not_placed_again(store, placement):
    async def scenario():
        controller = controller_of(store, ("n0",), replace(LEARNS, placement=placement))
        memory = await start(controller, "stream", **MEMORY)
        first = await start(controller, "gups", **CPU)
        controller.take("n0", JobShared(first, 1, (beside(memory, 1.4, at_least=1.2),)))
        controller.take("n0", SubtreeEnded(first, 1, None))
        await passes()
        assert await pairs(controller) == {("gups", "stream"): (0.714, 1, True)}
        second = await start(controller, "gups", **CPU)
        other = await start(controller, "ep", time_ns=NS_PER_S, **CPU)
        why = (await controller.ask(do="job", job=second))["ok"]["why"]
        text = f"free halves beside job {memory}: one of the two was slowed too much before"
        assert text not in why  # another job has these halves
        assert controller.store.find(second).hosts == ()
        assert controller.store.find(other).hosts == ("n0",)
        controller.take("n0", SubtreeEnded(other, 1, None))
        await passes()
        assert text in (await controller.ask(do="job", job=second))["ok"]["why"]
        controller.take("n0", SubtreeEnded(memory, 1, None))
        await passes()
        assert controller.store.find(second).hosts == ("n0",)

    asyncio.run(scenario())


def test_harm_also_keeps_the_harming_program_away(store):
    async def scenario():
        controller = controller_of(store, ("n0",))
        memory = await start(controller, "stream", **MEMORY)
        gups = await start(controller, "gups", **CPU)
        controller.take("n0", JobShared(gups, 1, (beside(memory, 1.4, at_least=1.2),)))
        controller.take("n0", SubtreeEnded(memory, 1, None))
        await passes()
        again = await start(controller, "stream", **MEMORY)
        assert controller.store.find(again).hosts == ()

    asyncio.run(scenario())


def test_harm_is_over_after_a_time_or_by_another_limit(store):
    async def scenario():
        controller = controller_of(store, ("n0",))
        memory = await start(controller, "stream", **MEMORY)
        gups = await start(controller, "gups", **CPU)
        controller.take("n0", JobShared(gups, 1, (beside(memory, 1.4, at_least=1.2),)))
        await passes()
        config = replace(controller.config, symbiosis=replace(LEARNS, slowed_most=1.3))
        controller.jobs.configure(config)
        assert await pairs(controller) == {("gups", "stream"): (0.714, 1, False)}
        assert not controller.jobs.queue.place.learner.harmful
        controller.jobs.configure(controller.config)
        assert controller.jobs.queue.place.learner.harmful
        pass_time(controller, HARM_KEPT_NS + 1)
        controller.submit(ranks=2, **CPU)
        assert not controller.jobs.queue.place.learner.harmful
        assert await pairs(controller) == {("gups", "stream"): (0.714, 1, False)}
        pass_time(controller, KEPT_NS)
        controller.submit(ranks=2, **CPU)
        assert await pairs(controller) == {}
        assert controller.jobs.queue.place.learner.seen == {}
        assert store.learned.runs() == []

    asyncio.run(scenario())


def test_slowest_node_of_a_run_counts(store):
    async def scenario():
        controller = controller_of(store)
        lu, ep = [await start(controller, name, ranks=4, **CPU) for name in ("lu", "ep")]
        controller.take("n0", JobShared(lu, 1, (beside(ep, 1.6),)))
        controller.take("n1", JobShared(lu, 1, (beside(ep, 1.25),)))
        await passes()
        assert await pairs(controller) == {("lu", "ep"): (0.625, 1, False)}

    asyncio.run(scenario())


def test_job_beside_two_programs_shows_nothing_of_either(store):
    async def scenario():
        controller = controller_of(store)
        lu = await start(controller, "lu", ranks=4, **CPU)
        ep, sp = [await start(controller, name, **CPU) for name in ("ep", "sp")]
        assert controller.store.find(sp).hosts == ("n1",)
        controller.take("n0", JobShared(lu, 1, (beside(ep, 1.6),)))
        controller.take("n0", JobShared(ep, 1, (beside(lu, 1.25),)))
        await passes()
        assert await pairs(controller) == {("ep", "lu"): (0.8, 1, False)}

    asyncio.run(scenario())


def test_report_of_another_node_or_start_is_refused(store):
    async def scenario():
        controller = controller_of(store)
        lu = await start(controller, "lu", **CPU)
        for sender, message in (
            ("n1", JobShared(lu, 1, ())),
            ("n0", JobShared(lu, 2, ())),
            ("n0", JobShared(lu + 1, 1, ())),
        ):
            with pytest.raises(CoschedError, match="has no part of its start"):
                controller.take(sender, message)
        other = await start(controller, "ep", ranks=4)
        assert controller.store.find(other).hosts == ("n1",)
        # These two are no neighbours, whatever a node says.
        controller.take("n0", JobShared(lu, 1, (beside(other, 9.0, 5.0), beside(999, 2.0))))
        await passes()
        assert await pairs(controller) == {}
        controller.take("n0", SubtreeEnded(lu, 1, None))
        controller.take("n0", JobShared(lu, 1, (), None, over=True))  # a moment later
        pass_time(controller, 3600 * NS_PER_S)
        with pytest.raises(CoschedError, match="has no part"):
            controller.take("n0", JobShared(lu, 1, (), None, over=True))

    asyncio.run(scenario())


def test_wrong_label_loses_its_effect_after_some_runs(store):
    async def scenario():
        symbiosis = replace(LEARNS, placement="labels", wrong_runs=2)
        controller = controller_of(store, ("n0", "n1"), symbiosis)
        for _ in range(2):
            number = await start(controller, "lu", ranks=4, **MEMORY)
            job = controller.jobs.queue.jobs[number].job
            assert job.limits == {Resource.MEMORY}
            controller.take("n0", SubtreeEnded(number, 1, None))
            for node in ("n0", "n1"):  # the label is judged once all nodes have reported
                assert not [c for c in store.learned.labels() if c.runs > number - 1]
                controller.take(node, JobShared(number, 1, (), IN_MPI, over=True))
        again = controller_of(store, ("n0", "n1"), symbiosis)
        number = await start(again, "lu", **MEMORY)
        assert again.jobs.queue.jobs[number].job.limits == {Resource.NETWORK}
        why = (await again.ask(do="job", job=number))["ok"]["why"]
        assert why.endswith("; counts as network: its label was wrong in 2 runs")
        again.jobs.configure(
            replace(again.config, symbiosis=replace(symbiosis, wrong_runs=0))
        )
        number = await start(again, "lu", **MEMORY)
        assert again.jobs.queue.jobs[number].job.limits == {Resource.MEMORY}

    asyncio.run(scenario())


def test_waiting_job_counts_as_what_was_found_meanwhile(store):
    async def scenario():
        symbiosis = replace(LEARNS, placement="labels", wrong_runs=1)
        controller = controller_of(store, ("n0",), symbiosis)
        first = await start(controller, "lu", **CPU)
        other = await start(controller, "ep", **CPU)
        waiting = [await start(controller, name, **CPU) for name in ("lu", "ep")]
        controller.take("n0", JobShared(first, 1, (), IN_MPI, over=True))
        await passes()
        limits = [controller.jobs.queue.jobs[number].job.limits for number in waiting]
        assert limits == [{Resource.NETWORK}, {Resource.CPU}]
        controller.take("n0", SubtreeEnded(other, 1, None))
        await passes()
        # It has kept its place.
        assert controller.store.find(waiting[0]).hosts == ("n0",)
        assert controller.store.find(waiting[1]).hosts == ()

    asyncio.run(scenario())


def test_node_without_an_account_judges_no_label(store):
    async def scenario():
        controller = controller_of(store)
        number = await start(controller, "lu", ranks=4, **MEMORY)
        controller.take("n0", SubtreeEnded(number, 1, None))
        controller.take("n0", JobShared(number, 1, (), IN_MPI, over=True))
        controller.take("n1", JobShared(number, 1, (), None, over=True))
        assert store.learned.labels() == []
        controller.take("n0", JobShared(number, 1, (), IN_MPI, over=True))
        assert store.learned.labels() == []  # it was judged, once

    asyncio.run(scenario())


def test_memory_shows_by_the_speed_beside_memory(store):
    async def scenario():
        controller = controller_of(store, ("n0",))
        computes = Spent(90 * NS_PER_S, 0, 0, 90 * NS_PER_S, 0, 0, 0, 0)
        stream = await start(controller, "stream", **MEMORY)
        gups = await start(controller, "gups", **CPU)
        controller.take("n0", JobShared(gups, 1, (beside(stream, 1.3),)))
        controller.take("n0", SubtreeEnded(gups, 1, None))
        report = JobShared(gups, 1, (beside(stream, 1.3),), computes, over=True)
        controller.take("n0", report)
        (kept,) = store.learned.labels()
        assert (kept.program, kept.found, kept.wrong) == ("gups", {Resource.MEMORY}, 1)

    asyncio.run(scenario())


def test_label_is_judged_though_the_last_report_has_no_neighbour(store):
    """A scheduler daemon that restarts forgets what it saw."""

    async def scenario():
        controller = controller_of(store, ("n0",))
        stream = await start(controller, "stream", **MEMORY)
        gups = await start(controller, "gups", **CPU)
        controller.take("n0", JobShared(gups, 1, (beside(stream, 1.3),)))
        controller.take("n0", SubtreeEnded(gups, 1, None))
        controller.take("n0", JobShared(gups, 1, (), IN_MPI, over=True))
        (kept,) = store.learned.labels()
        assert (kept.program, kept.found) == ("gups", {Resource.NETWORK})

    asyncio.run(scenario())


def test_domain_without_halves_learns_nothing(store):
    async def scenario():
        controller = controller_of(store, ("n0",), SymbiosisSettings())
        number = await start(controller, "lu", **MEMORY)
        controller.take("n0", JobShared(number, 1, (), IN_MPI, over=True))
        assert store.learned.labels() == []
        assert "have no halves" in (await controller.ask(do="pairs"))["error"]

    asyncio.run(scenario())


@pytest.mark.parametrize(
    "wrong",
    [
        JobShared(1, 1, (BesideJob(1, 1, 2, 3),) * (NEIGHBOURS_MOST + 1)),
        JobShared(1, 1, (BesideJob(0, 1, 1, 1),)),
        JobShared(1, 1, (BesideJob(1, 0, 1, 1),)),
        JobShared(1, 1, (BesideJob(1, 1, 1_000_001, 1),)),
        JobShared(1, 1, (BesideJob(1, 1, float("inf"), 1),)),
        JobShared(1, 1, (), Spent(NATURAL_MOST + 1, 0, 0, 0, 0, 0, 0, 0)),
        JobShared(1, 1, (), Spent(-1, 0, 0, 0, 0, 0, 0, 0)),
    ],
)
def test_report_beyond_its_bounds_is_malformed(wrong):
    with pytest.raises(Malformed):
        decode(encode(wrong))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=25)
@given(
    st.lists(
        st.builds(
            JobShared,
            job=st.integers(1, 4),
            start=st.integers(0, 2),
            beside=st.lists(
                st.builds(
                    BesideJob,
                    job=st.integers(1, 5),
                    trials=st.integers(1, 40),
                    slowdown=st.integers(0, 1_000_000),
                    at_least=st.integers(0, 1_000_000),
                ),
                max_size=4,
            ).map(tuple),
            spent=st.none() | st.builds(Spent, *[st.integers(0, NATURAL_MOST)] * 8),
            over=st.booleans(),
        ),
        max_size=12,
    ),
    st.data(),
)
def test_no_report_of_a_node_costs_more_than_itself(store, messages, data):
    async def scenario():
        controller = controller_of(store)
        for name, label in (("lu", CPU), ("ep", MEMORY), ("lu", CPU)):
            await start(controller, name, **label)
        for message in messages:
            sender = data.draw(st.sampled_from(["n0", "n1"]))
            try:
                controller.take(sender, decode(encode(message)))
            except CoschedError:
                continue
        await passes()
        await pairs(controller)
        assert controller_of(store).jobs.shared is not None

    asyncio.run(scenario())
