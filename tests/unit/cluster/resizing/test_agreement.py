"""The agreement: whatever the ranks and the messages do, all ranks stop at the same
boundary, and no rank waits for ever.

The world of these tests has three kinds of actors, which take turns in any order. Ranks go
from boundary to boundary: storing the boundary and loading the word are two turns, as they
are for a processor. In an iteration a rank needs messages of others: those that they send
in the same iteration. Messages between the root and a node keep their order and are not
lost."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from cosched.core.cluster.resizing.agreement import (
    PROPOSALS_MOST,
    Agreement,
    Checked,
    Collect,
    Collected,
    Commit,
    Finished,
    LoopEnded,
    Ordered,
    PageLost,
    Propose,
    Release,
    ReportDone,
    ReportLost,
    ReportRefused,
    Stage,
    Withdrawn,
)
from cosched.core.cluster.resizing.change import Arrival, Change, decode_change
from cosched.core.cluster.resizing.node_part import NodePart
from cosched.core.cluster.resizing.page_records import (
    NO_BOUNDARY,
    Look,
    Phase,
    Result,
    Times,
)

DECIDED = (Stage.COMMITTED, Stage.WITHDRAWING)
COMES, LOADS, WAITS, CHANGES, ENDED = "comes", "loads", "waits", "changes", "ended"


@dataclass
class Rank:
    """A rank. does: its next turn. step: the boundary that it comes to next, or came to."""

    node: Node
    needs: frozenset[int]
    number: int
    step: int = 0
    does: str = COMES
    shown: int = 0  # in its slot
    acknowledged: int | None = None
    done: bool = False  # its loop, for the agent


class Node:
    """A node: its page, which it is itself, and its agent."""

    def __init__(self, place):
        self.part = NodePart(place, self)
        self.word = (Phase.NONE, 0)
        self.ranks = []
        self.inbox, self.outbox = deque(), deque()
        self.reported = None
        self.last = None

    def give_order(self, generation, order):
        assert decode_change(order).generation == generation

    def store_word(self, boundary, phase):
        self.word = (phase, boundary)

    def look(self, boundary):
        live = [rank for rank in self.ranks if not rank.done]
        return Look(
            largest=max(rank.shown for rank in self.ranks),
            joining=0,
            live=len(live),
            leaving=0,
            ended=sum(rank.done and rank.shown < boundary for rank in self.ranks),
            missed=any(
                rank.shown > boundary
                or (rank.shown == boundary and rank.acknowledged != boundary)
                for rank in self.ranks
            ),
        )

    def result(self):
        return self.reported

    def take(self):
        self.last = self.inbox.popleft()
        self.outbox.extend(self.part.take(self.last))

    def begin_again(self):
        """Another process keeps the page. It gets the last order only."""
        self.part = NodePart(self.part._place, self)
        if self.inbox:
            self.last = self.inbox.pop()
            self.inbox.clear()
        if self.last is not None:
            self.outbox.extend(self.part.take(self.last))

    def watch(self):
        self.outbox.extend(self.part.watch(len(self.ranks)))


class Job(RuleBasedStateMachine):
    """Random histories of a job on some nodes."""

    @initialize(
        layout=st.lists(st.integers(1, 2), min_size=1, max_size=3),
        needs=st.lists(st.sets(st.integers(0, 5)), min_size=6, max_size=6),
        length=st.integers(3, 30),
    )
    def begin(self, layout, needs, length):
        self.nodes = [Node(place) for place in range(len(layout))]
        self.ranks = []
        for node, count in zip(self.nodes, layout, strict=True):
            for _ in range(count):
                number = len(self.ranks)
                node.ranks.append(Rank(node, frozenset(needs[number]), number))
                self.ranks.append(node.ranks[-1])
        self.length = length
        self.agreement = Agreement(range(len(layout)))
        self.generation = 0
        self.reports = []
        self.committed = None

    # --- turns ----------------------------------------------------------------------------

    def turns(self):
        """Returns the turns that are possible now."""
        found = [lambda r=r: self.run(r) for r in self.ranks if self.can_run(r)]
        for node in self.nodes:
            node.watch()  # at any time; the answer travels on its own
            if node.inbox:
                found.append(node.take)
            if node.outbox:
                found.append(lambda n=node: self.feed(n.outbox.popleft()))
        return found

    def can_run(self, rank):
        if rank.does in (CHANGES, ENDED):
            return False
        if rank.does == WAITS:
            return rank.node.word != (Phase.PROPOSED, rank.step)
        if rank.does == COMES and rank.step:
            # It is in iteration step - 1, and needs what others send in that one.
            others = [r for r in self.ranks if r.number in rank.needs]
            return all(r.done or r.step >= rank.step for r in others)
        return True

    def run(self, rank):
        if rank.does == COMES:
            if rank.step == self.length:
                rank.does, rank.done = ENDED, True
                return
            rank.shown, rank.does = rank.step, LOADS
            return
        phase, boundary = rank.node.word
        if boundary != rank.step or phase == Phase.NONE:
            rank.step, rank.does = rank.step + 1, COMES
        elif phase == Phase.PROPOSED:
            rank.acknowledged, rank.does = rank.step, WAITS
        else:
            assert rank.node.word == (Phase.COMMITTED, rank.step)
            rank.does = CHANGES

    def feed(self, event):
        for command in self.agreement.handle(event):
            if isinstance(command, ReportDone | ReportRefused | ReportLost):
                self.reports.append(command)
                continue
            if isinstance(command, Commit) and not self.is_carried_out():
                self.committed = command.boundary
            self.nodes[command.place].inbox.append(command)

    def is_carried_out(self):
        """Whether the ranks have ended the change, which the root need not know yet."""
        reported = self.nodes[0].reported
        return reported is not None and reported.generation == self.generation

    def check_stop(self):
        """All that stop do so at the committed boundary, and none has passed it."""
        for rank in self.ranks:
            if self.committed is not None and self.agreement.stage in DECIDED:
                assert rank.shown <= self.committed
            if rank.does == CHANGES:
                assert rank.step == self.committed

    @rule(choices=st.lists(st.integers(0, 1000), max_size=60))
    def take_turns(self, choices):
        for choice in choices:
            if not self.take_turn(choice):
                break

    def take_turn(self, choice):
        turns = self.turns()
        if turns:
            turns[choice % len(turns)]()
            self.check_stop()
            self.finish_change()
        return bool(turns)

    @precondition(lambda self: self.agreement.stage is Stage.IDLE)
    @rule(seed=st.integers(1, 1000), more=st.integers(0, 12), kill=st.booleans())
    def withdraw_once_committed(self, seed, more, kill):
        """kill: the keepers of the pages end before the root has the nodes' answers."""
        self.order()
        left = list(self.nodes) if kill else []
        for number in range(500):
            for node in [each for each in left if self.answers_proposal(each)]:
                node.begin_again()
                left.remove(node)
            if self.agreement.stage in DECIDED or not self.take_turn(number * seed):
                break
        self.take_turns([number * seed for number in range(more)])
        self.withdraw()

    def answers_proposal(self, node):
        return any(isinstance(each, Checked) for each in node.outbox)

    def finish_change(self):
        """Once all ranks have stopped, they carry the change out and go on."""
        if self.ranks and all(rank.does == CHANGES for rank in self.ranks):
            for rank in self.ranks:
                rank.step, rank.does = rank.step + 1, COMES
            assert self.agreement.stage in DECIDED, "the root has reported it as refused"
            self.committed = None
            self.nodes[0].reported = Result(self.generation, len(self.ranks), Times(), 0)

    # --- what happens from outside --------------------------------------------------------

    @precondition(lambda self: self.agreement.stage is Stage.IDLE)
    @rule()
    def order(self):
        self.generation += 1
        self.feed(Ordered(Change(self.generation, (), ())))

    @rule()
    def order_too_early(self):
        if self.agreement.stage is Stage.IDLE:
            return
        before = self.agreement.stage
        self.feed(Ordered(Change(999, (), ())))
        assert self.reports.pop().generation == 999
        assert self.agreement.stage is before

    @rule()
    def withdraw(self):
        committed = self.agreement.stage in DECIDED
        self.feed(Withdrawn("it takes too long"))
        assert self.agreement.stage is (Stage.WITHDRAWING if committed else Stage.IDLE)

    @rule(place=st.integers(0, 2))
    def kill_keeper(self, place):
        """The process that keeps a page ends; another one goes on."""
        if place < len(self.nodes):
            self.nodes[place].begin_again()

    def teardown(self):
        """With fair turns everything ends: each order is answered, and no rank waits."""
        if not hasattr(self, "agreement"):
            return
        for number in range(100_000):
            if not self.take_turn(number * 7919):
                break
        assert self.agreement.stage is Stage.IDLE
        assert len(self.reports) == self.generation
        assert not any(node.part.is_open for node in self.nodes)
        assert all(rank.does == ENDED for rank in self.ranks)


