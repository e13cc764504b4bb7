"""Tests the coupling of one domain event by event: Algorithm 1, failures, rights."""

from __future__ import annotations

from dataclasses import replace
from unittest.mock import ANY

import msgspec
import pytest

from cosched.core.cluster.coupling.engine_messages import (
    CapacityChanged,
    Found,
    GoJob,
    GroupDisputed,
    HoldJob,
    JobAnnounced,
    JobFailed,
    JobFound,
    JobNotReady,
    JobOver,
    JobPrepared,
    JobQueued,
    JobReady,
    JobRefused,
    PeerLost,
    PrepareJob,
    Received,
    RecoveryEnded,
    ReleaseJob,
    Send,
    TryJob,
    Why,
)
from cosched.core.cluster.coupling.groups import Group, Rights, Timing
from cosched.core.cluster.coupling.machine import Coupling
from cosched.core.cluster.coupling.mate_messages import (
    Abort,
    Aborted,
    Alive,
    Announce,
    Answer,
    Cause,
    Departed,
    Go,
    Joined,
    Known,
    Lapsed,
    LeaderStarted,
    LeaderStatus,
    NotReady,
    Outcome,
    Over,
    Ping,
    Prepare,
    Prepared,
    Question,
    Ready,
    Recovering,
    Refused,
    Reserve,
    Reserved,
    Running,
    Unknown,
    Went,
    Working,
)
from cosched.core.cluster.coupling.settings import (
    CouplingSettings,
    Patience,
    Scheme,
    WhenDown,
)
from cosched.core.cluster.coupling.snapshot import unpack, upgraded
from cosched.core.cluster.coupling.state import Stage
from cosched.core.cluster.coupling.why import Moment, reason, sentence
from cosched.core.cluster.queue.queue_commands import WakeAt
from cosched.core.cluster.queue.queue_events import Ticked
from cosched.core.decoding import Malformed
from cosched.core.errors import CoschedError

PAIR = Group("g", ("a", "b"))
HOUR = 3600 * 10**9
SECOND = 10**9
RIGHTS = Rights(users={("b", "bea"): "ann", ("a", "ann"): "bea"}, same_names={"c"})


class Domain:
    """A coupling, what it sent, and what its engine must do."""

    def __init__(self, name="a", group=PAIR, queued=True, **settings):
        self.coupling = Coupling(name, CouplingSettings(**settings), RIGHTS)
        self.user = "ann" if name == "a" else "bea"
        self.now = 0
        self.number = 0
        self.feed(CapacityChanged(0, 10))
        self.feed(JobAnnounced(0, 5, 1, group, self.user))
        for sent in self.sent(Announce):
            self.answer(sent, Unknown())
        if queued:
            self.feed(JobQueued(0, 1, 4))

    @property
    def member(self):
        return self.coupling.state.members[1]

    def feed(self, event):
        self.last = self.coupling.handle(event)
        return [c for c in self.last if not isinstance(c, Send | WakeAt)]

    def ready(self):
        return self.feed(JobReady(self.now, 1))

    def tick(self, after):
        self.now += after
        return self.feed(Ticked(self.now))

    def sent(self, kind):
        """The questions of this kind that the last event sent."""
        return [
            c.message
            for c in self.last
            if isinstance(c, Send)
            and isinstance(c.message, Question)
            and isinstance(c.message.ask, kind)
        ]

    def answers(self):
        return [
            c.message.reply
            for c in self.last
            if isinstance(c, Send) and isinstance(c.message, Answer)
        ]

    def answer(self, question, reply, by="b"):
        answer = Answer(by, question.incarnation, question.number, reply)
        return self.feed(Received(self.now, by, answer))

    def ask(self, ask, peer="b", **changes):
        self.number += 1
        question = Question(
            peer, 1, self.number, self.number, "g", self.member.digest, 812, "bea", ask
        )
        question = Question(
            **{f: getattr(question, f) for f in question.__struct_fields__} | changes
        )
        return self.feed(Received(self.now, peer, question)), question

    def round(self):
        (current,) = self.coupling.state.rounds.values()
        return current.id


def reserve_asked(domain):
    (question,) = domain.sent(Reserve)
    return question


# --- Algorithm 1 --------------------------------------------------------------------------


@pytest.mark.parametrize("reply", [Over(), Running(7)])
def test_mate_that_is_over_or_runs_is_not_waited_for(reply):
    domain = Domain()
    assert domain.ready() == []
    assert domain.answer(reserve_asked(domain), reply) == [PrepareJob(1)]
    assert domain.feed(JobPrepared(0, 1)) == [GoJob(1, (("a", ""),))]


def test_both_start_after_both_are_prepared():
    domain = Domain()
    domain.ready()
    name = domain.round()
    assert domain.answer(reserve_asked(domain), Reserved(name)) == [PrepareJob(1)]
    (prepare,) = domain.sent(Prepare)
    assert domain.feed(JobPrepared(0, 1, "a:1")) == []
    assert domain.answer(prepare, Prepared(name, HOUR, "b:1")) == [
        GoJob(1, (("a", "a:1"), ("b", "b:1")))
    ]
    (go,) = domain.sent(Go)
    assert go.ask == Go(name, (("a", "a:1"), ("b", "b:1")))
    domain.answer(go, Went())
    assert not domain.coupling.state.questions
    assert not domain.coupling.state.decisions


@pytest.mark.parametrize(
    ("scheme", "wanted"),
    [
        (Scheme.HOLD, [HoldJob(1)]),
        (Scheme.YIELD, [ReleaseJob(1, Why.YIELD)]),
    ],
)
def test_mate_not_ready_means_hold_or_yield(scheme, wanted):
    domain = Domain(scheme=scheme)
    domain.ready()
    commands = domain.answer(reserve_asked(domain), NotReady(Cause.NODES))
    assert [c for c in commands if isinstance(c, HoldJob | ReleaseJob)] == wanted
    assert domain.coupling.held == (4 if scheme is Scheme.HOLD else 0)


def test_nodes_are_idle_while_the_mates_are_asked():
    domain = Domain()
    domain.ready()
    question = reserve_asked(domain)
    domain.tick(SECOND)
    domain.answer(question, NotReady(Cause.NODES))
    assert domain.coupling.counts.held_node_ns == 4 * SECOND


