"""The changes of a malleable job's size, at the job's root."""

import pytest

from cosched.cluster.agent.resizing.changes import Changes
from cosched.cluster.agent.worlds.job_nodes import JobNodes
from cosched.cluster.size_messages import (
    Arriving,
    ChangeEnded,
    JobSensed,
    PageAnswer,
    PageOrder,
    PhaseTimes,
    Resize,
    WithdrawChange,
)
from cosched.core.cluster.resizing.agreement import (
    Checked,
    Collect,
    Collected,
    Commit,
    Finished,
    LoopEnded,
    PageLost,
    Propose,
    Release,
)
from cosched.core.cluster.resizing.node_part import Sensed
from cosched.core.cluster.startup.ends import WORK_S, end_limit_s
from cosched.core.errors import CoschedError
from cosched.core.names import CONTROLLER

START = (7, 1)
HOSTS = ("n1", "n2", "n3", "n4")
TIMES = PhaseTimes(*range(9))
GRACE_S = 3.0


class Root:
    """The root of a job that began on n1 and n2. in_use: where its worlds run."""

    def __init__(self):
        self.now_ns = 0
        self.sent = []
        self.failed = []
        self.spawn_problem = "long ago"
        self.in_use = frozenset((0, 1))
        self.nodes = JobNodes((0, 1), HOSTS[:2])
        self.ended = []
        self.timers = []
        self.changes = Changes(
            START, self.nodes, (1, 1), GRACE_S, self, lambda: self.now_ns
        )

    def send(self, to, message):
        self.sent.append((to, message))

    def fail(self, reason):
        self.failed.append(reason)

    def places_in_use(self):
        return self.in_use

    def end_outside(self, places, reason):
        self.ended.append((places, reason))

    def later(self, after_s, call):
        self.timers.append((after_s, call))

    def pass_limit(self):
        """Lets the only limit pass; returns its seconds."""
        ((after_s, call),) = self.timers
        self.timers.clear()
        call()
        return after_s

    def take_spawn_problem(self):
        problem, self.spawn_problem = self.spawn_problem, ""
        return problem

    def take(self, sender, message):
        """Returns what the root sends after a message."""
        self.sent.clear()
        self.changes.take(sender, message)
        return list(self.sent)

    def answer(self, place, answer, times=None):
        return self.take(HOSTS[place], PageAnswer(*START, answer, times))

    def order(self, generation, leaving=(), arriving=()):
        """Orders a change whose nodes were admitted."""
        self.nodes.replace(range(4), HOSTS)
        come = tuple(Arriving(place, 2) for place in arriving)
        return self.take(CONTROLLER, Resize(*START, generation, tuple(leaving), come))

    def agree(self, generation):
        """Lets the pages of n1 and n2 agree; returns the orders of the commit."""
        for place in (0, 1):
            proposals = self.answer(place, Collected(place, generation, 4))
        number = proposals[0][1].order.number
        for place in (0, 1):
            checked = Checked(place, generation, number, missed=False, largest=4)
            sent = self.answer(place, checked)
        return sent


def orders(sent):
    return [(to, type(m.order), m.ranks) for to, m in sent if isinstance(m, PageOrder)]


def ends(sent):
    return [message for _, message in sent if isinstance(message, ChangeEnded)]


def test_pages_agree_and_the_end_waits_for_the_worlds_that_left():
    root = Root()
    asked = root.order(1, [1], [2])
    assert orders(asked) == [("n1", Collect, 1), ("n2", Collect, 1)]
    root.now_ns = 30
    committed = root.agree(1)
    assert orders(committed) == [
        (h, Commit, r) for h, r in zip(HOSTS[:3], (1, 1, 0), strict=True)
    ]
    root.now_ns, root.in_use = 50, frozenset((0, 1, 2))
    done = root.answer(2, Finished(1), TIMES)
    assert orders(done) == [(host, Release, 1 if host != "n3" else 0) for host in HOSTS[:3]]
    assert not ends(done)
    root.now_ns, root.in_use = 80, frozenset((0, 2))
    root.sent.clear()
    root.changes.check()
    times = PhaseTimes(30, 1, 2, 3, 4, 5, 6, 30, 8)
    assert root.sent == [(CONTROLLER, ChangeEnded(*START, 1, (0, 2), times))]
    # The next change counts the ranks that have come.
    assert orders(root.order(2, [], [3])) == [("n1", Collect, 1), ("n3", Collect, 2)]


