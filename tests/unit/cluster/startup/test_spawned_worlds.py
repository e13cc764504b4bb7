"""Worlds that a job spawns, at the root of the job."""

from unittest.mock import Mock

from cosched.cluster.agent.route import Route
from cosched.cluster.agent.worlds.worlds import Worlds
from cosched.cluster.messages import Answered, Ask, Chunk
from cosched.core.cluster.startup.jobobject import LONGEST_OBJECT, JobObject
from cosched.core.cluster.startup.questions import Command, Spawn
from cosched.core.cluster.startup.tree import Tree

HOSTS = ("n1", "n2")
JOB = JobObject(
    *("job", 0, 0, ("./app",), {}, "/", 0o22, (1, 1), "pmi1", "", False),
    *("/dev/null", "out", "", False, 1.0),
)


class Root:
    """The root of a job of two nodes, which takes questions."""

    def __init__(self):
        route = Route(1, 1, 0, ((0, 1),), HOSTS, Tree(2, 2), "siblings", 0, "n1")
        self.head = Mock()
        self.worlds = Worlds(route, self.head, 4, 1000)
        self.worlds.begin(JOB)

    def spawn(self, *argv, ranks=1):
        """Returns what the root sends after a question for a world."""
        self.head.send.reset_mock()
        question = Spawn((Command(argv, ranks),), {})
        self.worlds.take("n2", Ask(1, 1, 7, question))
        return [call.args for call in self.head.send.call_args_list]


def test_a_world_that_is_asked_for_is_sent_to_its_root():
    root = Root()
    ((_, chunk),) = root.spawn("./child")
    assert isinstance(chunk, Chunk)
    assert not root.worlds.empty


def test_a_world_whose_object_is_too_large_is_refused_and_leaves_nothing():
    root = Root()
    ((to, answered),) = root.spawn("./child", "x" * LONGEST_OBJECT)
    assert isinstance(answered, Answered)
    assert (to, answered.number) == ("n2", 7)
    assert f"more than {LONGEST_OBJECT}" in answered.answer.error
    assert root.worlds.empty


def test_a_world_of_too_many_ranks_is_refused_at_once():
    root = Root()
    ((_, answered),) = root.spawn("./child", ranks=2**31)
    assert answered.answer.error == "2147483648 ranks are more than 65536; spawn fewer"
    assert root.worlds.empty
