"""Whatever comes in is a value of its type or one error of one line. A handler takes each
such value or refuses it."""

from __future__ import annotations

import asyncio
import typing
from unittest.mock import Mock

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cosched.cluster import links, messages, submission, user_input
from cosched.cluster.agent import frames
from cosched.cluster.agent.nodejob import Designs, NodeJob
from cosched.cluster.agent.route import Route, route_of
from cosched.cluster.controller import requests
from cosched.cluster.coupling import mail
from cosched.cluster.engines.slurm import jobs, waiting_gates
from cosched.cluster.message_kinds import OfJob
from cosched.cluster.messages import Chunk
from cosched.cluster.store import JobStore
from cosched.core.cluster.coupling import snapshot
from cosched.core.cluster.startup import jobobject, seal
from cosched.core.cluster.startup.tree import Tree
from cosched.core.errors import CoschedError
from cosched.core.names import CONTROLLER
from cosched.core.trace import codec, job_record
from cosched.node.sockets.control import parse_request
from tests.tools.arbitrary import NAMES, PLAIN, jsoned, packed, values
from tests.unit.cluster.controller.controller_alone import NODES, Controller, passes

PACKED = {
    "message": messages.decode,
    "envelope": links._decoder.decode,
    "between domains": mail._decoder.decode,
    "frame": frames._decoder.decode,
    "request to the nursery": frames.decode_request,
    "job object": jobobject.decode_object,
    "world": jobobject.decode_world,
    "sealed object": seal._decoder.decode,
    "state of a coupling": snapshot.unpack,
}
JSON = {
    "input": user_input._request.decode,
    "kind of a request": user_input._what.decode,
    "request": requests._request.decode,
    "gate": waiting_gates._decoder.decode,
    "jobs of Slurm": jobs.read_jobs,
    "submission": submission.decode_submission,
    "trace": codec.decode,
    "history": job_record.decode_record,
    "request to a daemon": parse_request,
}
TAGS = tuple(each.__name__ for each in typing.get_args(messages.AnyMessage))
TAGGED = st.builds(lambda tag, rest: [tag, *rest], st.sampled_from(TAGS), st.lists(PLAIN))
MESSAGES = values(messages.AnyMessage)
OF_JOBS = st.one_of(
    *(
        values(each)
        for each in typing.get_args(messages.AnyMessage)
        if issubclass(each, OfJob)
    )
)


def check(take, *values):
    """Checks that ``take`` takes the values or refuses them with one error of one line."""
    problem = ""
    try:
        take(*values)
    except CoschedError as error:
        problem = str(error)
    assert "\n" not in problem
    assert "\x1b" not in problem


@pytest.mark.parametrize("what", PACKED)
@settings(max_examples=25, deadline=None)
@given(data=st.binary(max_size=60) | PLAIN.map(packed) | TAGGED.map(packed))
def test_any_bytes_are_a_value_or_one_error(what, data):
    check(PACKED[what], data)


@pytest.mark.parametrize("what", JSON)
@settings(max_examples=25, deadline=None)
@given(data=st.binary(max_size=60) | PLAIN.map(jsoned))
def test_any_line_is_a_value_or_one_error(what, data):
    check(JSON[what], data)


@settings(max_examples=50, deadline=None)
@given(MESSAGES)
def test_what_is_sent_is_what_arrives(message):
    assert messages.decode(messages.encode(message)) == message


HOSTS = ("n1", "n2", "n3")
ROUTE = Route(1, 1, 1, ((0, 2),), HOSTS, Tree(3, 2), "siblings", 0, "n1")
ROOT = Route(1, 1, 0, ((0, 2),), HOSTS, Tree(3, 2), "siblings", 0, "n1")


class Node:
    """A node that notes nothing."""

    slots = 4

    def __init__(self):
        self.send = self.later = self.forget = self.note = Mock()
        self.report_starts = self.tasks_stopped = Mock()

    def are_stopped(self, job):
        return False

    def may_vouch(self, member, uid, gid):
        return uid != 0

    def open_object(self, route, data):
        raise CoschedError("it is not sealed")


SENDERS = st.sampled_from((*HOSTS, CONTROLLER, "n4"))


@settings(max_examples=50, deadline=None)
@given(st.sampled_from((ROUTE, ROOT)), st.lists(st.tuples(SENDERS, OF_JOBS), max_size=12))
def test_a_job_takes_or_refuses_any_message(route, came):
    job = NodeJob(route, Node(), Designs("pipeline", 1000, 60.0))
    for sender, message in came:
        take = job.worlds.take if job.worlds.concern(sender, message) else job.take
        check(take, sender, message)


@settings(max_examples=50, deadline=None)
@given(st.lists(values(frames.AnyFrame), max_size=8))
def test_a_job_takes_or_refuses_any_frame(came):
    job = NodeJob(ROOT, Node(), Designs("pipeline", 1000, 60.0))
    for frame in came:
        check(job.take_frame, frame)


@settings(max_examples=50, deadline=None)
@given(values(Chunk))
def test_a_chunk_has_a_tree_or_is_refused(chunk):
    try:
        route = route_of(chunk, dict(enumerate(HOSTS)))
    except CoschedError:
        return
    assert route.hosts[route.place] in HOSTS
    assert set(route.hosts) <= set(HOSTS)


@settings(
    max_examples=50,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(came=st.lists(st.tuples(st.sampled_from(NODES), OF_JOBS), max_size=10))
def test_the_controller_takes_or_refuses_any_message(tmp_path, came):
    async def scenario():
        (tmp_path / "jobs.sqlite").unlink(missing_ok=True)
        store = JobStore(tmp_path / "jobs.sqlite", NODES)
        controller = Controller(store)
        for name in NODES:
            controller.join(name)
        controller.recovery.resolve()
        controller.submit(nodes=2, ppn=1)
        await passes()
        for sender, message in came:
            check(controller.take, sender, message)
            await passes()
        store.close()

    asyncio.run(scenario())


@settings(max_examples=50, deadline=None)
@given(
    st.dictionaries(
        st.sampled_from(("do", "job", "names", "ended", "until", "reason", "end_jobs")),
        PLAIN | st.sampled_from((*NAMES, "queue", "cancel", "wait", "drain", "submit")),
    )
)
def test_any_request_is_answered(request):
    learned = Mock(runs=list, labels=list)
    store = Mock(agents=dict, live=list, find=lambda _: None, latest=list, learned=learned)
    controller = Controller(store)

    async def scenario():
        answer = controller.requests.answer(user_input.Person(7, 7), jsoned(request))
        return await asyncio.wait_for(answer, 10)

    assert asyncio.run(scenario())[:1] == b"{"
