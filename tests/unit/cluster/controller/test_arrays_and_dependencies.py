"""A controller with arrays of jobs, and with jobs that wait for others."""

import asyncio
from collections import Counter

import pytest

from cosched.cluster.engines.native import batch_jobs
from cosched.cluster.engines.native.starts.start import job_object
from cosched.cluster.messages import (
    ENDED,
    Failure,
    StartReport,
    SubtreeEnded,
    SubtreePrepared,
)
from cosched.cluster.output_names import expand
from cosched.cluster.record import State
from cosched.core.cluster.startup.two_phase import Stage
from cosched.core.errors import CoschedError
from tests.unit.cluster.controller.controller_alone import NODES, Controller, passes


async def up(store, **more):
    controller = Controller(store, **more)
    for name in controller.members.by_name:
        controller.join(name)
    controller.recovery.resolve()
    return controller


async def run(controller, number):
    await passes()
    root = controller.jobs.starts.active[number].root
    controller.take(root, SubtreePrepared(number, controller.store.find(number).start))


async def end(controller, number, failure=None):
    start = controller.jobs.starts.active[number]
    controller.take(start.root, SubtreeEnded(number, start.record.start, failure))
    await passes()


def checked(controller, **more):
    record = controller._record(**more)
    record.submission.check()
    return controller.submitting.submit(record)


def running(controller):
    return sorted(controller.jobs.starts.active)


def states(store, first, count):
    return [store.find(number).state for number in range(first, first + count)]


def test_an_array_is_a_job_for_each_index_and_starts_as_its_bound_allows(store):
    async def scenario():
        controller = await up(store)
        first = controller.submit(array="3,5-7%2", output="out-%A_%a")
        await passes()
        assert running(controller) == [1, 2]
        tasks = store.tasks_of(first)
        assert [each.task for each in tasks] == [3, 5, 6, 7]
        assert [each.label for each in tasks] == ["1_3", "1_5", "1_6", "1_7"]
        await run(controller, 1)
        await end(controller, 1)
        assert running(controller) == [2, 3]
        assert states(store, 1, 4)[0] is State.DONE
        environ = job_object(store.find(3), (1,), controller.config.queue).environ
        assert environ["COSCHED_ARRAY_TASK_ID"] == "6"
        assert environ["COSCHED_ARRAY_JOB_ID"] == "1"
        assert environ["COSCHED_ARRAY_TASK_COUNT"] == "4"
        assert "SLURM_ARRAY_TASK_ID" not in environ
        assert expand("out-%A_%4a.%j", store.find(3)) == "out-1_0006.3"

    asyncio.run(scenario())


def test_tasks_have_names_of_their_own_for_mpi(store):
    async def scenario():
        controller = await up(store)
        controller.submit(array="1-2", slurm_variables=True)
        queue = controller.config.queue
        one, two = (job_object(store.find(number), (1,), queue) for number in (1, 2))
        assert one.name != two.name
        assert two.environ["SLURM_ARRAY_TASK_ID"] == "2"

    asyncio.run(scenario())


def test_an_array_that_is_sent_twice_counts_once(store):
    async def scenario():
        controller = await up(store)
        record = controller._record(array="1-5")
        assert controller.submitting.submit(record).number == 1
        assert controller.submitting.submit(record).number == 1
        assert len(store.live()) == 5

    asyncio.run(scenario())


def test_a_thousand_tasks_are_one_commit_and_one_message_a_start(store, monkeypatch):
    async def scenario():
        controller = await up(store)
        commits = []
        run_one = store._file._run

        def counted(statement, values):
            if statement == "COMMIT" or not store._file._file.in_transaction:
                commits.append(statement)
            return run_one(statement, values)

        monkeypatch.setattr(store._file, "_run", counted)
        controller.submit(array="1-1000%5")
        assert len(commits) <= 2
        await passes()
        assert len(running(controller)) == len(NODES)
        assert len(controller.jobs.queue.waiting) == 5 - len(NODES)

    asyncio.run(scenario())


