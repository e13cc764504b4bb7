"""The tracker follows gates and squeue, which shows the past. In this model of Slurm,
anything may happen between a question and its answer."""

from __future__ import annotations

from functools import partial

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from cosched.cluster.engines.slurm import jobs
from cosched.cluster.engines.slurm.events import (
    Cancelled,
    Ended,
    GaveBack,
    NotReady,
    Ready,
    Refused,
    Started,
    StartFailed,
    Submitted,
)
from cosched.cluster.engines.slurm.jobs import Stage
from cosched.cluster.engines.slurm.tracker import (
    GO,
    YIELD,
    Gate,
    GateOrder,
    Phase,
    Tracker,
    TurnAway,
)

PAIRED = "cosched:mate=g@b"
SlurmJob = partial(jobs.SlurmJob, user_name="anna")
#: The events that may follow each event of a job.
NEXT = {
    None: {Submitted},
    Submitted: {Ready, Started, Cancelled},
    Ready: {NotReady, GaveBack, StartFailed, Started, Ended, Cancelled},
    NotReady: {Ready, Started, Cancelled},
    GaveBack: {Ready, Started, Cancelled},
    StartFailed: {Ready, Started, Cancelled},
    Started: {Ended},
    Ended: {Submitted},
    Cancelled: {Submitted},
}


class Slurm(RuleBasedStateMachine):
    """One job with a mate. state: PENDING, CONFIGURING, RUNNING or over."""

    @initialize()
    def begin(self):
        self.now = 1.0
        self.tracker = Tracker("a", ["b"], only_hold=False)
        self.state, self.restarts, self.comment = "PENDING", 0, PAIRED
        self.epilog = False  # EpilogSlurmctld runs
        self.gate = None  # the life of the prolog that runs
        self.connected = False
        self.answers = {}  # by life, on the way to the gate
        self.lives = 0
        self.snapshot = None
        self.last = None
        self.ready = False

    def tick(self):
        self.now += 1
        return self.now

    def take(self, steps):
        for step in steps:
            if isinstance(step, GateOrder):
                assert step.life not in self.answers, "a second order"
                self.answers[step.life] = step.order
                continue
            assert not isinstance(step, (TurnAway, Refused))
            assert type(step) in NEXT[self.last], (self.last, step)
            self.last = type(step)
            self.ready = self.last is Ready

    def shown(self):
        return SlurmJob(
            7,
            job_state="COMPLETING" if self.epilog else self.state,
            comment=self.comment,
            restart_cnt=self.restarts,
            start_time=5,
        )

    # --- Slurm ---

    @precondition(lambda self: self.epilog)
    @rule()
    def epilog_ends(self):
        self.epilog = False

    @precondition(
        lambda self: self.state == "PENDING" and self.gate is None and not self.epilog
    )
    @rule()
    def allots(self):
        self.state = "CONFIGURING"
        self.lives += 1
        self.gate, self.connected = f"life{self.lives}", False
        self.gate_restarts = self.restarts

    @precondition(lambda self: self.gate is not None and not self.connected)
    @rule()
    def gate_connects(self):
        self.connected = True
        gate = Gate(7, self.gate_restarts, "n1", self.gate, self.tick())
        self.take(self.tracker.came(gate))

    @precondition(lambda self: self.connected and self.gate in self.answers)
    @rule()
    def gate_obeys(self):
        order, life = self.answers.pop(self.gate), self.gate
        self.gate, self.connected = None, False
        if self.state == "CONFIGURING" and order == GO:
            self.state = "RUNNING"
        elif self.state == "CONFIGURING":
            self.state, self.restarts, self.epilog = "PENDING", self.restarts + 1, True
        self.take(self.tracker.left(life, self.tick()))

    @precondition(lambda self: self.gate is not None)
    @rule()
    def slurmctld_restarts(self):
        """Ends the prolog; the job is scheduled once more."""
        life, was = self.gate, self.connected
        self.gate, self.connected = None, False
        self.answers.pop(life, None)
        if self.state == "CONFIGURING":
            self.state, self.restarts = "PENDING", self.restarts + 1
        if was:
            self.take(self.tracker.left(life, self.tick()))

    @precondition(lambda self: self.gate is not None and self.connected)
    @rule()
    def connection_breaks(self):
        """Lets the gate connect once more, as after a restart of the controller."""
        self.connected = False
        self.answers.pop(self.gate, None)
        self.take(self.tracker.left(self.gate, self.tick()))

    @precondition(lambda self: self.state in ("CONFIGURING", "RUNNING"))
    @rule()
    def administrator_requeues(self):
        self.state, self.restarts, self.epilog = "PENDING", self.restarts + 1, True

    @precondition(lambda self: self.state != "CANCELLED")
    @rule()
    def user_cancels(self):
        self.epilog = self.epilog or self.state in ("CONFIGURING", "RUNNING")
        self.state = "CANCELLED"

    @precondition(lambda self: self.state == "RUNNING")
    @rule()
    def job_ends(self):
        self.state = "COMPLETED"

    # --- squeue ---

    @precondition(lambda self: self.snapshot is None)
    @rule()
    def squeue_is_asked(self):
        self.snapshot = ([self.shown()], self.tick())

    @precondition(lambda self: self.snapshot is not None)
    @rule()
    def squeue_answers(self):
        jobs, asked = self.snapshot
        self.snapshot = None
        self.take(self.tracker.polled(jobs, asked))

    # --- the controller ---

    @precondition(lambda self: self.ready)
    @rule(order=st.sampled_from(["go", "give_back"]))
    def controller_orders(self, order):
        self.ready = False
        steps = getattr(self.tracker, order)(7, self.tick())
        assert [step.order for step in steps] == [GO if order == "go" else YIELD]
        self.take(steps)

    def settle(self):
        """Lets everything arrive that is under way, and asks squeue twice."""
        for _ in range(3):
            if self.gate is not None and not self.connected:
                self.gate_connects()
            if self.connected and self.gate in self.answers:
                self.gate_obeys()
            self.epilog = False  # also that of a job which has just yielded
            self.take(self.tracker.polled([self.shown()], self.tick()))
            self.tick()

    def teardown(self):
        if not hasattr(self, "now"):
            return
        if self.snapshot is not None:
            self.squeue_answers()
        self.settle()
        tracked = self.tracker.get(7)
        stage = self.shown().stage
        if stage is Stage.OVER:
            assert tracked is None
            assert self.gate is None, "a gate of a job that is over waits for ever"
        elif stage is Stage.RUNS:
            assert tracked.phase is Phase.RUNNING
        elif self.gate is not None:
            assert tracked.phase is Phase.READY
            assert self.last is Ready
        else:
            assert tracked.phase is Phase.QUEUED

    @invariant()
    def orders_only_to_gates_that_wait(self):
        for life in getattr(self, "answers", {}):
            assert life == self.gate or life != ""