def test_member_is_asked_to_try_and_holds_for_the_round():
    domain = Domain("b")
    commands, _ = domain.ask(Reserve(("a", 1, 9), 3), "a", user="ann")
    assert commands == [TryJob(1)]
    domain.feed(JobReady(0, 1))
    assert domain.answers() == [Reserved(("a", 1, 9))]
    commands, _ = domain.ask(Prepare(("a", 1, 9)), "a", user="ann")
    assert commands == [PrepareJob(1)]
    domain.feed(JobPrepared(0, 1, "b:1"))
    assert domain.answers() == [Prepared(("a", 1, 9), 300 * SECOND, "b:1")]
    commands, _ = domain.ask(Go(("a", 1, 9), ()), "a", user="ann")
    assert commands == [GoJob(1)]
    assert domain.answers() == [Went()]


def test_member_that_cannot_have_nodes_says_so():
    domain = Domain("b")
    domain.ask(Reserve(("a", 1, 9), 3), "a", user="ann")
    domain.feed(JobNotReady(0, 1))
    assert domain.answers() == [NotReady(Cause.NODES)]
    domain = Domain("b", queued=False)
    domain.ask(Reserve(("a", 1, 9), 3), "a", user="ann")
    assert domain.answers() == [NotReady(Cause.UNSUBMITTED)]


def test_ready_member_asks_its_coordinator():
    domain = Domain("b")
    domain.ready()
    (ready,) = domain.sent(Ready)
    domain.answer(ready, Joined(("a", 1, 9)), "a")
    commands, _ = domain.ask(Prepare(("a", 1, 9)), "a", user="ann")
    assert commands == [PrepareJob(1)]


def test_coordinator_tries_its_own_job_for_a_ready_member():
    domain = Domain()
    commands, _ = domain.ask(Ready(3))
    assert commands == [TryJob(1)]
    assert domain.ready() == [PrepareJob(1)]
    assert domain.answers() == [Joined(domain.round())]
    domain = Domain()
    domain.ask(Ready(3))
    domain.feed(JobNotReady(0, 1))
    assert domain.answers() == [NotReady(Cause.NODES)]


def test_of_two_rounds_that_begin_together_one_gives_way():
    """a is the coordinator, but had no job of the group yet when b asked it."""
    preferred, other = Domain(), Domain("b", scheme=Scheme.YIELD)
    other.ready()
    (ready,) = other.sent(Ready)
    other.answer(ready, Unknown(), "a")
    crossing = reserve_asked(other)
    preferred.ready()
    preferred.ask(crossing.ask)
    assert preferred.answers() == [NotReady(Cause.BUSY)]
    name = preferred.round()
    commands, _ = other.ask(Reserve(name, 3), "a", user="ann")
    assert commands == []
    assert other.answers() == [Reserved(name)]
    assert other.coupling.state.rounds == {}
    assert other.answer(crossing, NotReady(Cause.BUSY), "a") == []
    commands, _ = other.ask(Prepare(name), "a", user="ann")
    assert commands == [PrepareJob(1)]


THREE = Group("g", ("a", "b", "c"), token="8 letters")


def decided():
    """Returns a domain that has decided a round of three, and the name of the round."""
    domain = Domain(group=THREE)
    domain.ready()
    name, reserve = domain.round(), domain.sent(Reserve)
    for question, by in zip(reserve, "bc", strict=True):
        domain.answer(question, Reserved(name), by)
    prepare = domain.sent(Prepare)
    domain.feed(JobPrepared(0, 1, "a:1"))
    for question, by in zip(prepare, "bc", strict=True):
        domain.answer(question, Prepared(name, HOUR, f"{by}:1"), by)
    return domain, name, domain.sent(Go)


def test_a_decided_round_is_not_given_up_for_a_question_that_came_late():
    """b asks again, because its own round gave way. c still waits for the decision, and
    would take a new round of a as the end of the one that it is prepared for."""
    domain, name, (go_b, _) = decided()
    domain.ask(Ready(3), "b")
    assert domain.answers() == [Joined(name)]
    assert not domain.sent(Reserve)
    domain.answer(go_b, Lapsed(), "b")  # it was too late for b
    commands, _ = domain.ask(Ready(3), "b")
    assert commands == []
    assert not domain.sent(Reserve)
    assert domain.answers() == [Joined(domain.round())]  # b begins without waiting for c


def own_round(domain):
    """Lets b begin a round because a knows nothing of the group yet; returns Reserve."""
    domain.ready()
    (ready,) = domain.sent(Ready)
    domain.answer(ready, Unknown(), "a")
    return reserve_asked(domain)


def test_round_does_not_give_way_to_one_that_is_over():
    """Its Abort has overtaken its Reserve."""
    domain = Domain("b", when_down=WhenDown.YIELD)
    crossing = own_round(domain)
    domain.ask(Abort(("a", 1, 9)), "a", user="ann")
    domain.ask(Reserve(("a", 1, 9), 3), "a", user="ann")
    assert domain.answers() == [NotReady(Cause.BUSY)]
    assert domain.answer(crossing, NotReady(Cause.BUSY), "a") == [HoldJob(1)]


def test_hold_asks_again_if_a_round_that_it_joined_fails():
    domain = Domain("b")
    assert domain.answer(own_round(domain), NotReady(Cause.NODES), "a") == [HoldJob(1)]
    domain.ask(Reserve(("a", 1, 9), 3), "a", user="ann")
    assert domain.answers() == [Reserved(("a", 1, 9))]
    domain.ask(Abort(("a", 1, 9)), "a", user="ann")
    assert domain.member.is_idle
    assert domain.tick(30 * SECOND) == [PrepareJob(1)]  # a is silent: the policy is start


def test_prepare_of_a_preferred_round_is_obeyed_too():
    """a has counted b as ready by its question, so it sends no Reserve."""
    domain = Domain("b", THREE)
    domain.ready()
    domain.ask(Reserve(("c", 1, 5), 3), "c", user="cid")
    assert domain.answers() == [Reserved(("c", 1, 5))]
    commands, _ = domain.ask(Prepare(("a", 1, 9)), "a", user="ann")
    assert commands == [PrepareJob(1)]