def test_a_job_waits_for_any_end_or_for_success(store):
    async def scenario():
        controller = await up(store)
        controller.submit()
        after = controller.submit(after="1")
        after_ok = controller.submit(after_ok="1")
        late = controller.submit(after=f"{after_ok}")
        await run(controller, 1)
        assert running(controller) == [1]
        found = await controller.ask(do="job", job=after_ok)
        assert found["ok"]["waits_for"] == "after success of 1"
        assert "1 job has not ended yet" in found["ok"]["why"]
        await end(controller, 1, Failure(3, "rank 0 ended with status 3"))
        assert running(controller) == [after, late]
        dropped = store.find(after_ok)
        assert dropped.state is State.CANCELLED
        assert dropped.reason == (
            "job 1, whose success this one waits for (--after-ok), has ended: failed"
        )

    asyncio.run(scenario())


def test_a_job_waits_for_all_tasks_of_an_array_or_for_some(store):
    async def scenario():
        controller = await up(store)
        controller.submit(array="1-3")
        all_tasks, last = controller.submit(after_ok="1"), controller.submit(after="1_3")
        for number in (3, 1, 2):
            await run(controller, number)
            assert all_tasks not in running(controller)
            await end(controller, number)
            assert last in running(controller)
        assert all_tasks in running(controller)

    asyncio.run(scenario())


def test_a_chain_ends_with_its_first_failure(store):
    async def scenario():
        controller = await up(store)
        controller.submit()
        for number in range(1, 200):
            controller.submit(after_ok=str(number))
        await run(controller, 1)
        await end(controller, 1, Failure(1, "no"))
        assert Counter(states(store, 2, 199)) == {State.CANCELLED: 199}
        assert not controller.jobs.records.live
        assert not controller.jobs.queue.batches

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("after", "line"),
    [
        ({"after": "9"}, "--after 9: there is no such job"),
        ({"after_ok": "1_2"}, "--after-ok 1_2: job 1 is no array"),
        ({"after": "2_9"}, "--after 2_9: there is no such task"),
        ({"after": "5"}, "--after 5: belongs to another user"),
        ({"after_ok": "4"}, "job 4, whose success .*: cancelled"),
        ({"after": "x"}, "--after: 'x' is not a job"),
        ({"after": "1", "mates": "g@d"}, "a job with mates"),
        ({"array": "1-2", "at_once": True}, "a job that starts at once"),
        ({"array": "2-1"}, "array '2-1'"),
    ],
)
def test_jobs_that_cannot_be_are_refused_in_one_line(store, after, line):
    async def scenario():
        controller = await up(store)
        controller.submit()
        controller.submit(array="1-2")
        cancelled = controller.submit(held=True)
        assert cancelled == 4
        controller.submitting.cancel(4)
        other = controller._record()
        other.uid = 8
        controller.submitting.submit(other)
        with pytest.raises(CoschedError, match=line):
            checked(controller, **after)
        assert store.find(6) is None

    asyncio.run(scenario())


def test_cancel_hold_and_unhold_a_whole_array_and_a_range(store):
    async def scenario():
        controller = await up(store)
        controller.submit(array="1-9%1")
        await run(controller, 1)
        assert (await controller.ask(do="hold", job=1, tasks="2-3"))["ok"] == {"job": 1}
        assert states(store, 2, 3) == [State.HELD, State.HELD, State.QUEUED]
        found = await controller.ask(do="queue", folded=True)
        shown = [(each["job"], each.get("folded")) for each in found["ok"]]
        assert shown == [(1, None), (2, "1_[2-3%1]"), (4, "1_[4-9%1]")]
        await end(controller, 1)
        assert running(controller) == [4]
        await controller.ask(do="unhold", job=1)
        assert State.HELD not in states(store, 1, 9)
        await controller.ask(do="cancel", job=1, tasks="7-9")
        assert states(store, 7, 3) == [State.CANCELLED] * 3
        tasks = (await controller.ask(do="tasks", job=1))["ok"]
        assert len(tasks["tasks"]) == 9
        assert tasks["why"] == (
            "array of 9 tasks, at most 1 at a time: 4 queued, 1 starting, 1 done, "
            "3 cancelled"
        )
        await controller.ask(do="cancel", job=1)
        assert controller.jobs.starts.active[4].cancelled
        await end(controller, 4)
        assert not controller.jobs.records.live
        assert not controller.jobs.queue.batches
        again = await controller.ask(do="cancel", job=1, tasks="1")
        assert again["error"] == "job 1: has ended (done)"
        missing = await controller.ask(do="cancel", job=1, tasks="12")
        assert missing["error"] == "job 1_12: there is no such task"
        wrong = await controller.ask(do="cancel", job=1, tasks=[3])
        assert "the tasks of an array" in wrong["error"]

    asyncio.run(scenario())


