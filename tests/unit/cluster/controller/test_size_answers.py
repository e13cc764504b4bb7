"""Users and operators see the sizes of malleable jobs and their changes."""

import asyncio

import msgspec
import pytest

from cosched.cluster.coupling.domain_figures import figures_alone
from cosched.cluster.coupling.metrics import metrics_of
from cosched.cluster.engines.native.size_answers import nodes_by_kind
from cosched.cluster.record import State
from cosched.cluster.size_messages import Admit, JobSensed
from cosched.cluster.store import JobStore
from cosched.core.bounds import NATURAL_MOST
from tests.unit.cluster.controller.controller_alone import passes
from tests.unit.cluster.controller.test_changing_sizes import NODES, TIMES, Played


async def ask(domain, number, **request):
    answer = await domain.controller.ask(job=number, **request)
    return answer["ok"]


async def job_that_gave_nodes(domain):
    """Returns the number of a job that gave two of its four nodes to another one."""
    first = await domain.run(minimum=1, ideal=4)
    second = domain.controller.submit(nodes=2, ppn=1)
    await passes()
    await domain.change((0, 1))
    domain.begin(second)
    await passes()
    return first


def test_a_change_is_shown_with_its_reason_and_its_cost(store):
    async def scenario():
        domain = Played(store)
        number = await job_that_gave_nodes(domain)
        shown = await ask(domain, number, do="job")
        assert shown["why"].startswith("running on n0, n1: 2 nodes of 1-4; ")
        assert (shown["nodes"], shown["tasks"], shown["hosts"]) == (2, 2, ["n0", "n1"])
        (change,) = shown["changes"]
        assert change.pop("ended_ns") >= change.pop("ordered_ns")
        assert change["phases"].pop("prepare_s") >= 0.0
        assert change == {
            "before": 4,
            "after": 2,
            "reason": "gave 2 nodes to job 2: its minimum was 2, 0 were free",
            "refused": "",
            "stood_s": 0.00002232,
            "phases": {
                "agree_s": 1e-9,
                "wait_s": 20e-9,
                "spawn_s": 300e-9,
                "connect_s": 4e-6,
                "start_s": 5e-6,
                "move_s": 6e-6,
                "resume_s": 7e-6,
                "empty_s": 8e-9,
                "moved_bytes": 9,
            },
            "slower": None,
        }
        rigid = await ask(domain, 2, do="job")
        assert (rigid["minimum"], rigid["ideal"], rigid["changes"]) == (None, None, [])

    asyncio.run(scenario())


def test_cost_is_not_above_the_time_of_the_change(store):
    """The times come from a page that the job's user writes."""
    times = msgspec.structs.replace(
        TIMES, wait_ns=NATURAL_MOST, move_ns=NATURAL_MOST, spawn_ns=NATURAL_MOST
    )

    async def scenario():
        domain = Played(store)
        number = await domain.run(minimum=1, ideal=4)
        domain.controller.submit(nodes=2, ppn=1)
        await passes()
        await domain.admit()
        await domain.end((0, 1), times=times)
        (change,) = store.changes(number)
        assert change.cost_ns == change.ended_ns - change.ordered_ns
        assert (
            domain.jobs.queue.place.running[number].since_ns <= domain.jobs.clock.now_ns()
        )

    asyncio.run(scenario())


def test_damaged_change_is_left_out_with_one_line(tmp_path):
    lines = []
    store = JobStore(tmp_path / "jobs.sqlite", NODES, lines.append)
    for job in (1, 1, 2):
        store._file.run(
            "INSERT INTO changes VALUES (?, 1, ?, ?)", (job, len(lines), b'{"cost_ns": -1}')
        )
        lines.append("")
    found = [store.changes(job) for job in (1, 2, 1, 2)]
    store.close()
    assert found == [[]] * 4
    assert [line.partition(" left")[0] for line in lines[3:]] == [
        f"job {job}: a change of its size is" for job in (1, 2)
    ]


