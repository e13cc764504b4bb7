"""The end of a job on one of its nodes."""

import time

import pytest
from msgspec.structs import replace

from cosched.cluster.agent.frames import (
    CannotStart,
    EndTasks,
    OutputWritten,
    TaskEndedBadly,
    TasksEnded,
    TasksWait,
    WriteOutput,
)
from cosched.cluster.agent.nodejob import Designs, NodeJob
from cosched.cluster.agent.route import Route
from cosched.cluster.messages import (
    Ask,
    Chunk,
    Credit,
    End,
    Failure,
    Order,
    Output,
    StartFailed,
    SubtreeEnded,
    SubtreePrepared,
    TaskFailed,
)
from cosched.cluster.size_messages import ChangeEnded, PageAnswer, PageOrder, Resize
from cosched.core.cluster.resizing.agreement import Checked, Collected, Finished
from cosched.core.cluster.startup.ends import WORK_S, end_limit_s
from cosched.core.cluster.startup.jobobject import JobObject
from cosched.core.cluster.startup.questions import Command, Spawn
from cosched.core.cluster.startup.tree import Tree
from cosched.core.errors import CoschedError
from cosched.core.names import CONTROLLER

HOSTS = ("n1", "n2", "n3")
NO_PAGE = CoschedError("page: No space left on device")
GRACE_S = 3.0
JOB = JobObject(
    *("job", 0, 0, ("./app",), {}, "/", 0o22, (1, 1, 1), "none", "", False),
    *("/dev/null", "out", "", False, GRACE_S),
)


class Steward:
    """A steward that does nothing by itself."""

    def __init__(self):
        self.frames = []
        self.closed = False
        self.killed = ""

    def send(self, frame):
        self.frames.append(frame)

    def close(self):
        self.closed = True

    def kill(self, reason):
        assert not self.killed
        self.killed = reason


class Node:
    """A node whose time passes when the test says so, with a job that runs."""

    slots = 4

    def __init__(self, place, poison=None, found=JOB, suspended=False):
        self.sent = []
        self.found = found
        self.poison = poison
        self.steward = Steward()
        self.timers = []
        self.forgotten = False
        self.suspended = suspended
        self.stops = []
        route = Route(1, 1, place, ((0, 2),), HOSTS, Tree(3, 2), "siblings", 0, "n1")
        self.parent = route.parent
        self.job = NodeJob(route, self, Designs("pipeline", 1000, 60.0))
        chunk = Chunk(1, 1, place, ((0, 2),), 2, "siblings", 0, 1, 0, b"")
        self.job.take(self.parent, chunk)

    def run(self):
        self.job.take_frame(TasksWait())
        for child in self.job.route.children:
            self.job.take(HOSTS[child], SubtreePrepared(1, 1))
        self.job.take(self.parent, Order(1, 1, go=True))
        self.sent.clear()
        return self

    def end(self, *, direct=False):
        sender = CONTROLLER if direct else self.parent
        self.job.take(sender, End(1, 1, "cancelled", direct=direct))

    def pass_s(self, seconds):
        late = [(at - seconds, call) for at, call in self.timers]
        self.timers = [(at, call) for at, call in late if at > 0]
        for at, call in late:
            if at <= 0:
                call()

    def sent_of(self, kind):
        return [message for _, message in self.sent if isinstance(message, kind)]

    # functions of a node for its job

    def send(self, to, message):
        self.sent.append((to, message))

    def may_vouch(self, member, uid, gid):
        return True

    def open_object(self, route, data):
        return self.found

    def open_page(self, job, found, then):
        if self.poison is NO_PAGE:
            raise self.poison
        then("")

    def make_steward(self, job, found):
        assert self.poison is not NO_PAGE, "no task would find a page"
        if self.poison is not None:
            raise self.poison
        return self.steward

    def report_starts(self):
        assert self.poison is not None, "this node can make each start"

    def later(self, after_s, call):
        self.timers.append((after_s, call))

    def tasks_stopped(self, job, problem, *, stopped):
        self.stops.append((problem, stopped))

    def are_stopped(self, job):
        return self.suspended

    def forget(self, job):
        self.forgotten = True

    def note(self, job, step):
        pass


@pytest.mark.parametrize("place", [0, 1])
def test_a_steward_that_does_not_end_its_tasks_is_killed(place):
    node = Node(place).run()
    node.end()
    node.pass_s(end_limit_s(GRACE_S) - 0.1)
    assert not node.steward.killed
    node.pass_s(0.2)
    assert f"steward on n{place + 1} did not end in 13 s" in node.steward.killed


def test_the_kill_of_a_steward_ends_the_part_of_its_node_with_a_reason():
    node = Node(1).run()
    node.end()
    node.pass_s(end_limit_s(GRACE_S))
    node.job.steward_ended()
    assert node.sent_of(TaskFailed)[-1].failure.reason == node.steward.killed
    assert node.sent_of(SubtreeEnded)
    assert node.forgotten