TestSlurm = Slurm.TestCase


def polled(tracker, asked=1.0, **fields):
    return tracker.polled([SlurmJob(7, comment=PAIRED, **fields)], asked)


def test_job_that_cannot_yield_only_holds_if_the_site_wants_that():
    for fields in ({"batch_flag": False}, {"requeue": False}):
        refusing = Tracker("a", ["b"], only_hold=False)
        (away, refused) = polled(refusing, **fields)
        assert isinstance(away, TurnAway)
        assert away.waits == fields.get("batch_flag", True)
        assert isinstance(refused, Refused)
        (submitted,) = polled(Tracker("a", ["b"], only_hold=True), **fields)
        assert not submitted.job.may_yield


def test_ready_job_that_cannot_yield_ends_its_hold_with_its_lease():
    for fields, found in (({"batch_flag": False}, [7]), ({}, [])):
        tracker = Tracker("a", ["b"], only_hold=True)
        polled(tracker, **fields)
        tracker.came(Gate(7, 0, "n1", "life", 2.0, ends=60.0))
        assert tracker.only_hold_until(59.0) == []
        assert tracker.only_hold_until(60.0) == found
        tracker.go(7, 3.0)
        assert tracker.only_hold_until(60.0) == []


def test_squeue_does_not_run_often_while_slurm_takes_long_to_start_a_job():
    tracker = Tracker("a", ["b"], only_hold=False)
    polled(tracker)
    tracker.came(Gate(7, 0, "n1", "life", 2.0))
    assert not tracker.is_busy(0.0)
    tracker.go(7, 3.0)
    assert tracker.is_busy(2.0)
    assert not tracker.is_busy(3.0)