def test_cost_of_a_change_is_known_once_two_sizes_are_measured(store):
    async def scenario():
        domain = Played(store)
        number = await job_that_gave_nodes(domain)
        root = domain.jobs.starts.active[number].root
        for size, exec_ns in ((4, 1000), (2, 1500)):
            sensed = JobSensed(number, 1, size, 10, exec_ns, 0, 0, 0, 0, 0)
            domain.controller.take(root, sensed)
        (change,) = (await ask(domain, number, do="job"))["changes"]
        assert change["slower"] == pytest.approx(0.5)

    asyncio.run(scenario())


def test_open_and_refused_changes_are_shown(store):
    async def scenario():
        domain = Played(store)
        number = await domain.run(minimum=1, ideal=4)
        assert "ok" in await domain.controller.ask(do="resize", job=number, ideal=3)
        await passes()
        (change,) = (await ask(domain, number, do="job"))["changes"]
        assert (change["before"], change["after"], change["ended_ns"]) == (4, 3, None)
        assert change["reason"] == "gave 1 node: it wants 3 at most"
        await domain.admit()
        await domain.end((), refused="its program left the loop")
        (change,) = (await ask(domain, number, do="job"))["changes"]
        assert change["refused"] == "its program left the loop"
        assert change["phases"] is None
        assert change["ended_ns"] is not None

    asyncio.run(scenario())


def test_running_job_is_resized_and_a_waiting_one_starts_within_its_bounds(store):
    async def scenario():
        domain = Played(store)
        first = await domain.run(minimum=3, ideal=4)
        second = domain.controller.submit(minimum=3, ideal=4)
        await passes()
        assert domain.record(second).state is State.QUEUED
        for number in (first, second):
            answer = await ask(domain, number, do="resize", minimum=1, ideal=2)
            assert (answer["minimum"], answer["ideal"]) == (1, 2)
        await passes()
        admits = await domain.admit()
        assert len(admits) == len(NODES)
        await domain.end((0, 1))
        assert domain.nodes(first) == ("n0", "n1")
        assert domain.nodes(second) == ("n2", "n3")
        shown = await ask(domain, second, do="job")
        assert (shown["minimum"], shown["ideal"]) == (1, 2)
        assert domain.sent(Admit) == []

    asyncio.run(scenario())


def test_waiting_malleable_job_needs_its_minimum(store):
    async def scenario():
        domain = Played(store)
        await domain.run(minimum=3, ideal=4)
        number = domain.controller.submit(minimum=2, ideal=4)
        await passes()
        shown = await ask(domain, number, do="job")
        assert shown["why"].startswith("waits: 0 nodes free, needs 2")

    asyncio.run(scenario())


def test_metrics_count_changes_and_nodes(store, tmp_path):
    async def scenario():
        domain = Played(store)
        number = await job_that_gave_nodes(domain)
        await ask(domain, number, do="resize", ideal=1)
        await passes()
        await domain.admit()
        await domain.end((), refused="its program left the loop")
        live = domain.jobs.records.live.values()
        assert nodes_by_kind(live) == {"malleable": 2, "rigid": 2}

    asyncio.run(scenario())
    again = JobStore(tmp_path / "jobs.sqlite", NODES)
    for each in (store, again):
        assert dict(each.changes_ended) == {False: 1, True: 1}
    again.close()


def test_metrics_have_their_labels():
    figures = msgspec.structs.replace(
        figures_alone(4),
        size_changes={"done": 3, "refused": 1},
        job_nodes={"malleable": 2, "rigid": 1},
    )
    found = {
        (sample.name, *sample.labels.values()): sample.value
        for metric in metrics_of(figures)
        for sample in metric.samples
    }
    assert found["cosched_domain_size_changes_total", "done"] == 3
    assert found["cosched_domain_size_changes_total", "refused"] == 1
    assert found["cosched_domain_job_nodes", "malleable"] == 2