def test_worlds_run_only_where_the_job_is():
    root = Root()
    root.nodes.replace(range(4), HOSTS)
    assert root.nodes.places(()) == (0, 1)
    root.order(1, [1], [2])
    assert root.nodes.places(("n3", "n2")) == (1, 2)
    root.agree(1)
    root.in_use = frozenset((0, 2))
    root.answer(0, Finished(1))
    assert root.nodes.places(()) == (0, 2)
    with pytest.raises(CoschedError, match="n2: is not a node of this job"):
        root.nodes.places(("n2",))


def test_refused_change_waits_for_a_world_that_was_begun():
    root = Root()
    root.order(1, [], [2])
    root.agree(1)
    root.in_use = frozenset((0, 1, 2))
    assert not ends(root.answer(0, Finished(1, "no page")))
    root.in_use = frozenset((0, 1))
    root.changes.check()
    assert ends(root.sent) == [ChangeEnded(*START, 1, (0, 1), refused="no page")]


def left_behind():
    """Returns a root whose change is done, but tasks still run on n2, which has left."""
    root = Root()
    root.order(1, [1], [2])
    root.agree(1)
    root.in_use = frozenset((0, 1, 2))
    assert not ends(root.answer(2, Finished(1), TIMES))
    return root


def test_tasks_that_do_not_leave_are_ended():
    root = left_behind()
    assert root.take(CONTROLLER, WithdrawChange(*START, 1, "late")) == []
    assert root.pass_limit() == end_limit_s(GRACE_S)
    reason = "tasks have not left 13 s after change 1"
    assert root.ended == [(frozenset((0, 2)), reason)]
    root.in_use = frozenset((0, 2))
    root.changes.check()
    assert ends(root.sent)
    root.pass_limit()
    assert root.failed == []


def test_tasks_that_do_not_leave_and_cannot_be_ended_cost_the_job():
    root = left_behind()
    root.pass_limit()
    assert root.pass_limit() == end_limit_s(GRACE_S) + WORK_S
    reason = "tasks have not left 13 s after change 1, and could not be ended"
    assert root.failed == [reason]


def test_tasks_that_leave_in_time_are_not_ended():
    root = left_behind()
    root.in_use = frozenset((0, 2))
    root.changes.check()
    root.pass_limit()
    assert (root.ended, root.timers) == ([], [])
    root.order(2, [], [3])
    root.answer(0, Collected(0, 2, 4))
    assert root.timers == []


def test_direct_end_of_the_job_ends_the_reports():
    root = left_behind()
    root.sent.clear()
    root.changes.close()
    root.in_use = frozenset()
    root.changes.check()
    root.changes.report_again()
    assert root.answer(0, Sensed(0, 10, 100, 20, 1, 4, 3, 2)) == []
    assert root.order(2, [], [3]) == []
    root.pass_limit()
    assert (root.sent, root.ended, root.failed) == ([], [], [])


def test_reason_of_a_spawn_that_failed_is_that_of_the_node():
    root = Root()
    root.order(1, [], [2])
    root.agree(1)
    root.spawn_problem = "n3: no such program"
    (end,) = ends(root.answer(0, Finished(1, "pmi1_spawn returned -1")))
    assert end.refused == "n3: no such program"


def test_order_that_comes_again_is_answered_again_once_it_is_over():
    root = Root()
    root.order(1, [], [2])
    assert root.order(1, [], [2]) == []
    withdraw = WithdrawChange(*START, 1, "late")
    (end,) = ends(root.take(CONTROLLER, withdraw))
    assert end == ChangeEnded(*START, 1, (0, 1), refused="late")
    assert root.take(CONTROLLER, withdraw) == [(CONTROLLER, end)]
    assert root.order(1, [], [2]) == [(CONTROLLER, end)]
    root.sent.clear()
    root.changes.report_again()
    assert root.sent == [(CONTROLLER, end)]


