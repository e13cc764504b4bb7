"""A node that has ended its part of a start answers what still comes about it."""

from unittest.mock import Mock

import pytest
import zmq

from cosched.cluster.agent.agent import Agent
from cosched.cluster.agent.steps import NoStepNotes
from cosched.cluster.keys import KeyRing
from cosched.cluster.messages import (
    Chunk,
    End,
    NodeEnded,
    Roster,
    RosterNode,
    StartFailed,
    SubtreeEnded,
)
from cosched.cluster.paths import DomainPaths
from cosched.cluster.size_messages import Admit
from cosched.config.domain import DomainConfig
from cosched.core.cluster.startup.jobobject import JobObject, WorldObject, encode_object
from cosched.core.cluster.startup.questions import Command, Spawn
from cosched.core.names import CONTROLLER

START = (7, 1)
HOSTS = ("n1", "n2", "n3")
JOB = JobObject(
    *("job", 5, 6, ("./app",), {}, "/", 0o22, (1,), "pmi1", "", False),
    *("/dev/null", "out", "", False, 1.0),
    malleable=True,
)


class Node:
    """The node n2, whose messages go nowhere."""

    def __init__(self, tmp_path):
        public, secret = zmq.curve_keypair()
        keys = KeyRing("n2", secret, dict.fromkeys((CONTROLLER, *HOSTS), public))
        addresses = {name: f"127.0.0.1:{at}" for at, name in enumerate(HOSTS, 2)}
        config = DomainConfig("test", "127.0.0.1:1", addresses, 4)
        self.lines = []
        self.agent = Agent(
            *("n2", config, keys, DomainPaths(tmp_path), self.lines.append, NoStepNotes())
        )
        self.agent._links = Mock()
        self.agent._starts.use(Mock())
        self.agent._starts.later = Mock()
        self.agent.proofs.renew(b"secret")
        nodes = (
            RosterNode(number, name, addresses[name], public)
            for number, name in enumerate(HOSTS)
        )
        self.take(CONTROLLER, Roster(1, tuple(nodes)))

    def take(self, sender, message):
        """Returns what the node sends after a message."""
        self.agent._links.send.reset_mock()
        self.agent._take_apart(sender, message)
        assert not self.lines
        return [call.args for call in self.agent._links.send.call_args_list]

    def end(self):
        return self.take(CONTROLLER, End(*START, "it has left", direct=True))

    def admit(self, place):
        nodes = ((0, 0), *((1, 1),) * place)
        self.take(
            CONTROLLER, Admit(*START, 1, place, nodes, (0, place), encode_object(JOB))
        )

    def chunk(self, *, number=0, count=1, nodes=((1, 1), (2, 2)), data=b""):
        """Takes a piece of a world of n2 and n3, which comes from the job's root."""
        return self.take(
            "n1",
            Chunk(*START, 0, nodes, 2, "siblings", number, count, 0, data, world=1),
        )

    @property
    def worlds(self):
        return [job.identity for job in self.agent._starts._jobs.values()]


@pytest.fixture
def node(tmp_path):
    return Node(tmp_path)


def test_node_that_comes_back_to_a_job_takes_its_worlds(node):
    node.admit(1)
    node.end()
    node.end()
    node.admit(2)
    assert node.chunk(number=0, count=2) == [
        ("n3", Chunk(*START, 1, ((1, 1), (2, 2)), 2, "siblings", 0, 2, 0, b"", world=1))
    ]
    assert node.worlds == [(*START, 1)]


def test_world_of_a_start_that_has_ended_here_is_refused_once(node):
    assert node.end() == [(CONTROLLER, NodeEnded(*START))]
    assert node.chunk(number=0, count=2) == []
    reason = "n2: the start has ended on this node"
    assert node.chunk(number=1, count=2) == [
        ("n1", StartFailed(*START, 0, reason, again=True, world=1)),
        ("n1", SubtreeEnded(*START, None, world=1)),
    ]
    assert node.worlds == []


def test_later_piece_of_a_world_begins_nothing(node):
    """The first one came to a former life of the agent."""
    assert node.chunk(number=1, count=2) == []
    assert node.worlds == []


def test_error_after_the_end_of_a_steward_costs_its_job_only(node):
    node.admit(1)
    world = WorldObject((1,), Spawn((Command(("./child",), 1),), {}))
    node.chunk(nodes=((1, 1),), data=encode_object(world))
    *_, steward_ended = node.agent._starts.stewards.make.call_args.args
    sent = []

    def fail_once(to, message):
        sent.append((to, message))
        if len(sent) == 1:
            raise OSError(12, "Cannot allocate memory")

    node.agent._links.send = fail_once
    steward_ended()
    (line,) = node.lines
    assert line.startswith("job 7: OSError: [Errno 12] Cannot allocate memory")
    assert node.worlds == [(*START, 1)]
    node.lines.clear()
    node.agent._take_apart("n1", End(*START, "a task failed", direct=False, world=1))
    to, ended = sent[-1]
    assert (to, type(ended)) == ("n1", SubtreeEnded)
    assert node.worlds == []


def test_start_that_the_controller_has_ended_gets_no_second_answer(node):
    node.end()
    nodes = ((1, 1),)
    chunk = Chunk(*START, 0, nodes, 2, "siblings", 0, 1, 1, b"")
    assert node.take(CONTROLLER, chunk) == []
    assert node.worlds == []


def test_part_of_a_start_that_failed_after_the_end_is_ended(node):
    failed = StartFailed(*START, 1, "sealed for a former life", again=True)
    over = End(*START, "the start is over", direct=False)
    assert node.take("n3", failed) == [("n3", over)]


def test_end_of_a_world_that_is_not_here_is_answered(node):
    end = End(*START, "late", direct=False, world=3)
    assert node.take("n1", end) == [("n1", SubtreeEnded(*START, None, world=3))]