def test_job_that_asks_keeps_its_nodes_when_another_round_fails():
    domain = Domain("b", THREE, scheme=Scheme.YIELD)
    domain.ready()
    domain.ask(Reserve(("c", 1, 5), 3), "c", user="cid")
    commands, _ = domain.ask(Abort(("c", 1, 5)), "c", user="cid")
    assert commands == []
    commands, _ = domain.ask(Prepare(("a", 1, 9)), "a", user="ann")
    assert commands == [PrepareJob(1)]


def test_own_round_takes_no_job_from_a_round_that_has_it():
    domain = Domain("a", THREE)
    domain.ask(Reserve(("b", 1, 5), 3))
    domain.ready()
    assert domain.answers() == [Reserved(("b", 1, 5))]
    domain.ask(Ready(3), "c", user="cid")
    assert domain.answers() == [NotReady(Cause.BUSY)]
    commands, _ = domain.ask(Prepare(("b", 1, 5)))
    assert commands == [PrepareJob(1)]


@pytest.mark.parametrize("late", [Reserve(("b", 1, 5), 3), Prepare(("b", 1, 5))])
def test_late_question_of_another_round_takes_no_answer_from_this_one(late):
    domain = Domain("c", THREE)
    domain.ask(Reserve(("a", 1, 9), 3), "a", user="ann")
    domain.ready()
    domain.ask(Prepare(("a", 1, 9)), "a", user="ann")
    domain.ask(late)
    assert domain.answers() == [NotReady(Cause.BUSY)]
    domain.ask(Reserve(("a", 1, 9), 3), "a", user="ann")  # it was on its way for long
    assert domain.answers() == [NotReady(Cause.BUSY)]
    domain.feed(JobPrepared(0, 1, "c:1"))
    assert domain.answers() == [Prepared(("a", 1, 9), 300 * SECOND, "c:1")]


def test_third_domain_leaves_a_round_for_one_of_a_preferred_coordinator():
    domain = Domain("c", THREE)
    domain.ask(Reserve(("b", 1, 5), 3), "b")
    domain.feed(JobReady(0, 1))
    assert domain.answers() == [Reserved(("b", 1, 5))]
    domain.ask(Reserve(("a", 1, 9), 3), "a", user="ann")
    assert domain.answers() == [Reserved(("a", 1, 9))]
    domain.ask(Reserve(("b", 1, 6), 3), "b")
    assert domain.answers() == [NotReady(Cause.BUSY)]
    domain.ask(Prepare(("b", 1, 5)), "b")
    assert domain.answers() == [NotReady(Cause.BUSY)]
    commands, _ = domain.ask(Prepare(("a", 1, 9)), "a", user="ann")
    assert commands == [PrepareJob(1)]


def test_domain_that_is_back_in_time_joins_a_round_that_has_left_it_out():
    domain = Domain("a", THREE)
    domain.ready()
    to_b, _ = domain.sent(Reserve)
    domain.feed(PeerLost(0, "c"))
    assert domain.coupling.state.rounds
    domain.ask(Ready(3), "c", user="cid")
    domain.answer(to_b, Reserved(domain.round()))
    asked = {c.to for c in domain.last if isinstance(c, Send) and is_question(c, Prepare)}
    assert asked == {"b", "c"}


def is_question(sent, kind):
    return isinstance(sent.message, Question) and isinstance(sent.message.ask, kind)


# --- questions that fail ------------------------------------------------------------------


def test_one_lost_message_is_sent_again_and_then_the_domain_is_down():
    domain = Domain(when_down=WhenDown.YIELD)
    domain.ready()
    (first,) = domain.sent(Reserve)
    domain.tick(SECOND)
    assert domain.sent(Reserve) == [first]
    commands = domain.tick(4 * SECOND)
    assert ReleaseJob(1, Why.YIELD) in commands
    assert domain.member.past.cause is Cause.DOWN
    assert domain.sent(Ping)
    domain.ready()  # no question is sent now, and no time is lost
    assert not domain.sent(Reserve)
    assert domain.member.stage is Stage.QUEUING


@pytest.mark.parametrize(
    ("when_down", "first", "later"),
    [
        (WhenDown.START, PrepareJob(1), None),
        (WhenDown.HOLD, HoldJob(1), PrepareJob(1)),
        (WhenDown.YIELD, ReleaseJob(1, Why.YIELD), None),
    ],
)
def test_policy_for_a_domain_that_is_down(when_down, first, later):
    domain = Domain(when_down=when_down, down_hold_ns=30 * SECOND, scheme=Scheme.YIELD)
    domain.feed(PeerLost(0, "b"))
    assert first in domain.ready()
    if later is not None:
        seen = [domain.tick(SECOND) for _ in range(31)]
        assert [later] in seen[29:]
        domain.feed(JobPrepared(domain.now, 1))
        assert domain.member.past.alone == "b does not answer"


def test_any_message_shows_that_a_domain_is_back():
    domain = Domain(when_down=WhenDown.HOLD)
    domain.feed(PeerLost(0, "b"))
    domain.ready()
    assert domain.member.stage is Stage.HOLDING
    domain.ask(Ping())
    assert domain.answers() == [Alive()]
    assert domain.sent(Reserve)


def test_recovering_is_not_unknown_and_refused_is_not_down():
    for reply, stage, cause in (
        (Recovering(), Stage.HOLDING, Cause.RECOVERING),
        (Refused("no"), Stage.QUEUING, Cause.REFUSED),
    ):
        domain = Domain(scheme=Scheme.HOLD)
        domain.ready()
        domain.answer(reserve_asked(domain), reply)
        assert (domain.member.stage, domain.member.past.cause) == (stage, cause)
    assert GroupDisputed(1, "b", "no") in domain.last


def test_job_that_holds_yields_when_its_group_is_refused():
    domain = Domain(scheme=Scheme.HOLD)
    domain.ready()
    domain.answer(reserve_asked(domain), Recovering())
    assert domain.member.stage is Stage.HOLDING
    domain.tick(30 * SECOND)
    assert ReleaseJob(1, Why.YIELD) in domain.answer(reserve_asked(domain), Refused("no"))
    assert domain.member.stage is Stage.QUEUING