TestJob = Job.TestCase
TestJob.settings = settings(max_examples=60, stateful_step_count=15, deadline=None)


def answered(agreement, commands, largest):
    """Answers for all nodes; no rank has passed the boundary."""
    found = []
    for command in commands:
        match command:
            case Collect():
                event = Collected(command.place, command.generation, largest)
            case Propose():
                event = Checked(
                    command.place,
                    command.change.generation,
                    command.number,
                    missed=False,
                    largest=largest,
                )
            case _:
                continue
        found += agreement.handle(event)
    return found


def agreed(agreement, change, largest=4):
    commands = agreement.handle(Ordered(change))
    for _ in range(2):
        commands = answered(agreement, commands, largest)
    return commands


def test_boundary_is_after_the_largest_of_all_nodes():
    agreement = Agreement([0, 1])
    assert agreement.handle(Ordered(Change(1, (), ()))) == (Collect(0, 1), Collect(1, 1))
    assert agreement.handle(Collected(0, 1, 9)) == ()
    proposals = agreement.handle(Collected(1, 1, 3))
    assert [each.boundary for each in proposals] == [10, 10]


@given(speed=st.integers(1, 100_000))
def test_fast_iterations_are_caught_after_a_few_proposals(speed):
    """Each exchange takes as long as ``speed`` iterations."""
    agreement = Agreement([0])
    agreement.handle(Ordered(Change(1, (), ())))
    (proposal,) = agreement.handle(Collected(0, 1, 0))
    now = 0
    for _ in range(4):
        now += speed
        missed = now >= proposal.boundary
        event = Checked(0, 1, proposal.number, missed, now)
        (proposal,) = agreement.handle(event)
        if not missed:
            break
    assert isinstance(proposal, Commit)


