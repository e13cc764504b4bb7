"""The malleable jobs of which a node is a part, and the keepers of their pages."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from cosched.cluster.agent.frames import (
    CannotStart,
    OrderPage,
    PageAnswered,
    PageReady,
    TasksWait,
)
from cosched.cluster.agent.resizing.admissions import (
    KEEPER_AFTER_MOST_S,
    KEEPER_TRIES,
    Admissions,
)
from cosched.cluster.agent.route import Route
from cosched.cluster.size_messages import Admit, Admitted, PageAnswer, PageOrder
from cosched.core.cluster.resizing.agreement import Collect, Collected, PageLost
from cosched.core.cluster.startup.ends import WORK_S
from cosched.core.cluster.startup.jobobject import JobObject, WorldObject, encode_object
from cosched.core.cluster.startup.questions import Command, Spawn
from cosched.core.cluster.startup.tree import Tree
from cosched.core.errors import CoschedError
from cosched.core.names import CONTROLLER

START = (7, 1)
HOSTS = ("n1", "n2")
NODES = ((0, 0), (1, 1))
JOB = JobObject(
    *("job", 5, 6, ("./app",), {}, "/", 0o22, (1,), "pmi1", "", False),
    *("/dev/null", "out", "", False, 1.0),
    malleable=True,
)


class Keeper:
    """The process that keeps a page."""

    def __init__(self, on_frame, on_end, again):
        self.take, self.end, self.again = on_frame, on_end, again
        self.frames = []
        self.closed = False
        self.killed = ""

    def send(self, frame):
        self.frames.append(frame)

    def close(self):
        self.closed = True

    def kill(self, reason):
        self.killed = reason


class Node:
    """The node n2, which is its own stewards."""

    def __init__(self):
        self.sent = []
        self.keepers = []
        self.dropped = []
        self.timers = []
        self.over = []
        self.fails = False
        self.admissions = Admissions("n2", self)

    @property
    def stewards(self):
        return self

    def send(self, to, message):
        self.sent.append((to, message))

    def later(self, after_s, call):
        self.timers.append((after_s, call))

    def pass_time(self):
        timers, self.timers = self.timers, []
        for _, call in timers:
            call()

    def may_vouch(self, member, uid, gid):
        return True

    def path_of_page(self, spot):
        return Path(f"/spool/{spot.place}/page")

    def keep_page(self, spot, on_frame, on_end, *, again):
        if self.fails:
            raise CoschedError("no process")
        assert (spot.uid, spot.gid) == (5, 6)
        self.keepers.append(Keeper(on_frame, on_end, again))
        return self.keepers[-1]

    def drop_page(self, spot):
        self.dropped.append(spot.place)

    def check_over(self, start):
        self.over.append(start)

    def admit(self, generation=1, place=1, data=None, first=None, places=(0, 1)):
        data = encode_object(JOB) if data is None else data
        message = Admit(*START, generation, place, NODES, places, data)
        self.admissions.admit(message, HOSTS, first)
        return self

    def order(self, sender="n1", generation=1):
        message = PageOrder(*START, Collect(1, generation), 2)
        self.admissions.get(START).order(sender, message)
        return OrderPage(message.order, 2)


def admitted(generation=1, problem=""):
    return CONTROLLER, Admitted(*START, generation, problem)


@pytest.mark.parametrize(
    ("own", "wanted"),
    [
        ({}, {"OMPI_MCA_mpi_ft_enable": "1"}),
        ({"OMPI_MCA_pml": "ob1"}, {"OMPI_MCA_mpi_ft_enable": "1"}),
        ({"OMPI_MCA_pml": "ucx"}, {}),
        ({"OMPI_MCA_mpi_ft_enable": "0"}, {}),
    ],
)
def test_open_mpi_goes_on_without_killed_ranks_unless_its_user_wants_otherwise(own, wanted):
    job = replace(JOB, pmi="pmix", pmix_library="/lib/libpmix.so", environ=own)
    node = Node().admit(data=encode_object(job))
    page = {"COSCHED_MALLEABLE": "/spool/1/page"}
    assert node.admissions.get(START).environ == page | wanted


def test_node_answers_once_its_page_is_there():
    node = Node().admit()
    assert node.sent == []
    assert node.admissions.get(START).environ == {"COSCHED_MALLEABLE": "/spool/1/page"}
    node.keepers[0].take(PageReady())
    assert node.sent == [admitted()]
    node.admit(generation=2, data=b"")
    assert node.sent[1:] == [admitted(2)]
    assert len(node.keepers) == 1


def test_node_without_a_page_has_a_problem_from_then_on():
    node = Node().admit()
    node.keepers[0].take(CannotStart("page /p: No space left on device"))
    node.keepers[0].end()
    problem = "n2: page /p: No space left on device"
    assert node.sent == [admitted(problem=problem)]
    node.admit(generation=2, data=b"")
    assert node.sent[1:] == [admitted(2, problem)]
    node.order(generation=2)
    assert node.sent[2:] == [("n1", PageAnswer(*START, PageLost(1, 2, problem)))]


def test_node_that_can_make_no_process_has_a_problem():
    node = Node()
    node.fails = True
    assert node.admit().sent == [admitted(problem="n2: no process")]
    node.admit(generation=2, data=b"")
    assert node.sent[1:] == [admitted(2, "n2: no process")]


def test_job_does_not_begin_on_a_node_that_can_make_no_page():
    node = Node()
    node.fails = True
    with pytest.raises(CoschedError, match="no process"):
        node.admissions.begin(START, 1, JOB, HOSTS)
    node.admissions.dismiss(START)
    assert (node.dropped, node.over) == ([1], [START])


@pytest.mark.parametrize(
    ("place", "data", "problem"),
    [
        (0, encode_object(JOB), "is not at place 0 of the job"),
        (5, encode_object(JOB), "is not at place 5 of the job"),
        (1, b"", "has no object of a malleable job with this number"),
    ],
)
def test_order_that_does_not_fit_the_node_is_refused(place, data, problem):
    node = Node().admit(place=place, data=data)
    assert node.sent == [admitted(problem=f"n2: {problem}")]
    assert node.admissions.get(START) is None


def world(*hosts):
    nodes = tuple((int(host[1:]) - 1,) * 2 for host in hosts)
    return Route(*START, 0, nodes, hosts, Tree(len(hosts), 2), "siblings", 1, "n1")


def test_worlds_have_only_nodes_that_the_job_has_now_or_gets():
    node = Node().admit()
    job = node.admissions.get(START).job
    spawned = encode_object(WorldObject((1, 1), Spawn((Command(("./child",), 2),), {})))
    assert job.object_of_world(world("n2", "n1"), spawned).uid == 5
    node.admit(generation=2, data=b"", places=(1,))
    with pytest.raises(CoschedError, match="is not a world of a job on this node"):
        job.object_of_world(world("n2", "n1"), spawned)
    spawned = encode_object(WorldObject((1,), Spawn((Command(("./child",), 1),), {})))
    assert job.object_of_world(world("n2"), spawned).uid == 5


def test_place_without_a_node_is_refused():
    node = Node().admit()
    node.keepers[0].take(PageReady())
    node.admit(generation=2, data=b"", places=(0, 1, 2))
    assert node.sent[1:] == [admitted(2, "n2: has no node 2 of the job")]


def test_next_keeper_carries_out_the_last_order():
    node = Node().admit()
    first = node.keepers[0]
    first.take(PageReady())
    node.order()
    last = node.order(generation=2)
    first.end()
    node.pass_time()
    second = node.keepers[1]
    assert second.again
    assert second.frames == []
    second.take(PageReady())
    assert second.frames == [last]
    second.take(PageAnswered(Collected(1, 2, 9)))
    assert node.sent[-1] == ("n1", PageAnswer(*START, Collected(1, 2, 9)))


def killed_keeper():
    """Returns a node with an order, whose keeper was killed while it lacks processes."""
    node = Node().admit()
    node.keepers[0].take(PageReady())
    node.order()
    node.fails = True
    node.keepers[0].end()
    return node


def test_node_that_cannot_fork_tries_to_keep_the_page():
    node = killed_keeper()
    node.fails = False
    for number in range(1, KEEPER_TRIES):
        node.pass_time()
        node.keepers[number].take(CannotStart("cannot make a process", again=True))
        node.keepers[number].end()
    assert [after_s for after_s, _ in node.timers] == [KEEPER_AFTER_MOST_S]
    assert node.admissions.get(START).problem == "cannot make a process"


def test_keepers_that_are_killed_again_and_again_come_ever_later():
    node = Node().admit()
    pauses = []
    for number in range(9):
        node.keepers[number].take(PageReady())
        node.keepers[number].end()
        pauses += [after_s for after_s, _ in node.timers]
        node.pass_time()
    assert pauses == [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0, 5.0]
    node.keepers[9].take(PageReady())
    node.keepers[9].take(PageAnswered(Collected(1, 1, 9)))
    node.keepers[9].end()
    assert [after_s for after_s, _ in node.timers] == [0.1]


def test_first_keeper_that_was_killed_leaves_no_page():
    node = Node().admit()
    node.keepers[0].end()
    assert node.timers == []
    problem = "n2: the keeper of the job's page was killed"
    assert node.sent == [admitted(problem=problem)]


def test_next_keeper_waits_for_a_process():
    node = killed_keeper()
    for _ in range(KEEPER_TRIES - 2):
        node.pass_time()
    assert node.admissions.get(START).problem == ""
    node.fails = False
    node.pass_time()
    node.keepers[1].take(PageReady())
    assert node.keepers[1].frames == [OrderPage(Collect(1, 1), 2)]


def test_node_that_lacks_processes_for_long_refuses_changes_until_a_keeper_goes_on():
    node = killed_keeper()
    for _ in range(KEEPER_TRIES + 1):
        node.pass_time()
    assert [after_s for after_s, _ in node.timers] == [KEEPER_AFTER_MOST_S]
    node.order(generation=2)
    lost = [PageLost(1, generation, "n2: no process") for generation in (1, 2)]
    answers = [message.answer for to, message in node.sent if to == "n1"]
    assert [each for each in answers if isinstance(each, PageLost)] == lost
    node.fails = False
    node.pass_time()
    node.keepers[1].take(PageReady())
    assert node.admissions.get(START).problem == ""
    node.order(generation=3)
    assert [each.order.generation for each in node.keepers[1].frames] == [2, 3]


def test_no_keeper_is_tried_after_the_end():
    node = killed_keeper()
    node.pass_time()
    node.admissions.dismiss(START)
    assert node.over == [START]
    node.pass_time()
    assert node.timers == []


def test_keeper_that_finds_no_page_ends_the_order():
    node = Node().admit()
    node.keepers[0].take(PageReady())
    node.order()
    node.keepers[0].end()
    node.pass_time()
    node.keepers[1].take(CannotStart("page /p: No such file"))
    lost = PageLost(1, 1, "n2: page /p: No such file")
    assert node.sent[-1] == ("n1", PageAnswer(*START, lost))


def test_only_the_root_orders():
    node = Node().admit()
    with pytest.raises(CoschedError, match="n3 is not its root"):
        node.order("n3")


def test_keeper_sends_only_its_own_frames():
    node = Node().admit()
    with pytest.raises(CoschedError, match="a keeper does not send TasksWait"):
        node.keepers[0].take(TasksWait())


def test_admission_ends_with_its_keeper():
    node = Node().admit()
    node.keepers[0].take(PageReady())
    assert list(node.admissions.reports()) == [START]
    node.admissions.dismiss(START)
    assert node.admissions.get(START) is None
    assert node.admissions.reports() == {}
    assert node.keepers[0].closed
    assert node.admissions.has(START)
    assert node.over == []
    node.keepers[0].end()
    assert not node.admissions.has(START)
    assert (node.dropped, node.over) == ([1], [START])
    node.pass_time()
    assert not node.keepers[0].killed


def test_agent_that_leaves_waits_until_pages_are_removed():
    node, dropped = Node(), []

    def leave():
        dropped.append(list(node.dropped))

    node.admissions.when_closed(leave)
    assert dropped == [[]]
    node.admit().admissions.dismiss(START)
    node.admissions.when_closed(leave)
    assert len(dropped) == 1
    node.keepers[0].end()
    assert dropped == [[], [1]]


def test_keeper_that_does_not_end_is_killed():
    node = Node().admit()
    node.admissions.dismiss(START)
    assert [after_s for after_s, _ in node.timers] == [WORK_S]
    node.pass_time()
    assert node.keepers[0].killed == "the keeper of its page did not end in 8 s"


def test_no_keeper_begins_after_the_end():
    node = Node().admit()
    node.keepers[0].take(PageReady())
    node.keepers[0].end()
    node.admissions.dismiss(START)
    assert node.over == [START]
    node.pass_time()
    assert len(node.keepers) == 1


def test_root_that_has_left_learns_names_without_a_page():
    node = Node()
    node.admissions.begin(START, 1, JOB, HOSTS)
    first = node.admissions.get(START).job
    node.keepers[0].take(PageReady())
    node.admissions.dismiss(START)
    node.admit(generation=3, data=b"", first=first)
    assert node.sent == [admitted(3)]
    assert len(node.keepers) == 1