def test_unknown_group_is_waited_for_as_long_as_the_settings_say():
    domain = Domain()
    domain.ready()
    assert domain.answer(reserve_asked(domain), Unknown()) == [PrepareJob(1)]
    domain = Domain(unknown_ns=20 * SECOND)
    domain.ready()
    assert domain.answer(reserve_asked(domain), Unknown()) == [HoldJob(1)]
    domain.tick(20 * SECOND)
    assert domain.answer(reserve_asked(domain), Unknown()) == [PrepareJob(1)]
    domain.feed(JobPrepared(domain.now, 1))
    assert domain.member.past.alone == "b does not have its group"


def test_time_without_the_group_does_not_count_as_time_without_an_answer():
    """The mate was submitted since, and its domain is down much later."""
    domain = Domain(
        scheme=Scheme.YIELD,
        when_down=WhenDown.HOLD,
        unknown_ns=600 * SECOND,
        down_hold_ns=600 * SECOND,
    )
    domain.ready()
    domain.answer(reserve_asked(domain), Unknown())
    assert domain.member.stage is Stage.QUEUING
    domain.ask(Announce())
    domain.now = 2 * HOUR
    domain.feed(PeerLost(domain.now, "b"))
    assert HoldJob(1) in domain.ready()
    domain.tick(599 * SECOND)
    assert domain.member.stage is Stage.HOLDING


def test_time_without_the_group_begins_again_after_its_mate_was_there():
    domain = Domain(unknown_ns=600 * SECOND, scheme=Scheme.YIELD)
    domain.ready()
    domain.answer(reserve_asked(domain), Unknown())
    domain.ask(Announce())
    domain.now = 2 * HOUR
    domain.ready()
    commands = domain.answer(reserve_asked(domain), Unknown())
    assert ReleaseJob(1, Why.YIELD) in commands
    assert PrepareJob(1) not in commands


def test_time_without_an_answer_ends_when_the_domain_is_back():
    domain = Domain(when_down=WhenDown.HOLD, down_hold_ns=600 * SECOND, scheme=Scheme.YIELD)
    domain.feed(PeerLost(0, "b"))
    domain.ready()
    domain.feed(JobFailed(0, 1))
    domain.now = HOUR
    domain.ask(Ping())
    domain.feed(PeerLost(domain.now, "b"))
    assert HoldJob(1) in domain.ready()


def test_time_without_an_answer_goes_on_after_a_restart():
    domain = Domain(when_down=WhenDown.HOLD, down_hold_ns=600 * SECOND)
    domain.feed(PeerLost(0, "b"))
    domain.ready()
    restarted(domain, Found.WAITS, away=500 * SECOND)
    assert domain.member.past.down_since == {"b": domain.now - 500 * SECOND}


def test_answer_after_a_restart_ends_the_time_without_an_answer():
    domain = Domain(when_down=WhenDown.HOLD, down_hold_ns=600 * SECOND)
    domain.feed(PeerLost(0, "b"))
    domain.ready()
    restarted(domain, Found.WAITS)
    domain.ready()
    domain.answer(reserve_asked(domain), NotReady(Cause.NODES))
    assert domain.member.past.down_since == {}


@pytest.mark.parametrize("stage", [Stage.RUNNING, Stage.HOLDING])
def test_job_that_began_while_the_controller_was_away_has_departed_once(stage):
    domain = Domain()
    domain.ready()
    if stage is Stage.RUNNING:
        domain.answer(reserve_asked(domain), Over())
        domain.feed(JobPrepared(0, 1))
    else:
        domain.answer(reserve_asked(domain), NotReady(Cause.NODES))
    assert domain.member.stage is stage
    for _ in range(2):
        restarted(domain, Found.RUNS)
        assert domain.coupling.counts.started_alone == (stage is Stage.HOLDING)
        assert len(domain.sent(Departed)) == (stage is Stage.HOLDING)
    assert domain.member.stage is Stage.RUNNING


def flat(data):
    """A snapshot as version 1 had it."""
    plain = msgspec.msgpack.decode(data, strict=False)
    for member in plain["state"]["members"].values():
        for part in ("turn", "dates", "past"):
            member.update(member.pop(part))
        member.pop("began", None)
    return msgspec.msgpack.encode(plain)


def test_state_of_an_older_version_is_the_same():
    domain = Domain()
    domain.ready()
    domain.answer(reserve_asked(domain), NotReady(Cause.NODES))
    assert domain.member.turn.lease_ns is not None
    stored = domain.coupling.snapshot(0)
    assert flat(stored) != stored
    assert unpack(upgraded(flat(stored))) == unpack(stored)


def test_state_of_an_older_version_shows_that_a_job_has_begun():
    domain = Domain()
    domain.ready()
    domain.answer(reserve_asked(domain), Over())
    domain.feed(JobPrepared(0, 1))
    stored = domain.coupling.snapshot(0)
    assert unpack(upgraded(flat(stored))).state.members[1].past.began


@pytest.mark.parametrize(
    "data", [b"", b"\xc1", msgspec.msgpack.encode({"wall_ns": 1, "state": {"members": 7}})]
)
def test_damaged_state_of_an_older_version_is_refused(data):
    with pytest.raises(Malformed):
        upgraded(data)


@pytest.mark.parametrize("round_id", [("zzz", 1, 1), ("a", 1, 1)])
def test_domain_cannot_name_a_round_of_another_one(round_id):
    domain = Domain("b")
    domain.ready()
    (question,) = domain.sent(Ready)
    dropped = domain.coupling.counts.dropped
    domain.answer(question, Joined(round_id), by="a")
    honest = round_id[0] == "a"
    assert domain.member.turn.round == (round_id if honest else None)
    assert domain.coupling.counts.dropped - dropped == (not honest)
    domain.ask(Reserve(("a", 1, 2), 3), peer="a", user="ann")
    assert domain.answers() == [Reserved(("a", 1, 2))]


def test_refused_departure_of_a_job_that_runs_disputes_nothing():
    domain = Domain(when_down=WhenDown.START)
    domain.feed(PeerLost(0, "b"))
    domain.ready()
    domain.feed(JobPrepared(0, 1))
    assert domain.member.stage is Stage.RUNNING
    domain.ask(Ping())
    (question,) = domain.sent(Departed)
    assert domain.answer(question, Refused("other jobs")) == []