@pytest.mark.parametrize("place", [0, 1])
def test_failures_of_all_tasks_are_one_end(place):
    """Otherwise each failure of a large job would be a message to each node."""
    node = Node(place).run()
    for rank in range(9):
        node.job.take_frame(TaskEndedBadly(Failure(3, f"rank {rank} failed")))
    if place == 0:
        end = End(1, 1, "rank 0 failed", direct=False)
        assert node.sent == [("n2", end), ("n3", end)]
        assert node.steward.frames[-1] == EndTasks("rank 0 failed")
    else:
        assert node.sent == [("n1", TaskFailed(1, 1, Failure(3, "rank 0 failed")))]


def spawn(node):
    """Lets the job spawn world 1 on n1."""
    question = Spawn((Command(("./child",), 1, hosts=("n1",)),), {})
    node.job.worlds.take("n1", Ask(1, 1, 7, question))
    node.job.worlds.take("n1", SubtreePrepared(1, 1, world=1))
    node.sent.clear()


def test_job_goes_on_without_the_tasks_that_it_began_with():
    node = Node(0).run()
    spawn(node)
    node.job.end_outside(frozenset((0, 1)), "they have not left")
    end = End(1, 1, "they have not left", direct=False)
    assert node.sent == [("n2", end), ("n3", end)]
    assert node.steward.frames[-1] == EndTasks("they have not left")
    node.sent.clear()
    node.job.take("n2", TaskFailed(1, 1, Failure(143, "rank 1 was killed")))
    node.job.take_frame(TaskEndedBadly(Failure(143, "rank 0 was killed")))
    node.job.take_frame(TasksEnded())
    for child in ("n2", "n3"):
        node.job.take(child, SubtreeEnded(1, 1, Failure(143, end.reason)))
    assert node.sent == []
    assert node.job.places_in_use() == {0}
    node.pass_s(1000.0)
    assert not node.steward.killed
    node.job.worlds.take("n1", SubtreeEnded(1, 1, None, world=1))
    node.job.steward_ended()
    ((to, ended),) = node.sent
    assert (to, type(ended), ended.failure) == (CONTROLLER, SubtreeEnded, None)


def test_root_repeats_its_end_with_the_time_of_the_end():
    node = Node(0).run()
    node.job.take_frame(TasksEnded())
    for child in ("n2", "n3"):
        node.job.take(child, SubtreeEnded(1, 1, None))
    before_ns = time.time_ns()
    node.job.steward_ended()
    node.job.report_again()
    first, second = node.sent_of(SubtreeEnded)
    assert first == second
    assert before_ns <= first.ended_ns <= time.time_ns()


def test_direct_end_reports_no_change_whose_tasks_may_still_run():
    node = Node(0, found=replace(JOB, malleable=True)).run()
    node.job.take(CONTROLLER, Resize(1, 1, 1, (2,), ()))

    def answer(each):
        for place in range(3):
            node.job.take(HOSTS[place], PageAnswer(1, 1, each(place)))

    answer(lambda place: Collected(place, 1, 4))
    boundary = node.sent_of(PageOrder)[-1].order.boundary
    answer(lambda place: Checked(place, 1, boundary, missed=False, largest=4))
    node.job.take("n1", PageAnswer(1, 1, Finished(1)))
    node.end(direct=True)
    node.job.take_frame(TasksEnded())
    node.job.steward_ended()
    assert node.forgotten
    assert not node.sent_of(ChangeEnded)


def test_job_ends_only_the_world_that_has_not_left():
    node = Node(0).run()
    spawn(node)
    node.job.end_outside(frozenset((0, 1, 2)), "they have not left")
    assert node.sent == []
    node.job.take("n2", TaskFailed(1, 1, Failure(3, "rank 1 failed")))
    assert ("n3", End(1, 1, "rank 1 failed", direct=False)) in node.sent
    node = Node(0).run()
    spawn(node)
    node.job.worlds.end_outside(frozenset((1, 2)), "it has not left")
    assert node.sent == [("n1", End(1, 1, "it has not left", direct=False, world=1))]


def test_a_steward_that_ends_in_time_is_not_killed():
    node = Node(1).run()
    node.end()
    node.job.take_frame(TasksEnded())
    assert node.steward.closed
    node.job.steward_ended()
    node.pass_s(1000.0)
    assert not node.steward.killed


def test_a_steward_that_is_stuck_at_its_start_is_killed():
    node = Node(0)
    node.job.take(CONTROLLER, Order(1, 1, go=False))
    node.pass_s(end_limit_s(GRACE_S))
    assert node.steward.killed


