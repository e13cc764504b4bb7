"""Worlds that a job spawns, at the root of the job."""

from unittest.mock import Mock

import pytest
from msgspec.structs import replace

from cosched.cluster.agent.route import Route
from cosched.cluster.agent.worlds.worlds import Worlds
from cosched.cluster.messages import (
    Answered,
    Ask,
    Chunk,
    End,
    Failure,
    Order,
    SubtreeEnded,
    SubtreePrepared,
    TaskFailed,
)
from cosched.core.cluster.startup.ends import WORK_S, end_limit_s
from cosched.core.cluster.startup.jobobject import LONGEST_OBJECT, JobObject
from cosched.core.cluster.startup.questions import (
    Command,
    Joined,
    Publish,
    RootAnswer,
    Spawn,
)
from cosched.core.cluster.startup.tree import Tree

HOSTS = ("n1", "n2")
JOB = JobObject(
    *("job", 0, 0, ("./app",), {}, "/", 0o22, (1, 1), "pmi1", "", False),
    *("/dev/null", "out", "", False, 1.0),
)


class Root:
    """The root of a job of two nodes, which takes questions."""

    def __init__(self, job=JOB):
        route = Route(1, 1, 0, ((0, 1),), HOSTS, Tree(2, 2), "siblings", 0, "n1")
        self.head = Mock()
        self.connects = True
        self.worlds = Worlds(route, self.head, 4, 1000, 60.0)
        self.worlds.begin(job)

    def spawn(self, *argv, ranks=1):
        """Returns what the root sends after a question for a world."""
        self.head.send.reset_mock()
        question = Spawn((Command(argv, ranks),), {}, self.connects)
        self.worlds.take("n2", Ask(1, 1, 7, question))
        return self.sent()

    def sent(self):
        return [call.args for call in self.head.send.call_args_list]

    def take(self, message):
        """Returns what the root sends after a message of the root of world 1, n1."""
        self.head.send.reset_mock()
        self.worlds.take("n1", message)
        return self.sent()

    def pass_limit(self):
        """Lets the last limit pass; returns its seconds, and what the root sends then."""
        after_s, call = self.head.later.call_args.args
        self.head.later.reset_mock()
        self.head.send.reset_mock()
        call()
        return after_s, self.sent()


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


def test_a_start_of_a_world_has_a_limit():
    root = Root()
    ((to, _),) = root.spawn("./child")
    assert to == "n1"
    after_s, ((asker, answered), (host, end)) = root.pass_limit()
    reason = "the start of world 1 took more than 60 s"
    assert (after_s, asker, host) == (60.0, "n2", "n1")
    assert answered.answer.error == root.worlds.take_spawn_problem() == reason
    assert end == End(1, 1, reason, direct=False, world=1)
    assert root.take(SubtreePrepared(1, 1, world=1)) == []
    assert root.take(TaskFailed(1, 1, Failure(1, "was killed"), world=1)) == []
    root.head.task_failed.assert_not_called()
    after_s, sent = root.pass_limit()
    assert (after_s, sent) == (end_limit_s(JOB.grace_s) + WORK_S, [])
    root.head.fail.assert_called_once_with(f"{reason}, and its tasks did not end")


def test_a_world_that_ends_after_its_limit_costs_nothing():
    root = Root()
    root.spawn("./child")
    root.pass_limit()
    assert root.take(SubtreeEnded(1, 1, Failure(1, "was killed"), world=1)) == []
    assert root.worlds.empty
    root.pass_limit()
    root.head.fail.assert_not_called()


GO = ("n1", Order(1, 1, go=True, world=1))
FAILURE = Failure(3, "rank 0 failed")


def begun(**more):
    """Returns a root whose world has passed its gates. more: fields of the job."""
    root = Root(replace(JOB, **more))
    root.spawn("./child")
    assert root.take(SubtreePrepared(1, 1, world=1)) == [GO]
    return root


def test_new_tasks_of_a_malleable_job_may_not_keep_it_waiting_for_ever():
    root = begun(malleable=True)
    after_s, ((_, answered), end) = root.pass_limit()
    reason = "MPI did not begin in world 1 within 60 s"
    assert (after_s, answered.answer.error) == (60.0, reason)
    assert end == ("n1", End(1, 1, reason, direct=False, world=1))
    assert root.pass_limit() == (end_limit_s(JOB.grace_s) + WORK_S, [])
    root.head.fail.assert_called_once_with(f"{reason}, and its tasks did not end")


@pytest.mark.parametrize("question", [Joined(), Publish("name", "port")])
def test_a_world_that_asks_has_joined_its_parents(question):
    root = begun()
    assert root.pass_limit() == (60.0, [])  # that of the start, which has gone
    root.head.later.assert_not_called()
    (to, answered), *others = root.take(Ask(1, 1, 0, question, world=1))
    assert (to, answered.number, answered.answer) == ("n2", 7, RootAnswer(value="1"))
    assert len(others) == isinstance(question, Publish)
    assert root.take(Ask(1, 1, 0, Joined(), world=1)) == []
    root.take(TaskFailed(1, 1, FAILURE, world=1))
    root.head.task_failed.assert_called_once_with(FAILURE)


def test_a_task_that_fails_before_mpi_begins_costs_the_job_nothing():
    root = begun()
    (_, answered), end = root.take(TaskFailed(1, 1, FAILURE, world=1))
    assert answered.answer.error == root.worlds.take_spawn_problem() == FAILURE.reason
    assert end == ("n1", End(1, 1, FAILURE.reason, direct=False, world=1))
    assert root.take(Ask(1, 1, 0, Joined(), world=1)) == []
    assert root.take(SubtreeEnded(1, 1, FAILURE, world=1)) == []
    assert root.worlds.empty
    root.head.task_failed.assert_not_called()


def test_tasks_that_end_before_mpi_begins_have_not_been_spawned():
    root = begun()
    ((_, answered),) = root.take(SubtreeEnded(1, 1, None, world=1))
    assert answered.answer.error == "the new tasks ended before MPI began in them"


def test_a_program_without_mpi_is_spawned_once_it_goes():
    root = Root()
    root.connects = False
    root.spawn("./child")
    go, (_, answered) = root.take(SubtreePrepared(1, 1, world=1))
    assert (go, answered.answer) == (GO, RootAnswer(value="1"))


def test_a_world_that_is_given_up_gets_no_answers_and_must_end():
    root = begun()
    root.take(TaskFailed(1, 1, FAILURE, world=1))
    ((_, answered),) = root.take(Ask(1, 1, 3, Publish("name", "port"), world=1))
    assert answered.answer.error == "the world ends"
    root.pass_limit()
    root.head.fail.assert_called_once_with("rank 0 failed, and its tasks did not end")


def test_a_node_that_does_not_run_a_world_cannot_join_for_it():
    root = begun()
    root.head.send.reset_mock()
    root.worlds.take("n2", Ask(1, 1, 0, Joined(), world=1))
    assert root.sent() == []


def test_a_job_that_ends_needs_no_limit_of_its_worlds():
    root = Root(replace(JOB, malleable=True))
    root.spawn("./child")
    root.worlds.end("cancelled")
    assert root.pass_limit() == (60.0, [])
    assert root.take(SubtreePrepared(1, 1, world=1)) == [GO]
    root.head.later.assert_not_called()