def test_address_that_is_too_long_for_a_message_is_cut():
    domain = Domain()
    domain.ready()
    domain.answer(reserve_asked(domain), Reserved(domain.round()))
    domain.feed(JobPrepared(0, 1, "1@n1"))
    (question,) = domain.sent(Prepare) or [
        each.question
        for each in domain.coupling.state.questions.values()
        if isinstance(each.question.ask, Prepare)
    ]
    domain.answer(question, Prepared(domain.round(), HOUR, "é" * 5000))
    (go,) = domain.sent(Go)
    assert dict(go.ask.addresses) == {"a": "1@n1", "b": "é" * 1700}


def test_late_answers_and_answers_of_others_are_dropped():
    domain = Domain()
    domain.ready()
    question = reserve_asked(domain)
    domain.answer(question, Over(), by="c")
    domain.feed(Received(0, "b", Answer("b", 7, question.number, Over())))
    assert domain.member.stage is Stage.READY
    assert domain.coupling.counts.dropped == 2
    domain.answer(question, Over())
    domain.answer(question, Over())
    assert domain.coupling.counts.dropped == 3


def test_failed_preparation_starts_no_job():
    domain = Domain()
    domain.ready()
    name = domain.round()
    domain.answer(reserve_asked(domain), Reserved(name))
    (prepare,) = domain.sent(Prepare)
    domain.feed(JobFailed(0, 1))
    assert domain.sent(Abort)
    assert domain.answer(prepare, Prepared(name, HOUR, "")) == []
    assert domain.member.stage is Stage.QUEUING


# --- questions that come again ------------------------------------------------------------


def test_repeated_question_gets_the_same_answer_and_nothing_is_done_again():
    domain = Domain("b")
    _, question = domain.ask(Reserve(("a", 1, 9), 3), "a", user="ann")
    assert domain.feed(Received(0, "a", question)) == []
    assert domain.answers() == [Working()]
    domain.feed(JobReady(0, 1))
    for restarted in (False, True):
        if restarted:
            stored = domain.coupling.snapshot(0)
            domain.coupling = Coupling.restore(stored, CouplingSettings(), RIGHTS)
        assert domain.feed(Received(0, "a", question)) == []
        assert domain.answers() == [Reserved(("a", 1, 9))]


def test_abort_that_overtakes_its_question_wins():
    domain = Domain("b")
    domain.ask(Abort(("a", 1, 9)), "a", user="ann")
    assert domain.ask(Reserve(("a", 1, 9), 3), "a", user="ann")[0] == []
    assert domain.answers() == [NotReady(Cause.BUSY)]


def test_questions_of_an_earlier_incarnation_are_dropped():
    domain = Domain("b")
    domain.ask(Ping(), "a", incarnation=4)
    domain.ask(Ping(), "a", incarnation=3)
    assert domain.answers() == []
    domain.ask(Ping(), "a", incarnation=5)
    assert domain.answers() == [Alive()]


# --- rights -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"sender": "c"}, None),
        ({"digest": "0"}, "has other jobs, times or token"),
        ({"user": "eve"}, Unknown()),
        ({"group": "other"}, Unknown()),
    ],
)
def test_hostile_question_changes_nothing(changes, says):
    domain = Domain()
    before = domain.member.stage
    commands, _ = domain.ask(Ready(3), **changes)
    assert commands == []
    assert domain.member.stage is before
    if says is None:
        assert domain.answers() == []
    elif isinstance(says, str):
        (reply,) = domain.answers()
        assert says in reply.reason
    else:
        assert domain.answers() == [says]


def test_domain_that_is_not_in_the_group_may_not_ask():
    domain = Domain()
    domain.ask(Ready(3), "c", user="ann")
    (reply,) = domain.answers()
    assert reply == Refused("group 'g' has no job in c for a")


@pytest.mark.parametrize("ask", [Prepare, Abort])
def test_only_the_coordinator_of_a_round_gives_orders(ask):
    domain = Domain("b")
    domain.ask(ask(("c", 1, 9)), "a", user="ann")
    assert domain.answers() == [Refused("a does not coordinate this round")]
    domain.ask(Outcome(("a", 1, 9)), "a", user="ann")
    assert domain.answers() == [Refused("b does not coordinate this round")]


def test_users_are_the_same_by_name_or_by_a_mapping():
    assert Rights().users_here("b", "ann") == set()
    assert Rights(same_names={"b"}).users_here("b", "ann") == {"ann"}
    assert RIGHTS.users_here("b", "bea") == {"ann"}
    assert RIGHTS.users_here("c", "bea") == {"bea"}


def test_a_token_stands_for_the_names():
    secret = replace(PAIR, token="secret")
    domain = Domain(group=secret)
    guess = replace(PAIR, token="guess")
    for group, reply in ((PAIR, Unknown()), (guess, Unknown()), (secret, Known(1))):
        domain.ask(Announce(), user="eve", digest=group.digest)
        assert domain.answers() == [reply]


def test_two_users_may_have_a_group_of_the_same_name():
    domain = Domain()
    other = Group("g", ("a", "c"))
    domain.feed(JobAnnounced(0, 5, 2, other, "carl"))
    domain.feed(JobQueued(0, 2, 3))
    refused = Refused("group 'g' has no job in c for a")
    for peer, user, group, reply in (
        ("c", "carl", other, Known(2)),
        ("b", "bea", PAIR, Known(1)),
        ("c", "ann", other, refused),
    ):
        domain.ask(Announce(), peer, user=user, digest=group.digest)
        assert domain.answers() == [reply]
    with pytest.raises(CoschedError, match="job 3 cannot join group 'g': job 2 is in it"):
        domain.feed(JobAnnounced(0, 5, 3, other, "carl"))


def test_digest_is_about_all_members_in_any_order():
    assert Group("g", ("b", "a")).digest == PAIR.digest
    for other in (
        Group("h", ("a", "b")),
        Group("g", ("a", "b", "c")),
        Group("g", ("a", "b"), Timing.WITHIN, 5),
        Group("g", ("ab",)),
    ):
        assert other.digest != PAIR.digest


# --- users --------------------------------------------------------------------------------