def test_job_of_a_user_without_a_name_is_refused():
    for name in (None, ""):
        tracker = Tracker("a", ["b"], only_hold=False)
        (away, refused) = polled(tracker, user_id=1005, user_name=name)
        assert (away.number, away.waits) == (7, True)
        assert refused.reason.startswith("user 1005 has no name here")


def test_refused_job_is_reported_once_and_kept_held():
    tracker = Tracker("a", ["b"], only_hold=False)
    bad = SlurmJob(7, comment="cosched:x")
    kinds = [type(step) for step in tracker.polled([bad], 1.0)]
    assert kinds == [TurnAway, Refused]
    tracker.turned_away(7, 1.5)
    held = SlurmJob(7, comment="cosched:x", priority=0)
    assert tracker.polled([held], 2.0) == []
    (away,) = tracker.polled([bad], 3.0)  # released without a correction
    assert isinstance(away, TurnAway)
    good = SlurmJob(7, comment=PAIRED)
    assert [type(step) for step in tracker.polled([good], 4.0)] == [Submitted]


def test_hold_of_a_refused_job_is_not_repeated_before_its_effect_shows():
    tracker = Tracker("a", ["b"], only_hold=False)
    bad = SlurmJob(7, comment="cosched:x")
    assert tracker.polled([bad], 1.0) != []
    assert tracker.polled([bad], 2.0) == []  # Slurm has not held it yet
    tracker.turned_away(7, 4.0)
    assert tracker.polled([bad], 3.0) == []  # squeue's answer is older than the hold
    assert [type(step) for step in tracker.polled([bad], 5.0)] == [TurnAway]


def test_gate_of_a_job_that_is_being_cancelled_gets_an_order():
    tracker = Tracker("a", ["b"], only_hold=False)
    srun = SlurmJob(7, comment=PAIRED, batch_flag=False)
    assert isinstance(tracker.polled([srun], 1.0)[0], TurnAway)
    tracker.came(Gate(7, 0, "n1", "life", 1.5))
    assert tracker.polled([srun], 2.0) == [GateOrder("life", YIELD)]


def test_bad_comment_at_a_gate_yields_and_is_held_then():
    tracker = Tracker("a", ["b"], only_hold=False)
    tracker.came(Gate(7, 0, "n1", "life", 1.0))
    running = SlurmJob(7, comment="cosched:x", job_state="CONFIGURING")
    assert tracker.polled([running], 2.0)[0] == GateOrder("life", YIELD)
    waits = SlurmJob(7, comment="cosched:x")
    (away,) = tracker.polled([waits], 3.0)
    assert (away.number, away.waits) == (7, True)


def test_changed_comment_lets_a_ready_job_go_or_wait_for_other_mates():
    for comment, order in (("", GO), ("cosched:mate=h@b", YIELD)):
        tracker = Tracker("a", ["b"], only_hold=False)
        polled(tracker)
        tracker.came(Gate(7, 0, "n1", "life", 2.0))
        changed = SlurmJob(7, comment=comment, job_state="CONFIGURING")
        steps = tracker.polled([changed], 3.0)
        assert Cancelled(7, "its comment has changed") in steps
        assert GateOrder("life", order) in steps


def test_job_that_squeue_forgot_is_over():
    tracker = Tracker("a", ["b"], only_hold=False)
    polled(tracker, job_state="RUNNING")
    assert tracker.polled([], 2.0) == [Ended(7, "gone")]


def test_poll_that_is_older_than_the_gate_does_not_start_the_job():
    for shown in (SlurmJob(7, comment=""), SlurmJob(7, comment=PAIRED, job_state="FAILED")):
        tracker = Tracker("a", ["b"], only_hold=False)
        tracker.came(Gate(7, 0, "n1", "life", 2.0))
        assert tracker.polled([shown], 1.0) == []
        assert tracker.early
        assert tracker.polled([shown], 3.0) == [GateOrder("life", GO)]


def test_epilog_after_a_yield_is_no_start():
    tracker = Tracker("a", ["b"], only_hold=False)
    polled(tracker)
    tracker.came(Gate(7, 0, "n1", "life", 2.0))
    tracker.give_back(7, 3.0)
    assert polled(tracker, 4.0, job_state="COMPLETING") == []  # PENDING as well
    assert tracker.left("life", 5.0) == [GaveBack(7)]
    assert polled(tracker, 6.0, job_state=["COMPLETING"]) == []
    assert polled(tracker, 7.0) == []
    assert [type(step) for step in tracker.came(Gate(7, 1, "n1", "x", 8.0))] == [Ready]


