"""Requests that wait for a job leave nothing behind when their users leave."""

import asyncio
import json

import msgspec
import pytest

from cosched.cluster.controller.requests import Requests
from cosched.cluster.coupling.clock import DomainClock
from cosched.cluster.engines.native.answering import Answering
from cosched.cluster.engines.native.engine import NativeEngine
from cosched.cluster.engines.native.records import Records
from cosched.cluster.job_size import JobSize
from cosched.cluster.keys import load_keys, make_keys
from cosched.cluster.messages import PROTOCOL, Hello, UserLeft, UserReply, UserRequest
from cosched.cluster.paths import DomainPaths
from cosched.cluster.record import Record, State
from cosched.cluster.store import JobStore
from cosched.cluster.submission import Submission
from cosched.cluster.user_socket import Person
from cosched.config.domain import DomainConfig
from cosched.core.errors import CoschedError
from cosched.core.units import NS_PER_MS, NS_PER_S
from cosched.service.allowance import REST, Allowance

JOB = Submission(token="t", name="a", argv=("/bin/true",), environ={}, cwd="/")


@pytest.fixture
def records(tmp_path):
    """The records of a domain with job 1, which waits."""
    store = JobStore(tmp_path / "jobs.sqlite", ["n1"])
    records = Records(store, DomainClock(), print, lambda _record: None)
    records.add(Record(0, 7, 7, JOB, 0, State.QUEUED))
    yield records
    store.close()


def test_each_wait_ends_in_its_state(records):
    record = records.known(1)

    async def work():
        waits = {
            "running": asyncio.create_task(records.wait_running(1)),
            "over": asyncio.create_task(records.wait_over(1, 1)),
            "ended": asyncio.create_task(records.wait(1)),
        }
        seen = []
        for changes in (
            {"state": State.STARTING, "start": 1},
            {"state": State.RUNNING},
            {"state": State.QUEUED},
            {"state": State.STARTING, "start": 2},
        ):
            await asyncio.sleep(0)
            records.save(record, **changes)
            await asyncio.sleep(0)
            seen.append([name for name, task in waits.items() if task.done()])
        records.finish(record, State.DONE, 0, "")
        assert await waits["ended"] is record
        assert not records._waits
        return seen

    assert asyncio.run(work()) == [
        [],
        ["running"],
        ["running", "over"],
        ["running", "over"],
    ]


@pytest.mark.parametrize(
    "leaves",
    [{"size": JobSize(((0,),))}, {"state": State.DONE}, {"state": State.QUEUED}],
    ids=["gives the node back", "ends", "waits for another start"],
)
def test_wait_for_a_free_node_ends_when_the_job_is_away(records, leaves):
    record = records.known(1)

    async def work():
        running = {"state": State.RUNNING, "start": 1, "hosts": ("n1", "n2")}
        records.save(record, **running, size=JobSize(((0, 1),)))
        wait = asyncio.create_task(records.wait_away(1, 1, frozenset({"n2", "n3"})))
        for changes in ({"reason": "another line"}, leaves):
            await asyncio.sleep(0)
            assert not wait.done()
            records.save(record, **changes)
        assert await wait is record

    asyncio.run(work())


def test_wait_of_a_user_who_left_is_removed(records):
    async def leave():
        task = asyncio.create_task(records.wait(1))
        await asyncio.sleep(0)
        assert records._waits[1]
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert not records._waits

    asyncio.run(leave())


@pytest.mark.parametrize("restarted", [False, True])
def test_controller_forgets_requests_of_users_who_left(tmp_path, restarted):
    config = DomainConfig("test", "127.0.0.1:1", {"n1": "127.0.0.1:2"}, 4)
    make_keys(tmp_path / "keys", config.members)
    keys = load_keys(tmp_path / "keys", "controller", config.members)
    store = JobStore(tmp_path / "jobs.sqlite", config.node_names)
    store.add("t", Record(0, 7, 7, JOB, 0, State.HELD))
    paths = DomainPaths(tmp_path)
    paths.directory.mkdir()
    engine = NativeEngine(config, keys, paths, store, print)
    engine._links.send = lambda *_: None
    engine._links.listen = lambda _address: None

    async def leave():
        engine.open(Requests(engine.handlers, engine.may_vouch, "").answer)
        body = json.dumps({"do": "wait", "job": 1}).encode()
        for number in range(3):
            engine._take("n1", UserRequest(number, 7, 7, body))
        await asyncio.sleep(0.01)
        assert len(engine._tasks.running) == 3
        engine._lose(engine._members.by_name["n1"], "a test")
        await asyncio.sleep(0.01)
        assert len(engine._tasks.running) == 3  # the node may come back
        if restarted:
            engine._take("n1", Hello(PROTOCOL, 8, config.digest("n1"), {"slots": 4}, ()))
        else:
            for number in range(3):
                engine._take("n1", UserLeft(number))
        await asyncio.sleep(0.01)
        assert not engine._tasks.running

    asyncio.run(leave())
    store.close()