@pytest.mark.parametrize("stage", [Stage.QUEUING, Stage.READY, Stage.HOLDING])
def test_cancelled_job_leaves_nothing(stage):
    domain = Domain()
    if stage is not Stage.QUEUING:
        domain.ready()
    if stage is Stage.HOLDING:
        domain.answer(reserve_asked(domain), NotReady(Cause.NODES))
    assert domain.member.stage is stage
    domain.feed(JobOver(0, 1))
    assert domain.coupling.held == 0
    assert not domain.coupling.waiting
    domain.ask(Ready(3))
    assert domain.answers() == [Joined(domain.round())]  # its mate starts without it


@pytest.mark.parametrize(
    ("number", "group", "says"),
    [
        (2, Group("h", ("b", "c")), "job 2, group 'h': it has no job in domain a"),
        (2, Group("h", ("a",)), "job 2, group 'h': it has one job"),
        (2, Group("h", ("a", "a")), "it names a domain twice"),
        (2, Group("h", ("a", "b"), Timing.AFTER, 5, "c"), "its leader 'c' is not one"),
        (2, Group("h", ("a", "b"), Timing.WITHIN, -5), "its delay is -5 ns"),
        (2, PAIR, "job 2 cannot join group 'g': job 1 is in it; .* choose another"),
        (1, Group("h", ("a", "b")), "job 1 belongs to a group already"),
    ],
)
def test_group_that_cannot_be_is_refused(number, group, says):
    domain = Domain()
    before = domain.coupling.snapshot(0)
    with pytest.raises(CoschedError, match=says):
        domain.feed(JobAnnounced(0, 0, number, group, "ann"))
    assert domain.coupling.snapshot(0) == before


def test_group_that_another_domain_has_otherwise_is_disputed():
    domain = Domain()
    domain.feed(JobAnnounced(0, 0, 2, Group("h", ("a", "b")), "ann"))
    (question,) = domain.sent(Announce)
    assert domain.answer(question, Refused("group 'h' has other jobs")) == [
        GroupDisputed(2, "b", "group 'h' has other jobs")
    ]


def test_events_that_cannot_be():
    domain = Domain()
    with pytest.raises(CoschedError, match="job 7: belongs to no group"):
        domain.feed(JobReady(0, 7))
    with pytest.raises(CoschedError, match="job 1: is queuing, expected preparing"):
        domain.feed(JobPrepared(0, 1))
    with pytest.raises(CoschedError, match="job 1: is queuing, expected ready or"):
        domain.feed(JobFailed(0, 1))


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"held_cap": 1.5}, "held_cap 1.5"),
        ({"release_ns": 0}, "release_ns 0"),
        ({"yield_cap": -1}, "yield_cap -1"),
        ({"raise_by": -1}, "raise_by -1"),
        ({"pause_ns": 0}, "pause_ns 0"),
        ({"down_hold_ns": -1}, "down_hold_ns -1"),
        ({"unknown_ns": -1}, "unknown_ns -1"),
    ],
)
def test_settings_out_of_range(settings, words):
    with pytest.raises(CoschedError, match=words):
        CouplingSettings(**settings)


@pytest.mark.parametrize(
    ("patience", "words"),
    [
        ({"probe_ns": 0}, "probe_ns 0: want 1"),
        ({"answer_ns": SECOND}, "at least twice resend_ns"),
        ({"doubt_ns": SECOND}, "at least four times prepare_ns"),
    ],
)
def test_impatience_is_refused(patience, words):
    with pytest.raises(CoschedError, match=words):
        Patience(**patience)


# --- leases and caps ----------------------------------------------------------------------


def test_hold_ends_with_its_lease():
    domain = Domain(release_ns=100 * SECOND)
    domain.now = 30 * SECOND
    domain.ready()
    domain.answer(reserve_asked(domain), NotReady(Cause.NODES))
    assert domain.member.turn.lease_ns == 100 * SECOND
    assert domain.tick(69 * SECOND) == []
    assert ReleaseJob(1, Why.LEASE) in domain.tick(SECOND)
    assert domain.coupling.rules().last == {1}


@pytest.mark.parametrize(
    ("settings", "command"),
    [
        ({"held_cap": 0.3}, ReleaseJob(1, Why.YIELD)),
        ({"held_cap": 0.4}, HoldJob(1)),
        ({"scheme": Scheme.YIELD, "yield_cap": 0}, HoldJob(1)),
        ({"scheme": Scheme.YIELD, "yield_cap": 1}, ReleaseJob(1, Why.YIELD)),
    ],
)
def test_caps(settings, command):
    domain = Domain(**settings)
    domain.ready()
    assert command in domain.answer(reserve_asked(domain), NotReady(Cause.NODES))


def test_vote_without_a_decision_ends_as_the_policy_says():
    for when_down, last in (
        (WhenDown.START, GoJob(1)),
        (WhenDown.YIELD, ReleaseJob(1, Why.DOUBT)),
    ):
        domain = Domain("b", when_down=when_down)
        domain.ask(Reserve(("a", 1, 9), 3), "a", user="ann")
        domain.ready()
        domain.ask(Prepare(("a", 1, 9)), "a", user="ann")
        domain.feed(JobPrepared(0, 1))
        domain.tick(SECOND)
        assert domain.sent(Outcome)
        assert last in domain.tick(299 * SECOND)


# --- leaders and followers ----------------------------------------------------------------


AFTER = Group("g", ("a", "b"), Timing.AFTER, 30 * SECOND, leader="b")


@pytest.mark.parametrize(
    ("reply", "due"),
    [
        (Over(), True),
        (Running(40 * SECOND), True),
        (Unknown(), True),
        (NotReady(Cause.UNSUBMITTED), False),
        (Running(20 * SECOND), False),
    ],
)
def test_follower_waits_for_its_leader(reply, due):
    domain = Domain(group=AFTER)
    domain.ready()
    (question,) = domain.sent(LeaderStatus)
    commands = domain.answer(question, reply)
    if due:
        assert commands == [PrepareJob(1)]
        return
    assert ReleaseJob(1, Why.NOT_DUE) in commands
    assert domain.coupling.rules().left_out == {1}
    domain.ask(LeaderStarted(30 * SECOND))
    assert domain.coupling.rules().left_out == ()
    assert domain.ready() == [PrepareJob(1)]