@pytest.mark.parametrize("state", ["CANCELLED", "FAILED"])
def test_epilog_of_a_job_that_ends_at_its_gate_is_no_start(state):
    """Slurm 23.02 and later print both words."""
    tracker = Tracker("a", ["b"], only_hold=False)
    polled(tracker)
    tracker.came(Gate(7, 0, "n1", "life", 2.0))
    assert polled(tracker, 3.0, job_state=[state, "COMPLETING"]) == []
    assert polled(tracker, 4.0, job_state=[state]) == [
        Cancelled(7, state),
        GateOrder("life", GO),
    ]


def test_epilog_after_a_start_is_one():
    tracker = Tracker("a", ["b"], only_hold=False)
    polled(tracker)
    tracker.came(Gate(7, 0, "n1", "life", 2.0))
    tracker.go(7, 3.0)
    assert polled(tracker, 4.0, job_state="COMPLETING", start_time=3) == [
        Started(7, 3 * 10**9)
    ]


def test_gate_of_a_refused_job_gets_an_order_after_the_epilog():
    tracker = Tracker("a", ["b"], only_hold=False)
    tracker.came(Gate(7, 1, "n1", "life", 2.0))
    ends = SlurmJob(7, comment="cosched:x", job_state="COMPLETING")
    assert tracker.polled([ends], 1.0) == []
    ready = SlurmJob(7, comment="cosched:x", job_state="CONFIGURING")
    assert tracker.polled([ready], 3.0)[0] == GateOrder("life", YIELD)


def test_waiting_job_that_must_not_be_requeued_any_more_is_refused():
    tracker = Tracker("a", ["b"], only_hold=False)
    polled(tracker)
    cancelled, away, refused = polled(tracker, 2.0, requeue=False)
    assert cancelled == Cancelled(7, "it cannot wait again any more")
    assert (away.number, away.waits) == (7, True)
    assert "--requeue" in refused.reason
    tracker.turned_away(7, 2.5)
    assert polled(tracker, 3.0, requeue=False, priority=0) == []
    assert [type(step) for step in polled(tracker, 4.0)] == [Submitted]


def test_ready_job_that_must_not_be_requeued_any_more_keeps_its_nodes():
    tracker = Tracker("a", ["b"], only_hold=False)
    polled(tracker)
    tracker.came(Gate(7, 0, "n1", "life", 2.0))
    shown = {"job_state": "CONFIGURING", "requeue": False}
    assert polled(tracker, 3.0, **shown) == []
    assert not tracker.get(7).may_yield


def test_job_at_its_gate_that_must_not_be_requeued_is_cancelled_with_a_reason():
    tracker = Tracker("a", ["b"], only_hold=False)
    tracker.came(Gate(7, 0, "n1", "life", 1.0))
    away, _ = polled(tracker, 2.0, job_state="CONFIGURING", requeue=False)
    assert (away.number, away.waits, away.life) == (7, False, "life")


def test_ready_job_has_as_many_nodes_as_its_gate_names():
    for nodes, size in (("n1", 1), ("n[1-3,7],m2", 5), ("n[008-011]", 4), ("", 2)):
        tracker = Tracker("a", ["b"], only_hold=False)
        polled(tracker, node_count=2)
        assert tracker.came(Gate(7, 0, nodes, "life", 2.0)) == [Ready(7, nodes, size)]


def test_changed_comment_of_a_ready_job_that_cannot_yield_does_not_end_it():
    tracker = Tracker("a", ["b"], only_hold=True)
    fields = {"batch_flag": False, "job_state": "CONFIGURING"}
    polled(tracker, **fields)
    tracker.came(Gate(7, 0, "n1", "life", 2.0))
    other = SlurmJob(7, comment="cosched:mate=h@b", **fields)
    steps = tracker.polled([other], 3.0)
    assert [type(step) for step in steps] == [Cancelled, Submitted, Ready]
    assert tracker.go(7, 4.0) == [GateOrder("life", GO)]


def test_machine_settles_after_a_yield():
    """Random steps seldom end with one."""
    slurm = Slurm()
    slurm.begin()
    slurm.squeue_is_asked()
    slurm.squeue_answers()
    slurm.allots()
    slurm.gate_connects()
    slurm.controller_orders("give_back")
    slurm.teardown()