def test_request_that_comes_again_is_answered_once():
    answered, sent = [], []

    async def answer(_person, body):
        answered.append(body)
        await go.wait()
        return b"answer to " + body

    async def ask():
        answering = Answering(answer, lambda *each: sent.append(each), asyncio.create_task)
        for number in (5, 6, 5, 6):  # a new session has begun
            answering.take("n1", UserRequest(number, 7, 7, b"%d" % number))
        await asyncio.sleep(0)
        go.set()
        while not answering.empty:
            await asyncio.sleep(0)
        answering.take("n1", UserRequest(6, 7, 7, b"6"))  # its answer is under way
        assert answering.empty
        assert answered == [b"5", b"6"]
        assert sent == [("n1", UserReply(n, b"answer to %d" % n)) for n in (5, 6)]
        answering.forget("n1")  # another life, or the answers are lost
        answering.take("n1", UserRequest(5, 7, 7, b"5"))
        assert not answering.empty
        answering.forget("n1")

    go = asyncio.Event()
    asyncio.run(ask())


def test_user_may_leave_in_the_moment_in_which_the_job_ends(records):
    async def leave():
        task = asyncio.create_task(records.wait(1))
        await asyncio.sleep(0)
        task.cancel()
        records.finish(records.known(1), State.DONE, 0, "")
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(leave())


def test_first_end_among_several_jobs_is_the_answer(records):
    for token in "uvw":
        job = msgspec.structs.replace(JOB, token=token)
        records.add(Record(0, 7, 7, job, 0, State.QUEUED))

    async def work():
        task = asyncio.create_task(records.wait_any([1, 2, 3], 30))
        await asyncio.sleep(0)
        records.finish(records.known(4), State.DONE, 0, "")  # not one of them
        await asyncio.sleep(0)
        assert not task.done()
        records.finish(records.known(2), State.FAILED, 3, "")
        records.finish(records.known(3), State.DONE, 0, "")
        assert [record.number for record in await task] == [2, 3]
        assert [record.number for record in await records.wait_any([1, 2], 30)] == [2]
        assert await records.wait_any([1], 0.01) == []
        assert not records._waits

    asyncio.run(work())


def test_wait_of_a_user_who_left_is_removed_from_all_jobs(records):
    records.add(Record(0, 7, 7, msgspec.structs.replace(JOB, token="u"), 0, State.QUEUED))

    async def leave():
        task = asyncio.create_task(records.wait_any([1, 2], 30))
        await asyncio.sleep(0)
        assert set(records._waits) == {1, 2}
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert not records._waits

    asyncio.run(leave())


class Pause:
    """Lets others work once."""

    def __await__(self):
        yield


def test_only_work_counts_and_no_wait(monkeypatch):
    rests, now_ns = [], [0]

    def pass_time(ns):
        now_ns[0] += ns

    async def sleep(rest_s):
        rests.append(rest_s)

    async def answer(_person, request):
        pass_time(NS_PER_MS)
        asyncio.get_running_loop().call_soon(pass_time, NS_PER_S)
        await Pause()
        pass_time(NS_PER_MS)
        if "job" not in request:
            raise CoschedError("no job")

    where = "cosched.cluster.controller.requests"
    monkeypatch.setattr(f"{where}.asyncio.sleep", sleep)
    monkeypatch.setattr(f"{where}.time.monotonic_ns", lambda: now_ns[0])
    requests = Requests({"wait": answer, "submit": answer}, lambda _: True, "")
    requests._allowance = requests._refused = Allowance(0)
    bodies = [{"do": "wait", "job": 1}, {"do": "submit", "job": {}}, {"do": "wait"}]
    for number, body in enumerate(bodies):
        person = Person(4711 + number, 1)
        asyncio.run(requests.answer(person, json.dumps(body).encode()))
    assert rests == [pytest.approx(0.002 * REST)] * 3