def test_change_that_never_came_is_withdrawn_for_good():
    root = Root()
    withdrawn = root.take(CONTROLLER, WithdrawChange(*START, 3, "late"))
    assert withdrawn == [(CONTROLLER, ChangeEnded(*START, 3, (0, 1), refused="late"))]
    assert root.order(3, [], [2]) == withdrawn


def test_second_change_is_refused_while_one_is_open():
    root = Root()
    root.order(1, [], [2])
    (end,) = ends(root.order(2, [1]))
    assert end.refused == "change 1 of the job is not over"


def test_page_that_is_lost_at_a_proposal_ends_the_job():
    root = Root()
    root.order(1, [], [2])
    for place in (0, 1):
        proposals = root.answer(place, Collected(place, 1, 4))
    assert {kind for _, kind, _ in orders(proposals)} == {Propose}
    root.answer(1, PageLost(1, 1, "n2: the page is gone"))
    assert root.failed == ["n2 lost the page of the job during a change"]


def test_only_the_controller_orders_and_only_a_page_answers_for_itself():
    root = Root()
    for message in (Resize(*START, 1, (), ()), WithdrawChange(*START, 1, "late")):
        with pytest.raises(CoschedError, match="n2 may not change its size"):
            root.take("n2", message)
    root.order(1, [], [2])
    for sender, answer in (
        ("n2", Collected(0, 1, 4)),
        ("n1", Collected(9, 1, 4)),
        ("n4", Finished(1)),
    ):
        with pytest.raises(CoschedError, match="has no such page"):
            root.take(sender, PageAnswer(*START, answer))


def test_node_that_has_left_reports_nothing():
    root = Root()
    root.order(1, [1], [2])
    root.agree(1)
    root.in_use = frozenset((0, 2))
    root.answer(2, Finished(1))
    root.order(2, [], [3])
    for late in (
        Sensed(1, 10, 100, 20, 1, 4, 3, 2),
        LoopEnded(1, 2),
        PageLost(1, 2, "n2: the page is gone"),
    ):
        assert root.answer(1, late) == []
    with pytest.raises(CoschedError, match="n2 has no such page"):
        root.answer(1, Finished(2))
    assert root.failed == []


def test_wishes_are_counted_over_the_nodes_of_rank_0():
    root = Root()
    first = root.answer(0, Sensed(0, 10, 100, 20, 1, 4, 3, 2))
    assert first == [(CONTROLLER, JobSensed(*START, 2, 10, 100, 20, 1, 4, 3, 2))]
    ((_, second),) = root.answer(1, Sensed(1, 5, 50, 0, 1, 4, 0, 1))
    assert (second.wanted, second.asked) == (3, 3)


def test_wish_on_an_earlier_node_of_rank_0_does_not_come_back_with_it():
    root = Root()
    root.answer(0, Sensed(0, 10, 100, 20, 1, 4, 4, 1))
    root.answer(1, Sensed(1, 5, 50, 0, 1, 4, 2, 1))
    ((_, back),) = root.answer(0, Sensed(0, 3, 30, 0, 1, 4, 4, 1))
    assert (back.wanted, back.asked) == (2, 2)
    ((_, again),) = root.answer(0, Sensed(0, 3, 30, 0, 1, 4, 4, 2))
    assert (again.wanted, again.asked) == (4, 3)


GONE = "the tasks that a change started ended before they joined"


def test_job_ends_if_its_ranks_wait_for_new_ones_that_are_gone():
    root = Root()
    root.order(1, [], [2])
    root.agree(1)
    root.changes.joiners_ended(1)
    assert root.failed == []
    assert root.pass_limit() == end_limit_s(GRACE_S)
    assert root.failed == [GONE]


@pytest.mark.parametrize("refused", ["", "n3: the page is gone"])
def test_new_ranks_may_be_gone_before_their_change_is_reported(refused):
    """Ranks that cannot join end by themselves. Those of a short job end with it."""
    root = Root()
    root.order(1, [], [2])
    root.agree(1)
    root.changes.joiners_ended(1)
    root.answer(0, Finished(1, refused))
    root.pass_limit()
    assert root.failed == []


def test_end_of_ranks_of_an_earlier_change_is_no_matter_of_this_one():
    root = Root()
    root.order(2, [], [2])
    root.changes.joiners_ended(1)
    assert root.timers == []