def test_missed_boundary_is_replaced_at_once():
    agreement = Agreement([0, 1])
    commands = agreement.handle(Ordered(Change(1, (), ())))
    first = answered(agreement, commands, 4)
    second = agreement.handle(Checked(1, 1, 1, missed=True, largest=7))
    assert {each.boundary for each in first} == {5}
    assert {each.boundary for each in second} == {13}
    late = Checked(0, 1, 1, missed=False, largest=4)
    assert agreement.handle(late) == ()
    assert agreement.handle(Checked(1, 1, 2, missed=False, largest=7)) == ()
    assert len(agreement.handle(Checked(0, 1, 2, missed=False, largest=7))) == 2


def test_done_change_gives_the_places_of_the_next_one():
    agreement = Agreement([0, 1])
    change = Change(1, (1,), (Arrival(5, "five", 2),))
    assert {type(each) for each in agreed(agreement, change)} == {Commit}
    released = (Release(0, 1), Release(1, 1), Release(5, 1))
    assert agreement.handle(Finished(1)) == (*released, ReportDone(1))
    assert agreement.places == {0, 5}


def test_refused_change_leaves_the_places():
    agreement = Agreement([0, 1])
    agreed(agreement, Change(1, (1,), (Arrival(5, "five", 2),)))
    refused = agreement.handle(Finished(1, "no slots"))
    released = (Release(0, 1), Release(1, 1), Release(5, 1))
    assert refused == (*released, ReportRefused(1, "no slots"))
    assert agreement.places == {0, 1}


def test_each_refusal_releases_the_nodes_that_take_part():
    change = Change(1, (), (Arrival(5, "five", 2),))
    agreement = Agreement([0])
    agreement.handle(Ordered(change))
    late = ReportRefused(1, "late")
    assert agreement.handle(Withdrawn("late")) == (Release(0, 1), late)
    agreed(agreement, change)
    *released, _ = agreement.handle(LoopEnded(0, 1))
    assert released == [Release(0, 1), Release(5, 1)]


@given(largest=st.one_of(st.integers(0, NO_BOUNDARY + 9), st.integers(NO_BOUNDARY - 99)))
def test_no_proposal_is_too_large_for_the_word(largest):
    agreement = Agreement([0])
    agreement.handle(Ordered(Change(1, (), ())))
    command, *rest = agreement.handle(Collected(0, 1, largest))
    while isinstance(command, Propose):
        assert command.boundary < NO_BOUNDARY
        event = Checked(0, 1, command.number, missed=True, largest=largest)
        command, *rest = agreement.handle(event)
    assert command == Release(0, 1)
    assert isinstance(rest[0], ReportRefused)
    assert agreement.stage is Stage.IDLE
    # The false step does not spoil the next change.
    assert isinstance(agreed(agreement, Change(2, (), ()), 4)[0], Commit)


def test_job_that_misses_each_boundary_is_left_alone():
    agreement = Agreement([0])
    agreement.handle(Ordered(Change(1, (), ())))
    commands = agreement.handle(Collected(0, 1, 0))
    for _ in range(PROPOSALS_MOST):
        (proposal,) = commands
        event = Checked(0, 1, proposal.number, missed=True, largest=0)
        commands = agreement.handle(event)
    refused = ReportRefused(1, "the ranks have passed 32 proposed boundaries")
    assert commands == (Release(0, 1), refused)


def checked(agreement, proposals, begun):
    """Answers for all nodes; whether a rank may have begun, by place."""
    return [
        command
        for each in proposals
        for command in agreement.handle(
            Checked(each.place, 1, each.number, False, 4, begun=begun[each.place])
        )
    ]


