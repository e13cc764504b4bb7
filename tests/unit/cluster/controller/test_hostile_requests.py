"""Requests of a hostile user are answered by one line; the controller goes on."""

import asyncio
import itertools
import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cosched.cluster.engines.native.jobs import Jobs
from cosched.cluster.engines.native.node_entries import NodeEntries, NodeState
from cosched.cluster.store import JobStore
from cosched.cluster.user_socket import Person
from cosched.config.domain import DomainConfig
from cosched.core.units import NS_PER_S
from cosched.service.allowance import MALFORMED_TIMES, REST, Allowance
from tests.unit.cluster.controller.controller_alone import requests_about

USER = Person(4711, 4711)
OTHER = Person(4712, 4712)
JOB = {"token": "t", "name": "a", "argv": ["/bin/true"], "environ": {}, "cwd": "/"}

anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(max_size=3), inner, max_size=2)
    ),
    max_leaves=4,
)


CONFIG = DomainConfig("test", "127.0.0.1:1", {"n1": "127.0.0.1:2"}, 4)


@pytest.fixture
def members():
    return NodeEntries(CONFIG)


@pytest.fixture
def requests(tmp_path, members):
    store = JobStore(tmp_path / "jobs.sqlite", CONFIG.node_names)
    jobs = Jobs(CONFIG, store, members, lambda *_: None, lambda _: None)
    yield requests_about(CONFIG, jobs, store, members)
    store.close()


def ask(requests, person, **request):
    body = request.pop("body", None) or json.dumps(request).encode()

    async def answer():
        return await asyncio.wait_for(requests.answer(person, body), 5)

    return json.loads(asyncio.run(answer()))


@pytest.mark.parametrize(
    "more",
    [
        {"ranks": 10**12},
        {"nodes": 10**12, "ppn": 1},
        {"ranks": 4 * 10**9, "nodes": 4 * 10**9},
        {"time_ns": 2**70},
        {"time_ns": 10**400},
        {"ranks": -(10**30)},
        {"umask": -1},
        {"token": ""},
        {"token": "x" * 1000},
        {"argv": ["/bin/true", "a\0b"]},
        {"environ": {"A=B": "c"}},
        {"output": "\0"},
        {"output": "\ud800"},
    ],
)
def test_submission_that_cannot_be_is_refused(requests, more):
    assert "error" in ask(requests, USER, do="submit", job={**JOB, **more})


@pytest.mark.parametrize("ended", ["x", -1, 1e400, [], {}, 1.5])
def test_odd_number_of_ended_jobs_is_refused(requests, ended):
    assert "error" in ask(requests, USER, do="queue", ended=ended)


def test_deeply_nested_request_is_refused(requests):
    assert "error" in ask(requests, USER, body=b"[" * 1_000_000)


@settings(
    max_examples=80,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    st.sampled_from(
        ["queue", "job", "cancel", "hold", "unhold", "nodes", "drain", "submit"]
    ),
    st.dictionaries(
        st.sampled_from(["job", "ended", "names", "until", "reason"]), anything
    ),
    st.sampled_from([USER, Person(0, 0)]),
)
def test_each_request_has_an_answer(requests, what, more, person):
    assert ask(requests, person, **{"do": what, **more}).keys() <= {"ok", "error"}


def test_token_of_another_user_gives_no_job(requests, members, monkeypatch):
    monkeypatch.setattr("os.geteuid", lambda: 0)
    members.by_number[0].state = NodeState.UP
    assert ask(requests, USER, do="submit", job=JOB) == {"ok": {"job": 1}}
    assert ask(requests, USER, do="submit", job=JOB) == {"ok": {"job": 1}}
    assert "taken" in ask(requests, OTHER, do="submit", job=JOB)["error"]


def test_list_of_jobs_has_the_first_words_of_long_commands(requests):
    for number, words in enumerate((["a"], ["b" * 600, "c" * 600, "d"], ["e" * 999, "f"])):
        job = {**JOB, "token": str(number), "argv": words, "held": True}
        ask(requests, USER, do="submit", job=job)
    found = [each["command"] for each in ask(requests, USER, do="queue")["ok"]]
    assert found == [["a"], ["b" * 600, "c" * 399 + "..."], ["e" * 999, "..."]]
    assert ask(requests, USER, do="job", job=2)["ok"]["command"][2] == "d"


def test_answer_that_is_too_long_for_a_message_is_refused(requests, monkeypatch):
    ask(requests, USER, do="submit", job={**JOB, "held": True})
    monkeypatch.setattr("cosched.cluster.controller.requests.ANSWER_MOST", 100)
    answer = ask(requests, USER, do="queue")
    assert answer["error"].endswith("bytes; ask for single jobs")


def test_user_of_many_refused_requests_waits_and_no_other_one(requests, monkeypatch):
    rests = []

    async def sleep(rest_s):
        rests.append(rest_s)

    monkeypatch.setattr("cosched.cluster.controller.requests.asyncio.sleep", sleep)
    requests._refused = Allowance(0)
    for body in (b"{", b"[]", b'{"do": "dance"}', b'{"do": "job", "job": 7}'):
        assert "error" in ask(requests, USER, body=body)
    assert len(rests) == 4
    assert "ok" in ask(requests, USER, do="queue")
    assert len(rests) == 4


def test_malformed_request_counts_five_times(requests, monkeypatch):
    where, ticks, rests = "cosched.cluster.controller.requests", itertools.count(), []

    async def sleep(rest_s):
        rests.append(round(rest_s * NS_PER_S))

    monkeypatch.setattr(f"{where}.asyncio.sleep", sleep)
    monkeypatch.setattr(f"{where}.time.monotonic_ns", lambda: next(ticks) * 1000)
    requests._refused = Allowance(0)
    right = b'{"do": "job", "job": 7}'  # there is no such job
    bodies = (b"{", b'{"do": "dance"}', b'{"do": "queue", "ended": "x"}', right)
    for number, body in enumerate(bodies):
        assert "error" in ask(requests, Person(5000 + number, 1), body=body)
    once = REST * 1000
    assert rests == [once * MALFORMED_TIMES] * 3 + [once]