def test_the_root_waits_for_other_nodes_and_then_for_its_own_steward():
    node = Node(0).run()
    node.end()
    node.job.take_frame(TasksEnded())
    node.pass_s(1000.0)
    assert not node.steward.killed
    for child in ("n2", "n3"):
        node.job.take(child, SubtreeEnded(1, 1, None))
    assert node.steward.closed
    node.pass_s(WORK_S - 0.1)
    assert not node.steward.killed
    node.pass_s(0.2)
    assert node.steward.killed


def test_a_job_that_ends_by_itself_may_write_until_it_has_to_end():
    node = Node(1).run()
    node.job.take_frame(TasksEnded())
    node.pass_s(1000.0)
    assert not node.steward.killed
    node.end()
    node.pass_s(end_limit_s(GRACE_S))
    assert node.steward.killed


@pytest.mark.parametrize(("place", "direct"), [(0, False), (1, True)])
def test_output_without_credit_is_lost_when_the_tree_is_broken(place, direct):
    node = Node(place).run()
    node.end(direct=True)
    assert node.steward.frames[-1] == EndTasks("cancelled", direct)


def test_output_waits_for_credit_while_the_tree_is_whole():
    node = Node(1).run()
    node.end()
    assert node.steward.frames[-1] == EndTasks("cancelled", direct=False)


def test_the_root_gives_credit_itself_once_its_steward_is_gone():
    node = Node(0).run()
    node.job.take("n2", Output(1, 1, 1, 1, b"x" * 100))
    node.job.take("n3", Output(1, 1, 2, 1, b"x" * 50))
    node.job.take_frame(OutputWritten(0, 1, 30))
    node.sent.clear()
    node.job.steward_ended()
    assert [(c.place, c.written) for c in node.sent_of(Credit)] == [(1, 70), (2, 50)]
    node.sent.clear()
    node.job.take("n2", Output(1, 1, 1, 1, b"x" * 7))
    assert node.sent == [("n2", Credit(1, 1, 1, 7))]


def test_steward_that_is_killed_while_it_writes_output_of_others_fails_the_job():
    node = Node(0).run()
    node.job.take_frame(TasksEnded())
    node.job.take("n2", Output(1, 1, 1, 1, b"x" * 100))
    assert not node.steward.closed
    node.job.steward_ended()
    killed = "the steward of the job on n1 was killed"
    assert [end.reason for end in node.sent_of(End)] == [killed, killed]
    for child in ("n2", "n3"):
        node.job.take(child, SubtreeEnded(1, 1, None))
    assert [end.failure for end in node.sent_of(SubtreeEnded)] == [Failure(1, killed)]


@pytest.mark.parametrize("written", [100, 70])
def test_job_has_failed_unless_its_steward_has_written_all_output(written):
    node = Node(0).run()
    node.job.take("n2", Output(1, 1, 1, 1, b"x" * 100))
    node.job.take_frame(TasksEnded())
    for child in ("n2", "n3"):
        node.job.take(child, SubtreeEnded(1, 1, None))
    node.job.take_frame(OutputWritten(0, 1, written))
    node.job.steward_ended()
    reason = "output of the job is lost: its steward on n1 was killed"
    failure = None if written == 100 else Failure(1, reason)
    assert [end.failure for end in node.sent_of(SubtreeEnded)] == [failure]


@pytest.mark.parametrize("place", [3, 2**40])
def test_output_of_a_place_that_the_tree_lacks_is_refused(place):
    node = Node(0).run()
    with pytest.raises(CoschedError):
        node.job.take("n2", Output(1, 1, place, 1, b"x"))
    assert not any(isinstance(frame, WriteOutput) for frame in node.steward.frames)


def test_a_start_that_lacked_a_process_may_be_tried_again():
    node = Node(1)
    node.job.take_frame(CannotStart("cannot make a process", again=True))
    (failed,) = node.sent_of(StartFailed)
    assert (failed.reason, failed.again) == ("n2: cannot make a process", True)


def test_no_task_is_made_where_the_page_fails_at_once():
    node = Node(1, NO_PAGE, replace(JOB, malleable=True))
    (failed,) = node.sent_of(StartFailed)
    assert (failed.reason, failed.again) == (f"n2: {NO_PAGE}", True)
    assert node.forgotten


@pytest.mark.parametrize(
    "poison", [OverflowError("uid is greater than maximum"), KeyError(7), OSError("full")]
)
def test_job_that_a_node_cannot_prepare_costs_itself_only(poison):
    node = Node(1, poison)
    (failed,) = node.sent_of(StartFailed)
    assert failed.again
    assert failed.reason.startswith("n2: ")
    assert type(poison).__name__ in failed.reason
    assert node.sent_of(SubtreeEnded)
    assert node.forgotten