def test_other_users_cannot_steer_an_array(store):
    async def scenario():
        controller = await up(store)
        controller.submit(array="1-3", held=True)
        found = await controller.ask(uid=8, do="cancel", job=1, tasks="1-2")
        assert found["error"] == "job 1: belongs to another user"

    asyncio.run(scenario())


def test_nothing_is_lost_when_the_controller_restarts(store):
    async def scenario():
        controller = await up(store)
        controller.submit(array="1-6%3", nodes=1)
        controller.submit(after_ok="1_1")  # 7
        controller.submit(after="1")  # 8
        for number in (1, 2, 3):
            await run(controller, number)
        await end(controller, 2)
        assert running(controller) == [1, 3, 4]
        again = Controller(store)
        for name in NODES:
            record = next(
                each.record
                for each in controller.jobs.starts.active.values()
                if each.record.hosts == (name,)
            )
            went = record.state is State.RUNNING
            stage = Stage.GONE.value if went else ENDED
            again.join(name, reports=[StartReport(record.number, 1, stage, 0, root=True)])
        again.recovery.resolve()
        await passes()
        queue = again.jobs.queue
        assert queue.batches.kept == [5, 6, 7, 8]
        await end(again, 1)
        assert running(again)[-1] >= 4
        inside = [each for each in (1, 3, 4, 5, 6) if each in queue.jobs]
        assert len([each for each in inside if each not in queue.batches.kept]) <= 3
        assert store.find(7).let_in_ns is not None

    asyncio.run(scenario())


def test_a_failure_before_a_crash_ends_the_jobs_that_waited_for_success(store):
    async def scenario():
        controller = await up(store)
        controller.submit()
        controller.submit(after_ok="1")
        first = store.find(1)
        first.state = State.FAILED
        store.save(first)  # the controller was killed here
        again = await up(store)
        assert store.find(2).state is State.CANCELLED
        assert not again.jobs.records.live

    asyncio.run(scenario())


def test_a_held_job_that_can_never_start_ends_when_it_is_released(store):
    async def scenario():
        controller = await up(store)
        controller.submit(held=True)
        controller.submit(after_ok="1", held=True)
        controller.submitting.cancel(1)
        found = await controller.ask(do="unhold", job=2)
        assert found["error"].startswith("job 1, whose success this one waits")
        assert store.find(2).state is State.CANCELLED

    asyncio.run(scenario())


def test_a_user_has_a_bounded_number_of_jobs(store, monkeypatch):
    async def scenario():
        monkeypatch.setattr(batch_jobs, "LIVE_MOST", 10)
        controller = await up(store)
        controller.submit(array="1-6", held=True)
        with pytest.raises(CoschedError, match="you have 6 jobs in this domain"):
            controller.submit(array="1-5")
        assert len(store.live()) == 6
        controller.submit(array="1-4", held=True)

    asyncio.run(scenario())


def test_holding_an_array_is_one_commit(store, monkeypatch):
    async def scenario():
        controller = await up(store)
        controller.submit(array="1-100%1", held=True)
        commits = []
        save_all = store.save_all
        monkeypatch.setattr(store, "save", lambda record: commits.append([record]))
        monkeypatch.setattr(
            store, "save_all", lambda records: (commits.append(records), save_all(records))
        )
        await controller.ask(do="unhold", job=1)
        await controller.ask(do="hold", job=1)
        assert list(map(len, commits)) == [100, 100]
        assert {each.state for each in store.tasks_of(1)} == {State.HELD}
        assert not controller.jobs.queue.batches

    asyncio.run(scenario())
