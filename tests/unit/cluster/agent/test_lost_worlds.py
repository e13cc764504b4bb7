"""A node that is lost before the tasks of its new world began costs a job nothing."""

from unittest.mock import Mock

from cosched.cluster.agent.frames import EndTasks
from cosched.cluster.agent.nodejob import Designs, NodeJob
from cosched.cluster.agent.route import Route
from cosched.cluster.messages import (
    Answered,
    Ask,
    Chunk,
    StartFailed,
    SubtreeEnded,
    SubtreePrepared,
)
from cosched.cluster.size_messages import (
    Arriving,
    ChangeEnded,
    PageAnswer,
    Resize,
    WithdrawChange,
)
from cosched.core.cluster.resizing.agreement import Checked, Collected, Finished
from cosched.core.cluster.startup.jobobject import JobObject
from cosched.core.cluster.startup.questions import Command, Joined, Spawn
from cosched.core.cluster.startup.tree import Tree
from cosched.core.names import CONTROLLER

START = (7, 1)
HOSTS = ("n1", "n2", "n3")
JOB = JobObject(
    *("job", 5, 6, ("./app",), {}, "/", 0o22, (1,), "pmi1", "", False),
    *("/dev/null", "out", "", False, 1.0),
    malleable=True,
)
RANKS = ("/usr/bin/env", "COSCHED_GENERATION=1", "./app")
SPAWN = Spawn((Command(RANKS, 2, hosts=("n2", "n3")),), {}, connects=True)
LOST = "node n3 was lost"


class Root:
    """The root of a job on n1, whose tasks spawn a world on n2 and n3."""

    def __init__(self):
        self.node = Mock(slots=4)
        self.node.open_object.return_value = JOB
        route = Route(*START, 0, ((0, 0),), HOSTS[:1], Tree(1, 2), "siblings", 0, "n1")
        self.job = NodeJob(route, self.node, Designs("pipeline", 1000, 60.0))
        chunk = Chunk(*START, 0, ((0, 0),), 2, "siblings", 0, 1, 0, b"")
        self.job.take(CONTROLLER, chunk)
        self.job.worlds.nodes.replace((0, 1, 2), HOSTS)
        arriving = (Arriving(1, 1), Arriving(2, 1))
        self.job.take(CONTROLLER, Resize(*START, 1, (), arriving))
        self.answer(Collected(0, 1, 4))
        self.check(1, begun=False)
        self.take("n1", Ask(*START, 7, SPAWN))

    def take(self, sender, message):
        """Returns what the root sends after a message."""
        self.node.send.reset_mock()
        if self.job.worlds.concern(sender, message):
            self.job.worlds.take(sender, message)
        else:
            self.job.take(sender, message)
        return [call.args[1] for call in self.node.send.call_args_list]

    def answer(self, answer):
        return self.take("n1", PageAnswer(*START, answer))

    def check(self, number, *, begun):
        self.answer(Checked(0, 1, number, missed=False, largest=4, begun=begun))

    def lose(self):
        return self.take(CONTROLLER, WithdrawChange(*START, 1, LOST, lost=(2,)))


def kinds(sent, kind):
    return [each for each in sent if isinstance(each, kind)]


def test_spawn_fails_and_the_change_is_refused_at_once():
    root = Root()
    (answered,) = kinds(root.lose(), Answered)
    assert answered.answer.error == LOST
    root.check(2, begun=True)
    (ended,) = kinds(root.answer(Finished(1, "the spawn failed")), ChangeEnded)
    assert (ended.refused, ended.places) == (LOST, (0,))
    assert root.job.worlds.empty


def test_world_whose_tasks_have_begun_is_kept():
    root = Root()
    root.take("n2", SubtreePrepared(*START, world=1))
    assert not kinds(root.lose(), Answered)
    assert not root.job.worlds.empty


def let_join(root):
    """Lets MPI begin in the tasks of the new world."""
    root.take("n2", SubtreePrepared(*START, world=1))
    (answered,) = kinds(root.take("n2", Ask(*START, 1, Joined(), world=1)), Answered)
    assert not answered.answer.error


def ended_tasks(root):
    frames = (call.args[0] for call in root.node.make_steward().send.call_args_list)
    return [frame.reason for frame in frames if isinstance(frame, EndTasks)]


def test_ranks_that_end_before_they_join_end_the_job():
    """They may end well: a program can find that there is nothing to do."""
    root = Root()
    let_join(root)
    root.take("n2", SubtreeEnded(*START, None, world=1))
    assert ended_tasks(root) == []
    _, enforce = root.node.later.call_args.args
    enforce()
    assert ended_tasks(root) == [
        "n1: the tasks that a change started ended before they joined"
    ]


def test_world_that_could_not_start_ends_no_job():
    root = Root()
    root.take("n2", StartFailed(*START, 0, "no slots", again=True, world=1))
    calls = root.node.later.call_count
    root.take("n2", SubtreeEnded(*START, None, world=1))
    assert root.node.later.call_count == calls