def test_leader_reports_its_start_and_its_end():
    domain = Domain("b", group=AFTER)
    assert domain.ready() == [PrepareJob(1)]
    domain.feed(JobPrepared(0, 1))
    (started,) = domain.sent(LeaderStarted)
    assert started.ask == LeaderStarted(0)
    domain.feed(JobOver(0, 1))
    (over,) = domain.sent(LeaderStarted)
    assert over.ask.over


# --- restarts -----------------------------------------------------------------------------


def restarted(domain, found, away=SECOND):
    stored = domain.coupling.snapshot(100 * SECOND)
    domain.coupling = Coupling.restart(
        stored, domain.coupling.settings, 7, 100 * SECOND + away, RIGHTS
    )
    domain.now = 7
    domain.ask(Ping(), "a")
    assert domain.answers() == [Recovering()]
    if found is not None:
        domain.feed(JobFound(7, 1, found, 4))
    return domain.feed(RecoveryEnded(7, 100 * SECOND + away))


def voted():
    domain = Domain("b")
    domain.ask(Reserve(("a", 1, 9), 3), "a", user="ann")
    domain.ready()
    domain.ask(Prepare(("a", 1, 9)), "a", user="ann")
    domain.feed(JobPrepared(0, 1))
    return domain


def test_vote_outlives_a_restart_with_its_lease():
    domain = voted()
    restarted(domain, Found.PREPARED, away=100 * SECOND)
    assert domain.member.stage is Stage.PREPARED
    assert domain.member.turn.vote_ns == 7 + 200 * SECOND
    assert domain.ask(Go(("a", 1, 9), ()), "a", user="ann")[0] == [GoJob(1)]


def test_step_of_the_wall_clock_makes_no_lease_longer():
    domain = voted()
    restarted(domain, Found.PREPARED, away=-5000 * SECOND)
    assert domain.member.turn.vote_ns == 7 + 300 * SECOND


def test_release_of_nodes_before_a_restart_is_as_long_ago_as_it_was():
    domain = Domain(release_ns=100 * SECOND)
    domain.ready()
    domain.answer(reserve_asked(domain), NotReady(Cause.NODES))
    assert ReleaseJob(1, Why.LEASE) in domain.tick(100 * SECOND)
    restarted(domain, Found.WAITS, away=5 * SECOND)
    assert domain.coupling.state.released_ns == domain.now - 5 * SECOND
    assert domain.member.past.released_ns == domain.now - 5 * SECOND


def test_decision_outlives_a_restart():
    domain = voted()
    domain.ask(Go(("a", 1, 9), ()), "a", user="ann")
    assert GoJob(1) in restarted(domain, Found.PREPARED)
    domain = voted()
    domain.ask(Go(("a", 1, 9), ()), "a", user="ann")
    restarted(domain, Found.WAITS)  # its nodes were lost, and its mate runs
    assert domain.coupling.rules().first == [1]


def test_coordinator_repeats_its_decision_after_a_restart():
    domain = Domain()
    domain.ready()
    name = domain.round()
    domain.answer(reserve_asked(domain), Reserved(name))
    (prepare,) = domain.sent(Prepare)
    domain.feed(JobPrepared(0, 1))
    domain.answer(prepare, Prepared(name, HOUR, ""))
    restarted(domain, Found.RUNS)
    (go,) = domain.sent(Go)
    assert go.ask.round == name
    assert go.incarnation > 1


def test_job_without_a_vote_is_released_after_a_restart():
    domain = Domain("b")
    domain.ask(Reserve(("a", 1, 9), 3), "a", user="ann")
    domain.ready()
    domain.ask(Prepare(("a", 1, 9)), "a", user="ann")
    assert ReleaseJob(1, Why.ROUND) in restarted(domain, Found.PREPARED)


def test_round_of_this_domain_ends_with_a_restart_before_its_decision():
    domain = Domain()
    domain.ready()
    domain.answer(reserve_asked(domain), Reserved(domain.round()))
    domain.feed(JobPrepared(0, 1))
    assert ReleaseJob(1, Why.ROUND) in restarted(domain, Found.PREPARED)


def test_job_that_is_not_found_is_over():
    domain = Domain("b")
    restarted(domain, None)
    assert domain.member.stage is Stage.OVER


def test_job_is_forgotten_in_time():
    domain = Domain()
    domain.feed(JobOver(0, 1))
    domain.tick(8 * 24 * HOUR)
    assert not domain.coupling.state.members
    assert not domain.coupling.state.groups


@pytest.mark.parametrize(
    "damaged",
    [
        b"",
        b"no snapshot",
        msgspec.msgpack.encode({"wall_ns": 0, "state": {"name": 5}}),
        Domain().coupling.snapshot(0)[:-1],
    ],
)
def test_damaged_state_is_refused(damaged):
    with pytest.raises(CoschedError, match="not the state of a coupling: "):
        Coupling.restore(damaged, CouplingSettings())


# --- why ----------------------------------------------------------------------------------


def why(domain):
    moment = Moment(domain.now, 36_000 * SECOND + domain.now)
    return sentence(reason(domain.member, domain.coupling.name, moment), clock)


def clock(wall_ns):
    minutes = wall_ns // (60 * SECOND)
    return f"{minutes // 60}:{minutes % 60:02}"


def test_reasons_of_a_job_that_waits():
    domain = Domain()
    assert why(domain) == "waits for nodes, to start with g@b"
    domain.ready()
    assert why(domain) == "ready, has 4 nodes, asks g@b"
    domain.ask(Announce())
    domain.answer(
        next(iter(domain.coupling.state.questions.values())).question,
        NotReady(Cause.NODES),
    )
    domain.tick(180 * SECOND)
    assert why(domain) == (
        "ready, holds 4 nodes since 3 min for b:812: b has too few free nodes for it; "
        "released at 10:20"
    )
    domain = Domain(scheme=Scheme.YIELD)
    for _ in range(3):
        domain.ready()
        domain.answer(reserve_asked(domain), NotReady(Cause.UNSUBMITTED))
    assert why(domain) == (
        "yielded 3 times, to start with g@b: b does not have its job in the queue yet"
    )