def test_committed_change_is_withdrawn_if_no_rank_has_begun_it():
    agreement = Agreement([0, 1])
    agreed(agreement, Change(1, (1,), (Arrival(5, "five", 2),)))
    proposals = agreement.handle(Withdrawn("late"))
    assert [(each.place, each.boundary) for each in proposals] == [(0, 5), (1, 5)]
    released = [Release(0, 1), Release(1, 1), Release(5, 1)]
    commands = checked(agreement, proposals, [False, False])
    assert commands == [*released, ReportRefused(1, "late")]
    assert agreement.places == {0, 1}


def test_second_answer_to_a_proposal_is_none_to_the_withdrawal():
    """The process with the page was killed, and the next one carried the proposal out
    again. A rank begins the change after that."""
    agreement = Agreement([0])
    agreement.handle(Ordered(Change(1, (), ())))
    proposals = agreement.handle(Collected(0, 1, 4))
    committed = checked(agreement, proposals, [False])
    withdrawal = agreement.handle(Withdrawn("late"))
    assert checked(agreement, proposals, [False]) == []
    assert checked(agreement, withdrawal, [True]) == committed


def test_change_that_a_rank_has_begun_is_committed_again():
    agreement = Agreement([0, 1])
    first = agreed(agreement, Change(1, (1,), (Arrival(5, "five", 2),)))
    proposals = agreement.handle(Withdrawn("late"))
    assert checked(agreement, proposals, [False, True]) == first
    assert agreement.stage is Stage.COMMITTED
    assert agreement.handle(Finished(1))[-1] == ReportDone(1)


def test_page_that_is_lost_refuses_a_change_until_ranks_may_wait_there():
    agreement = Agreement([0])
    agreement.handle(Ordered(Change(1, (), ())))
    lost = PageLost(0, 1, "the page is gone")
    refused = ReportRefused(1, "the page is gone")
    assert agreement.handle(lost) == (Release(0, 1), refused)
    answered(agreement, agreement.handle(Ordered(Change(2, (), ()))), 4)
    assert agreement.handle(lost) == ()  # it is about the change before
    assert agreement.handle(PageLost(0, 2, "gone")) == (ReportLost(2, 0),)
    assert agreement.stage is Stage.IDLE


@pytest.mark.parametrize("place", [5, 9], ids=["arriving", "left"])
@pytest.mark.parametrize("proposed", [False, True])
def test_node_without_a_part_in_a_change_neither_refuses_nor_ends_it(place, proposed):
    agreement = Agreement([0])
    asked = agreement.handle(Ordered(Change(1, (), (Arrival(5, "five", 2),))))
    if proposed:
        answered(agreement, asked, 4)
    stage = agreement.stage
    assert agreement.handle(LoopEnded(place, 1)) == ()
    assert agreement.handle(PageLost(place, 1, "the page is gone")) == ()
    assert agreement.stage is stage


def test_page_of_an_arriving_node_counts_once_the_change_is_committed():
    agreement = Agreement([0])
    agreed(agreement, Change(1, (), (Arrival(5, "five", 2),)))
    assert agreement.handle(PageLost(9, 1, "the page is gone")) == ()
    assert agreement.handle(PageLost(5, 1, "the page is gone")) == (ReportLost(1, 5),)


def test_order_after_a_release_that_was_lost_frees_the_ranks_that_wait():
    """The process with the page was killed with the release; the next one gets only the
    order of the next change."""
    node = Node(0)
    node.ranks.append(Rank(node, frozenset(), 0))
    node.part.take(Propose(0, Change(1, (), ()), 5, 1))
    NodePart(0, node).take(Collect(0, 2))
    assert node.word == (Phase.NONE, 0)


def test_order_that_is_too_long_is_refused_at_once():
    agreement = Agreement([0])
    many = tuple(Arrival(place, "h" * 250, 1) for place in range(1, 300))
    (refused,) = agreement.handle(Ordered(Change(1, (), many)))
    assert refused == ReportRefused(1, "the order has 81578 bytes; the most is 65536")
    assert agreement.stage is Stage.IDLE
    assert agreement.handle(Ordered(Change(2, (), ()))) == (Collect(0, 2),)


@pytest.mark.parametrize(
    "event",
    [
        Collected(0, 1, (1 << 64) - 1),
        Collected(-1, 1, 0),
        Checked(0, 1, -1, missed=False, largest=0),
        LoopEnded(0, 0),
        Finished(1 << 62),
        Propose(0, Change(1, (), ()), 1 << 62, 1),
        Propose(0, Change(1, (), ()), 5, 1 << 62),
    ],
)
def test_messages_have_ranges(event):
    data = msgspec.msgpack.encode(event)
    with pytest.raises(msgspec.ValidationError):
        msgspec.msgpack.decode(data, type=type(event))
