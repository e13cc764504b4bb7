"""Nodes join a domain that is up, and an operator removes them."""

import asyncio

import pytest

from cosched.cluster.controller.requests import Requests
from cosched.cluster.engines.native.engine import NativeEngine
from cosched.cluster.engines.native.node_entries import NodeState
from cosched.cluster.keys import load_keys, make_keys
from cosched.cluster.messages import PROTOCOL, Hello, Roster, Welcome
from cosched.cluster.paths import DomainPaths
from cosched.cluster.record import Record, State
from cosched.cluster.submission import Submission
from cosched.cluster.user_socket import Person
from cosched.config.domain import DomainConfig, load_config, write_config
from cosched.config.queue import QueueSettings
from cosched.core.errors import CoschedError
from cosched.core.names import CONTROLLER

NODES = ("n0", "n1", "n2")


@pytest.fixture
def engine(tmp_path, store):
    """An engine that has its nodes, but not their jobs of before its restart."""
    addresses = {name: f"127.0.0.{at}:2" for at, name in enumerate(NODES, 2)}
    queue = QueueSettings("fcfs", size="malleable")
    config = DomainConfig("test", "127.0.0.1:1", addresses, 4, queue)
    paths = DomainPaths(tmp_path)
    paths.directory.mkdir()
    paths.config.write_text(write_config(config))
    make_keys(paths.keys, config.members)
    keys = load_keys(paths.keys, CONTROLLER, config.members)
    engine = NativeEngine(config, keys, paths, store, print)
    engine.paths = paths
    engine._links.send = lambda *_: None
    engine._links.listen = lambda _address: None
    return engine


def open_engine(engine):
    engine.open(Requests(engine.handlers, engine.may_vouch, "").answer)
    for member in engine._members.by_number:
        member.state, member.slots = NodeState.UP, 1
        engine._jobs.node_joined(member)


def remove(engine, *names, **more):
    return engine.handlers["remove"](Person(0, 0), {"names": list(names), **more})


@pytest.mark.parametrize("names", [("n1", "n2"), ("n2", "n1"), ("n1", "n1")], ids=",".join)
def test_wait_ends_when_all_nodes_are_gone_at_once(engine, names):
    async def scenario():
        open_engine(engine)
        engine._recover()
        waits = asyncio.create_task(remove(engine, *names, wait=True))
        await asyncio.sleep(0)
        engine._membership.go_on(0, 1)
        assert await asyncio.wait_for(waits, 10) == {"jobs": []}
        assert not set(names) & engine._members.by_name.keys()

    try:
        asyncio.run(scenario())
    finally:
        engine.close()


def test_bounds_of_a_job_count_only_the_nodes_that_are_left(engine, store):
    submission = Submission(
        token="t",
        name="a",
        argv=("true",),
        environ={},
        cwd="/",
        minimum=1,
        ideal=2,
        held=True,
    )

    async def scenario():
        open_engine(engine)
        engine._recover()
        job = engine._submitting.submit(Record(0, 7, 7, submission, 0, State.HELD)).number
        await remove(engine, "n1")
        request = {"job": job, "minimum": 3, "ideal": 3}
        for _ in range(2):
            with pytest.raises(CoschedError, match="the domain has 2 nodes"):
                await engine.handlers["resize"](Person(7, 7), request)
            engine._membership.go_on(0, 1)
        assert engine._jobs.queue.place.total == 2

    try:
        asyncio.run(scenario())
    finally:
        engine.close()


def test_nodes_are_not_removed_at_once_before_they_have_reported_their_jobs(engine):
    async def scenario():
        open_engine(engine)
        with pytest.raises(CoschedError, match=r"n1: .* asks its nodes; try again$"):
            await remove(engine, "n1", now=True)
        assert "n1" in load_config(engine.paths.config).nodes
        engine._recover()
        await remove(engine, "n1", now=True)
        assert "n1" not in load_config(engine.paths.config).nodes

    try:
        asyncio.run(scenario())
    finally:
        engine.close()


def test_agent_that_asks_again_gets_no_second_list_of_nodes(engine):
    """An agent says hello at each beat until its welcome comes."""
    sent = []

    def hello(incarnation):
        sent.clear()
        digest = engine._config.digest("n1")
        engine._take("n1", Hello(PROTOCOL, incarnation, digest, {"slots": 1}, ()))
        return [type(message) for to, message in sent if to == "n1"]

    async def scenario():
        engine._send = lambda *each: sent.append(each)
        engine.open(Requests(engine.handlers, engine.may_vouch, "").answer)
        assert hello(5) == [Roster, Welcome]
        assert hello(5) == [Welcome]
        assert hello(6) == [Roster, Welcome]
        assert hello(6) == [Welcome]
        engine._lose(engine._members.by_name["n1"], "it does not answer")
        assert hello(6) == [Roster, Welcome]
        assert hello(7) == [Roster, Welcome]

    try:
        asyncio.run(scenario())
    finally:
        engine.close()