def test_reason_of_a_job_that_began_alone():
    domain = Domain()
    domain.feed(PeerLost(0, "b"))
    domain.ready()
    domain.feed(JobPrepared(0, 1))
    assert why(domain) == "started without g@b: b does not answer"
    domain.feed(JobOver(0, 1))
    assert why(domain) == "started without g@b: b does not answer"


def test_reasons_in_a_round():
    domain = Domain("b")
    domain.ask(Reserve(("a", 1, 9), 3), "a", user="ann")
    domain.ready()
    domain.ask(Prepare(("a", 1, 9)), "a", user="ann")
    assert why(domain) == "is prepared on 4 nodes, to start with a:812"
    domain.feed(JobPrepared(0, 1))
    assert why(domain) == (
        "is prepared, waits for the decision to start with a:812; decided at 10:05"
    )
    domain.ask(Go(("a", 1, 9), ()), "a", user="ann")
    assert why(domain) == "started with a:812"


def test_refused_job_that_comes_again_is_not_forgotten_while_it_waits():
    a = Domain(patience=Patience(forget_ns=HOUR))
    a.feed(JobAnnounced(a.now, 5, 2, Group("h", ("a", "b")), a.user))
    a.feed(JobOver(a.now, 2))  # is remembered meanwhile
    for _ in range(2):
        a.feed(JobOver(a.now, 1))
        a.feed(JobRefused(a.now, 1))
        a.feed(JobAnnounced(a.now, 5, 1, PAIR, a.user))
        a.feed(JobQueued(a.now, 1, 4))
    a.tick(2 * HOUR)
    assert a.member.stage is Stage.QUEUING
    a.feed(JobOver(a.now, 1))
    a.tick(2 * HOUR)
    assert a.coupling.state.members == {}


ADDRESSES = (("a", "1@n1"), ("b", "1@m1"))


def test_job_that_lost_its_start_keeps_the_addresses_of_its_mates():
    domain = voted()
    domain.ask(Go(("a", 1, 9), ADDRESSES), "a", user="ann")
    restarted(domain, Found.WAITS)
    domain.ready()
    assert domain.feed(JobPrepared(domain.now, 1, "1@m1")) == [GoJob(1, ADDRESSES)]


def test_promised_job_gets_the_addresses_of_its_mates():
    group = Group("g", ("a", "b"), Timing.WITHIN, HOUR)
    domain = Domain("b", group)
    domain.ask(Reserve(("a", 1, 9), 3), "a", user="ann")
    domain.feed(JobNotReady(0, 1, expected_ns=SECOND))
    domain.ask(Go(("a", 1, 9), ADDRESSES), "a", user="ann")
    domain.ready()
    assert domain.feed(JobPrepared(0, 1, "1@m1")) == [GoJob(1, ADDRESSES)]


def test_job_counts_with_the_nodes_that_it_got():
    domain = Domain(held_cap=0.5)  # 5 nodes
    domain.feed(JobReady(0, 1, size=6))
    assert domain.member.size == 6
    asked = reserve_asked(domain)
    assert domain.answer(asked, NotReady(Cause.NODES)) == [ReleaseJob(1, Why.YIELD), ANY]


# --- nodes that are lost after the vote ---------------------------------------------------


def test_job_that_lost_its_nodes_after_its_vote_begins_by_the_decision():
    """Its mates have begun by it already."""
    domain = voted()
    domain.feed(JobFailed(0, 1))
    assert domain.member.stage is Stage.QUEUING
    domain.ask(Go(("a", 1, 9), ADDRESSES), "a", user="ann")
    assert domain.answers() == [Went()]
    assert domain.ready() == [PrepareJob(1)]
    assert domain.feed(JobPrepared(0, 1)) == [GoJob(1, ADDRESSES)]
    assert domain.member.past.went == ("a", 1, 9)


def test_job_that_has_other_nodes_by_then_begins_at_once():
    domain = voted()
    domain.feed(JobFailed(0, 1))
    assert domain.ready() == []
    commands, _ = domain.ask(Go(("a", 1, 9), ADDRESSES), "a", user="ann")
    assert commands == [PrepareJob(1)]
    assert domain.feed(JobPrepared(0, 1)) == [GoJob(1, ADDRESSES)]
    assert domain.member.past.went == ("a", 1, 9)


@pytest.mark.parametrize("found", [Found.WAITS, Found.PREPARED])
@pytest.mark.parametrize("noticed", [True, False])
def test_restart_keeps_the_vote_of_a_job_that_lost_its_nodes(found, noticed):
    domain = voted()
    if noticed:
        domain.feed(JobFailed(0, 1))
    restarted(domain, found)
    domain.ask(Go(("a", 1, 9), ADDRESSES), "a", user="ann")
    assert domain.answers() == [Went()]
    if domain.member.stage is Stage.QUEUING:
        domain.ready()
        domain.feed(JobPrepared(domain.now, 1))
    assert domain.member.past.went == ("a", 1, 9)


@pytest.mark.parametrize("ready", [True, False])
def test_job_that_lost_its_nodes_asks_for_the_decision(ready):
    domain = voted()
    domain.feed(JobFailed(0, 1))
    if ready:
        domain.ready()
    domain.tick(SECOND)
    (question,) = domain.sent(Outcome)
    assert question.ask == Outcome(("a", 1, 9))
    domain.answer(question, Aborted(), "a")
    assert not domain.sent(Outcome)
    assert domain.member.turn.promised is None
    if not ready:
        domain.ready()
        assert domain.sent(Ready)


def test_lost_vote_ends_with_its_lease():
    domain = voted()
    domain.feed(JobFailed(0, 1))
    domain.tick(300 * SECOND)
    domain.ask(Go(("a", 1, 9), ADDRESSES), "a", user="ann")
    assert domain.answers() == [Lapsed()]


def test_own_round_of_a_job_that_lost_its_nodes_has_failed():
    domain = Domain()
    domain.ready()
    name = domain.round()
    domain.answer(reserve_asked(domain), Reserved(name))
    domain.feed(JobPrepared(0, 1))
    domain.feed(JobFailed(0, 1))
    assert domain.member.turn.promised is None
    assert not domain.coupling.state.rounds
    assert domain.sent(Abort)
