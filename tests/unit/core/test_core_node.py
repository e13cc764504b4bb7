"""The scheduler daemon's state machine: the paper's rules one by one, then properties
over random histories."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from cosched.core.node.groups import connected, fits
from cosched.core.node.job import LAUNCH_NS, restored_submission_key, submission_key
from cosched.core.node.machine import NodeScheduler
from cosched.core.node.messages import (
    AddTask,
    AlarmRang,
    Branch,
    Cause,
    CreateClass,
    DestroyClass,
    Event,
    FreezeClass,
    MessageTrapped,
    Mode,
    ModeChosen,
    OrderTimer,
    PublishContention,
    PublishMode,
    PublishStatus,
    Refusal,
    RefuseRequest,
    RemoveTask,
    SetAlarm,
    SetClassCpus,
    SetShares,
    SettingsChanged,
    ShutdownRequested,
    SliceEnded,
    TaskExited,
    TaskRegistered,
    ThawClass,
    TurnGiven,
)
from cosched.core.node.settings import GMET_LEAST_NS, LONGEST, Settings
from cosched.core.node.slices.free import LEAD_SLICES, PRECEDENCE
from cosched.core.units import NS_PER_MS, NS_PER_S

ONE_CPU = frozenset({0})
FREE = Settings(slice_ns=NS_PER_S, gmet_ns=100 * NS_PER_MS, align=False)
ALIGNED = Settings(slice_ns=NS_PER_S, gmet_ns=100 * NS_PER_MS, align=True)


@dataclass
class Node:
    """A machine with a clock, and what its commands add up to."""

    settings: Settings = FREE
    now_ns: int = 10 * NS_PER_S
    published: dict = field(default_factory=dict)
    members: dict = field(default_factory=dict)
    shares: dict = field(default_factory=dict)
    widths: dict = field(default_factory=dict)
    shared: dict = field(default_factory=dict)
    contended: set = field(default_factory=set)
    modes: dict = field(default_factory=dict)
    frozen: dict = field(default_factory=dict)
    alarm_ns: int | None = None
    orders: OrderTimer | None = None

    def __post_init__(self):
        self.machine = NodeScheduler(self.settings)

    def send(self, kind: type[Event], *, after_ns: int = 0, **fields):
        self.now_ns += after_ns
        commands = self.machine.handle(
            kind(now_ns=self.now_ns, wall_ns=self.now_ns, **fields)
        )
        for command in commands:
            self.apply(command)
        return commands

    def apply(self, command):
        match command:
            case PublishStatus(job, epoch, scheduled):
                assert epoch >= self.published.get(job, (0, None))[0]
                assert not (scheduled and job in self.frozen)
                self.published[job] = (epoch, scheduled)
            case CreateClass(job, cpus):
                assert job not in self.members
                self.members[job] = set()
                self.widths[job] = cpus
            case SetClassCpus(job, cpus):
                assert job in self.members
                self.widths[job] = cpus
            case AddTask(job, task):
                self.members[job].add(task)
            case RemoveTask(job, task):
                self.members[job].remove(task)
            case DestroyClass(job):
                del self.members[job]
                for record in (self.shares, self.widths, self.shared):
                    record.pop(job, None)
                self.contended.discard(job)
            case FreezeClass(job):
                self.frozen[job] = set(self.members[job])
            case ThawClass(job):
                del self.frozen[job]
            case PublishMode(job, mode):
                self.modes[job] = mode
            case SetShares(percents):
                self.shares = dict(percents)
                self.shared = {job: self.widths[job] for job in self.shares}
            case SetAlarm(at_ns):
                self.alarm_ns = at_ns
            case OrderTimer():
                self.orders = command
            case PublishContention(job, contended):
                assert contended != (job in self.contended)
                self.contended ^= {job}

    def register(self, job, task=None, cpus=ONE_CPU, **kw):
        task = task if task is not None else ord(job[0])
        return self.send(TaskRegistered, job=job, task=task, cpus=cpus, **kw)

    def trap(self, job, **kw):
        state = self.machine.jobs[job]
        task = next(iter(state.tasks))
        return self.send(MessageTrapped, job=job, task=task, epoch=state.epoch, **kw)

    def choose(self, job, mode, **kw):
        return self.send(ModeChosen, job=job, mode=mode, **kw)

    @property
    def running(self):
        return {key for key, job in self.machine.jobs.items() if job.scheduled}


def two_jobs():
    """b has its slice, a waits: the first of them to be submitted."""
    node = Node()
    for job in "ab":
        node.register(job)
    node.send(SliceEnded, after_ns=NS_PER_S)
    assert node.running == {"b"}
    return node


def test_first_job_is_scheduled_and_later_ones_wait_at_one_percent():
    node = Node()
    for job in "abc":
        node.register(job)
    assert node.running == {"a"}
    assert node.shares == {"a": 98, "b": 1, "c": 1}
    assert {job: on for job, (_, on) in node.published.items()} == {
        "a": True,
        "b": False,
        "c": False,
    }


def test_second_task_of_a_job_joins_its_class():
    node = Node()
    node.register("a", 1, frozenset({0}))
    node.register("a", 2, frozenset({1}))
    assert node.members == {"a": {1, 2}}
    assert node.machine.jobs["a"].cpus == {0, 1}


def test_a_job_that_gains_cpus_is_given_its_share_of_them():
    """Also if the percents stay: a class has its weight or quota by the CPUs it had."""
    node = Node()
    node.register("a", 1, frozenset({0}))
    commands = node.register("a", 2, frozenset({1}))
    assert SetShares((("a", 100),)) in commands
    assert commands.index(SetClassCpus("a", frozenset({0, 1}))) < commands.index(
        SetShares((("a", 100),))
    )
    commands = node.register("a", 3, frozenset({1}))
    assert not any(isinstance(c, SetShares) for c in commands)


def test_cmdout_of_the_last_task_destroys_the_job_and_schedules_the_next():
    node = Node()
    for job in "ab":
        node.register(job)
    node.send(TaskExited, job="a", task=ord("a"))
    assert node.running == {"b"}
    assert node.members == {"b": {ord("b")}}
    assert node.shares == {"b": 100}


def test_cmdout_of_an_unscheduled_job_gives_its_percent_back():
    node = Node()
    for job in "abc":
        node.register(job)
    node.send(TaskExited, job="c", task=ord("c"))
    assert node.shares == {"a": 99, "b": 1}


def test_cmdcsw_schedules_the_job_with_the_least_cpu_time():
    node = Node()
    for job in "abc":
        node.register(job)
    order = []
    for _ in range(6):
        node.send(SliceEnded, after_ns=NS_PER_S)
        order += sorted(node.running)
    assert order == ["b", "c", "a", "b", "c", "a"]


def test_a_newcomer_does_not_keep_the_cpu_until_it_has_caught_up():
    node = Node()
    node.register("a")
    node.send(SliceEnded, after_ns=500 * NS_PER_S)
    node.register("b")
    seen = []
    for _ in range(4):
        node.send(SliceEnded, after_ns=NS_PER_S)
        seen += sorted(node.running)
    assert seen == ["b", "a", "b", "a"]


def test_cmdsch_is_granted_after_gmet_and_refused_before():
    node = two_jobs()
    refusal = node.trap("a", after_ns=99 * NS_PER_MS)[0]
    assert refusal == RefuseRequest("a", ord("a"), Refusal.GMET, NS_PER_MS, "b")
    assert node.running == {"b"}
    node.send(AlarmRang, after_ns=NS_PER_MS)
    node.trap("a")
    assert node.running == {"a"}
    assert node.machine.counters[Branch.SCH_GRANTED] == 1


def test_a_switch_tells_the_old_job_first_then_moves_shares_then_wakes_the_new():
    node = two_jobs()
    commands = node.trap("a", after_ns=NS_PER_S)
    assert [type(c) for c in commands[:3]] == [PublishStatus, SetShares, PublishStatus]
    assert (commands[0].job, commands[0].scheduled) == ("b", False)
    assert (commands[2].job, commands[2].scheduled) == ("a", True)
    assert commands[2].cause is Cause.PULLED


def test_a_refused_job_may_ask_again_when_gmet_is_over():
    node = two_jobs()
    node.trap("a")
    epoch = node.published["a"][0]
    assert node.alarm_ns == node.now_ns + 100 * NS_PER_MS
    node.send(AlarmRang, after_ns=100 * NS_PER_MS)
    assert node.published["a"] == (epoch + 1, False)


def test_a_request_posted_before_the_last_change_is_stale():
    node = Node()
    for job in "ab":
        node.register(job)
    old = node.machine.jobs["b"].epoch
    node.send(SliceEnded, after_ns=NS_PER_S)
    node.send(SliceEnded, after_ns=NS_PER_S)
    commands = node.send(
        MessageTrapped, after_ns=NS_PER_S, job="b", task=ord("b"), epoch=old
    )
    assert commands[0].reason is Refusal.STALE
    assert node.running == {"a"}


def test_requests_of_strangers_and_of_scheduled_jobs_change_nothing():
    node = Node()
    node.register("a")
    unknown = node.send(MessageTrapped, job="z", task=5, epoch=0)
    assert unknown[0].reason is Refusal.UNKNOWN
    assert node.trap("a", after_ns=NS_PER_S)[0].reason is Refusal.SCHEDULED


def test_a_pulled_switch_restarts_a_free_running_slice():
    node = two_jobs()
    assert node.orders.deadline_ns == node.now_ns + NS_PER_S
    node.trap("a", after_ns=400 * NS_PER_MS)
    assert node.orders.deadline_ns == node.now_ns + NS_PER_S


def test_two_chatty_jobs_cannot_keep_a_third_from_its_turn():
    node = Node()
    for job in "abc":
        node.register(job)
    waited = 0
    while "c" not in node.running:
        other = "b" if node.running == {"a"} else "a"
        node.trap(other, after_ns=200 * NS_PER_MS)
        if node.now_ns >= node.orders.deadline_ns:
            node.send(SliceEnded)
        waited += 1
        assert waited < 100


def test_a_job_far_ahead_of_a_waiting_one_cannot_pull_a_switch():
    node = Node()
    for job in "abc":
        node.register(job)
    node.trap("b", after_ns=5 * NS_PER_S)  # the timer is late
    assert node.trap("a", after_ns=200 * NS_PER_MS)[0].reason is Refusal.AHEAD
    assert node.running == {"b"}
    epoch, _ = node.published["a"]
    commands = node.send(SliceEnded, after_ns=NS_PER_S)
    assert node.running == {"c"}
    assert PublishStatus("a", epoch + 1, False, Cause.UNBLOCKED) in commands, (
        "c has its turn"
    )


def test_who_came_in_amid_a_slice_keeps_its_cpus_longer_from_later_jobs():
    node = Node()
    for job in "abc":
        node.register(job)
    node.send(SliceEnded, after_ns=NS_PER_S)
    node.trap("c", after_ns=200 * NS_PER_MS)
    assert node.running == {"c"}  # b had its turn; anybody may follow
    node.trap("a", after_ns=200 * NS_PER_MS)
    assert node.running == {"a"}
    (refusal, *_) = node.trap("c", after_ns=200 * NS_PER_MS)
    assert (refusal.reason, refusal.other) == (Refusal.PRECEDED, "a")
    long_ns = PRECEDENCE * node.machine.settings.gmet_ns
    assert refusal.by_ns == long_ns - 200 * NS_PER_MS
    assert node.alarm_ns == node.machine.jobs["a"].since_ns + long_ns
    node.send(AlarmRang, after_ns=refusal.by_ns)
    node.trap("c")
    assert node.running == {"c"}


def test_who_keeps_its_cpus_at_a_boundary_has_its_turn_from_then_on():
    node = Node()
    for job in "abc":
        node.register(job)
    node.trap("b", after_ns=5 * NS_PER_S)  # the timer is late
    node.trap("c", after_ns=5 * NS_PER_S)
    node.send(TaskExited, job="a", task=ord("a"))
    for job in node.machine.jobs.values():
        job.credit_ns = 0
    node.machine.jobs["b"].credit_ns = 20 * NS_PER_S
    node.send(SliceEnded, after_ns=NS_PER_S)
    assert node.running == {"c"}
    assert node.machine.jobs["c"].came_by is Cause.SLICE


def test_of_jobs_that_start_together_the_one_submitted_first_runs():
    """In whatever order their tasks reach the nodes."""
    for order in itertools.permutations("abc"):
        node = Node()
        for job in order:
            node.register(
                job, after_ns=50 * NS_PER_MS, submitted_ns=10 * NS_PER_S - ord(job)
            )
        assert node.running == {"c"}, order


def test_of_jobs_that_start_together_the_first_keeps_its_cpus_when_tasks_are_many():
    cpus = frozenset({0, 1})
    for tasks in itertools.permutations([("a", 1), ("a", 2), ("b", 3), ("b", 4)]):
        node = Node()
        for job, task in tasks:
            node.register(job, task, cpus, submitted_ns=10 * NS_PER_S - ord(job))
        assert node.running == {"b"}, tasks


def test_a_new_job_does_not_take_the_place_of_one_that_has_had_a_slice():
    node = Node()
    node.register("a")
    node.register("b", submitted_ns=node.now_ns - 1, after_ns=NS_PER_S)
    assert node.running == {"a"}


def test_an_old_submission_counts_as_a_recent_one():
    now_ns = 1000 * NS_PER_S
    oldest_ns = submission_key(1, now_ns)
    assert LAUNCH_NS <= now_ns - oldest_ns <= 2 * LAUNCH_NS
    assert submission_key(now_ns - 1, now_ns) == now_ns - 1
    assert submission_key(now_ns + 1, now_ns) == now_ns + 1  # another host's clock
    assert (
        submission_key(0, now_ns)
        == submission_key(now_ns + 2 * LAUNCH_NS, now_ns)
        == now_ns
    )


def test_who_takes_jobs_over_keeps_their_order():
    """Of jobs from before, whatever they are called; or its node would pull against the
    others'."""
    there, restarted = Node(now_ns=1000 * NS_PER_S), Node(now_ns=2000 * NS_PER_S)
    there.register("zeta")
    there.register("alpha", after_ns=60 * NS_PER_S)
    for job in ("alpha", "zeta"):
        began_ns = there.machine.jobs[job].submitted_ns
        submitted_ns = restored_submission_key(began_ns, began_ns, restarted.now_ns)
        restarted.register(job, submitted_ns=submitted_ns, adopted=True)
    for node in (there, restarted):
        order = [job.key for group in node.machine._table.groups for job in group.jobs]
        assert order == ["zeta", "alpha"]
    assert restarted.running == {"zeta"}
    assert restarted.machine.jobs["alpha"].submitted_ns == 1060 * NS_PER_S


def test_a_date_that_its_user_changed_gets_him_no_more_than_an_old_submission():
    began_ns, now_ns = 1000 * NS_PER_S, 2000 * NS_PER_S
    for recorded_ns in (0, 1, 1 << 63):
        assert restored_submission_key(recorded_ns, began_ns, now_ns) in (
            began_ns - 2 * LAUNCH_NS,
            now_ns + LAUNCH_NS,
        )
    for wall_ns in range(began_ns, began_ns + 2 * LAUNCH_NS, NS_PER_S):
        for submitted_ns in (0, 1, wall_ns - LAUNCH_NS, wall_ns, wall_ns + LAUNCH_NS):
            dated_ns = submission_key(submitted_ns, wall_ns)
            assert restored_submission_key(dated_ns, began_ns, wall_ns) == dated_ns


def test_aligned_turns_begin_with_the_job_that_was_submitted_first():
    for start in range(20, 24):
        node = Node(ALIGNED, now_ns=start * NS_PER_S)
        for job in "abc":
            node.register(job, submitted_ns=node.now_ns - ord(job))
        seen = []
        for _ in range(4):
            seen += sorted(node.running)
            node.now_ns = (node.now_ns // NS_PER_S + 1) * NS_PER_S
            node.send(SliceEnded)
        assert seen in (["c", "b", "a", "c"], ["c", "a", "c", "b"]), seen


def test_when_an_aligned_job_ends_amid_a_slice_the_neediest_follows():
    node = Node(ALIGNED, now_ns=20 * NS_PER_S)
    for job in "abc":
        node.register(job)
    node.machine.jobs["b"].credit_ns = 5 * NS_PER_S
    node.machine.jobs["c"].credit_ns = 3 * NS_PER_S
    node.send(TaskExited, job="a", task=ord("a"), after_ns=300 * NS_PER_MS)
    assert node.running == {"c"}


def test_short_jobs_one_after_the_other_do_not_keep_a_long_one_waiting():
    node = Node()
    node.register("a")
    node.register("z")
    waited_ns = 0
    for number in range(200):
        name = f"s{number}"
        node.register(name, 1000 + number)
        node.send(SliceEnded, after_ns=NS_PER_S)
        waited_ns = 0 if "z" in node.running else waited_ns + NS_PER_S
        assert waited_ns <= 5 * NS_PER_S
        if number:
            node.send(TaskExited, job=f"s{number - 1}", task=999 + number)


def test_jobs_on_disjoint_cpus_never_compete():
    node = Node()
    node.register("a", 1, frozenset({0}))
    node.register("b", 2, frozenset({1}))
    assert node.running == {"a", "b"}
    assert node.shares == {"a": 100, "b": 100}
    assert node.orders.idle
    node.send(SliceEnded, after_ns=NS_PER_S)
    assert node.running == {"a", "b"}


def test_jobs_that_fit_side_by_side_do_not_take_turns():
    node = Node()
    cpus = frozenset(range(4))
    for job in ("a", "b"):
        node.register(job, ord(job), cpus)
        node.register(job, ord(job) + 1000, cpus)
    assert node.running == {"a", "b"}
    assert node.shares == {"a": 100, "b": 100}
    node.register("c", 7, cpus)
    assert node.running == {"a", "b"}
    assert node.shares == {"a": 99, "b": 99, "c": 1}
    node.send(SliceEnded, after_ns=NS_PER_S)
    assert "c" in node.running
    assert len(node.running) == 2


def test_many_jobs_side_by_side_are_all_told_from_one_that_waits():
    """Their shares once were parts of one: 1% each, as for one that waits."""
    node = Node()
    cpus = frozenset(range(64))
    names = [f"j{number:02}" for number in range(64)]
    for number, job in enumerate(names):
        node.register(job, number + 1, cpus)
    assert node.shares == dict.fromkeys(names, 100)
    node.register("one-more", 65, cpus)
    assert node.shares == {**dict.fromkeys(names, 99), "one-more": 1}


def test_many_who_wait_leave_half_to_who_is_scheduled():
    node = Node()
    for number in range(71):
        node.register(f"j{number:02}", number + 1, frozenset({0}))
    (running,) = node.running
    assert node.shares.pop(running) == 70
    assert set(node.shares.values()) == {1}


def test_a_task_that_ends_gives_its_cpus_back():
    node = Node()
    node.register("a", 1, frozenset({0}))
    node.register("a", 2, frozenset({1}))
    node.register("b", 3, frozenset({1}))
    node.choose("a", Mode.RAISED)
    assert node.running == {"a"}
    node.send(TaskExited, job="a", task=2)
    assert node.running == {"a", "b"}
    assert node.widths == {"a": frozenset({0}), "b": frozenset({1})}
    assert node.orders.idle


def test_only_who_has_its_cpus_gives_way_to_a_wide_job():
    """x connects the two on CPU 2 with the wide one, but neither is in its way."""
    node = Node()
    node.register("a", 1, frozenset({0}))
    node.register("k", 2, frozenset({2}))
    node.register("l", 3, frozenset({2}))
    node.register("x", 4, frozenset({1, 2}))
    node.register("b", 5, frozenset({0}))
    node.register("b", 6, frozenset({1}))
    assert {"a", "k", "x"} == node.running
    node.send(SliceEnded, after_ns=NS_PER_S // 2)
    node.machine.jobs["k"].account(node.now_ns)  # amid a slice of its own
    node.send(SliceEnded, after_ns=NS_PER_S // 2)
    assert node.running == {"b", "k"}


def test_a_job_that_grows_crowds_a_neighbour_out():
    node = Node()
    cpus = frozenset({0, 1})
    node.register("a", 1, cpus)
    node.register("b", 2, cpus)
    assert node.running == {"a", "b"}
    commands = node.register("b", 3, cpus)
    assert node.running == {"a"}
    assert any(isinstance(c, PublishStatus) and c.cause is Cause.CROWDED for c in commands)


def test_aligned_nodes_with_the_same_jobs_choose_alike_whatever_their_history():
    early, late = Node(ALIGNED), Node(ALIGNED)
    late.register("z", 99)
    late.send(TaskExited, job="z", task=99, after_ns=300 * NS_PER_MS)
    for job in "abc":
        early.register(job)
    for job in "cba":
        late.register(job, after_ns=70 * NS_PER_MS)
    for boundary in range(20, 40):
        for node in (early, late):
            node.now_ns = boundary * NS_PER_S
            node.send(SliceEnded)
        assert early.running == late.running


def test_shutdown_lets_everything_run():
    node = Node()
    for job in "ab":
        node.register(job)
    commands = node.send(ShutdownRequested)
    published = [c for c in commands if isinstance(c, PublishStatus)]
    assert all(c.scheduled for c in published)
    assert len(published) == 2
    assert sum(isinstance(c, DestroyClass) for c in commands) == 2


def test_shutdown_leaves_nobody_with_a_neighbour_that_waits():
    """Nobody would ever tell its tasks that their CPUs are their own again."""
    node = Node()
    node.register("c", 1, frozenset({1}))  # has its CPU to itself: nothing to take back
    for job in "ab":
        node.register(job)
    commands = node.send(ShutdownRequested)
    assert [c.job for c in commands if isinstance(c, PublishContention)] == ["a", "b"]
    told = [c for c in commands if not isinstance(c, DestroyClass) and c.job == "b"]
    assert told == [
        PublishContention("b", False),
        PublishStatus("b", 1, True, Cause.SHUTDOWN),
    ]


def test_aligned_order_ticks_at_next_multiple_of_slice():
    orders = OrderTimer(idle=False, align=True, slice_ns=10, deadline_ns=0)
    assert orders.next_tick_ns(now_ns=3, wall_ns=29, fired_ns=0) == 30
    assert orders.next_tick_ns(now_ns=3, wall_ns=30, fired_ns=0) == 40


def test_free_order_ticks_at_deadline_then_a_slice_later():
    orders = OrderTimer(idle=False, align=False, slice_ns=10, deadline_ns=50)
    assert orders.next_tick_ns(now_ns=45, wall_ns=0, fired_ns=40) == 50
    assert orders.next_tick_ns(now_ns=53, wall_ns=0, fired_ns=52) == 62
    assert orders.next_tick_ns(now_ns=70, wall_ns=0, fired_ns=52) == 70


@pytest.mark.parametrize(("idle", "slice_ns"), [(True, 10), (False, 0)])
def test_order_without_slice_never_ticks(idle, slice_ns):
    orders = OrderTimer(idle=idle, align=True, slice_ns=slice_ns, deadline_ns=0)
    assert orders.next_tick_ns(1, 2, 0) is None


def test_an_unknown_event_is_a_programming_error():
    with pytest.raises(TypeError):
        NodeScheduler(FREE).handle(Event(now_ns=0, wall_ns=0))


def taking_part(machine):
    return [job for job in machine.jobs.values() if job.mode.takes_part]


def barred(jobs, key):
    """Whether owners' wishes keep a job from a turn that it is given."""
    job = jobs[key]
    raised = [j for j in jobs.values() if j.mode is Mode.RAISED and j.cpus & job.cpus]
    return not job.mode.takes_part or (raised and job.mode is not Mode.RAISED)


JOBS = st.sampled_from("abcde")
CPU_SETS = st.sets(st.integers(0, 3), min_size=1).map(frozenset)


class NodeMachine(RuleBasedStateMachine):
    """Random histories of a node with four CPUs and up to five jobs."""

    def __init__(self):
        super().__init__()
        self.node = Node()
        self.next_task = 1
        self.since = {}

    def send(self, kind, **fields):
        for gone in set(self.node.published) - set(self.node.machine.jobs):
            for record in (self.node.published, self.node.modes, self.node.frozen):
                record.pop(gone, None)
        before = self.node.running
        now_before = {k: j.since_ns for k, j in self.node.machine.jobs.items()}
        commands = self.node.send(kind, **fields)
        if kind is MessageTrapped:
            for job in before - self.node.running:
                ran = self.node.now_ns - now_before[job]
                assert ran >= self.node.machine.settings.gmet_ns
        return commands

    @rule(job=JOBS, cpus=CPU_SETS, after=st.integers(0, 3 * NS_PER_S))
    def register(self, job, cpus, after):
        self.send(TaskRegistered, after_ns=after, job=job, task=self.next_task, cpus=cpus)
        self.next_task += 1

    @precondition(lambda self: self.node.machine.jobs)
    @rule(
        data=st.data(), cpus=CPU_SETS, after=st.integers(0, NS_PER_S), another=st.booleans()
    )
    def come_to_mpi(self, data, cpus, after, another):
        job = data.draw(st.sampled_from(sorted(self.node.machine.jobs)))
        before = dict(self.node.machine.jobs[job].tasks)
        old = data.draw(st.sampled_from(sorted(before)))
        task = self.next_task if another else old
        self.next_task += another
        new = {"job": job, "task": task, "cpus": cpus, "replaces": old}
        self.send(TaskRegistered, after_ns=after, **new)
        del before[old]
        state = self.node.machine.jobs[job]
        assert state.tasks == {**before, task: cpus}
        assert state.cpus >= cpus

    @precondition(lambda self: self.node.machine.jobs)
    @rule(data=st.data(), after=st.integers(0, NS_PER_S))
    def exit(self, data, after):
        job = data.draw(st.sampled_from(sorted(self.node.machine.jobs)))
        task = data.draw(st.sampled_from(sorted(self.node.machine.jobs[job].tasks)))
        self.send(TaskExited, after_ns=after, job=job, task=task)

    @rule(after=st.integers(0, 2 * NS_PER_S))
    def end_slice(self, after):
        self.send(SliceEnded, after_ns=after)

    @precondition(lambda self: self.node.machine.jobs)
    @rule(data=st.data(), after=st.integers(0, 300 * NS_PER_MS))
    def trap(self, data, after):
        job = data.draw(st.sampled_from(sorted(self.node.machine.jobs)))
        self.node.now_ns += after
        state = self.node.machine.jobs[job]
        epoch = state.epoch - data.draw(st.integers(0, 1))
        self.send(
            MessageTrapped, job=job, task=next(iter(state.tasks)), epoch=max(0, epoch)
        )

    @precondition(lambda self: self.node.machine.jobs)
    @rule(data=st.data(), after=st.integers(0, 300 * NS_PER_MS))
    def give_turn(self, data, after):
        job = data.draw(st.sampled_from(sorted(self.node.machine.jobs)))
        self.send(TurnGiven, after_ns=after, job=job)
        if not barred(self.node.machine.jobs, job):
            assert self.node.machine.jobs[job].scheduled

    @precondition(lambda self: self.node.machine.jobs)
    @rule(data=st.data(), mode=st.sampled_from(Mode), after=st.integers(0, NS_PER_S))
    def choose(self, data, mode, after):
        job = data.draw(st.sampled_from(sorted(self.node.machine.jobs)))
        self.send(ModeChosen, after_ns=after, job=job, mode=mode)
        assert self.node.machine.jobs[job].mode is mode

    @precondition(lambda self: self.node.alarm_ns is not None)
    @rule()
    def ring(self):
        self.node.now_ns = max(self.node.now_ns, self.node.alarm_ns)
        self.node.alarm_ns = None
        self.send(AlarmRang)
        assert not any(
            job.awaits_gmet and job.scheduled for job in self.node.machine.jobs.values()
        )

    @rule(
        slice_s=st.integers(1, 3),
        gmet_ms=st.integers(0, 2000),
        switches=st.tuples(st.booleans(), st.booleans(), st.booleans()),
    )
    def change(self, slice_s, gmet_ms, switches):
        align, slice_auto, gmet_auto = switches
        gmet_ns = GMET_LEAST_NS if gmet_auto else gmet_ms * NS_PER_MS
        new = Settings(slice_s * NS_PER_S, gmet_ns, align, slice_auto, gmet_auto)
        self.send(SettingsChanged, settings=new)

    @invariant()
    def scheduled_jobs_fit_and_no_other_would(self):
        jobs = taking_part(self.node.machine)
        running = [job for job in jobs if job.scheduled]
        assert fits(running)
        for job in jobs:
            assert job.scheduled or not fits([*running, job])

    @invariant()
    def every_group_runs_exactly_one_job_if_no_two_fit(self):
        for group in connected(taking_part(self.node.machine)):
            running = [job for job in group if job.scheduled]
            assert running
            pairs = [(a, b) for a in group for b in group if a.key < b.key]
            if not any(fits(pair) for pair in pairs):
                assert len(running) == 1

    @invariant()
    def who_waits_has_one_percent_and_who_is_scheduled_the_rest(self):
        part = taking_part(self.node.machine)
        if part:
            assert set(self.node.shares) == {job.key for job in part}
        for group in connected(part):
            waiting = [job for job in group if not job.scheduled]
            for job in group:
                assert self.node.shared[job.key] == job.cpus
                share = 100 - len(waiting) if job.scheduled else 1
                assert self.node.shares[job.key] == share

    @invariant()
    def tasks_see_what_was_decided(self):
        for key, job in self.node.machine.jobs.items():
            told = job.scheduled or job.mode is Mode.RELEASED
            assert self.node.published[key] == (job.epoch, told)
            members = set() if job.mode is Mode.RELEASED else set(job.tasks)
            assert self.node.members.get(key, set()) == members

    @invariant()
    def owners_get_what_they_chose(self):
        jobs = self.node.machine.jobs
        for key, job in jobs.items():
            assert self.node.modes.get(key, Mode.COSCHEDULED) is job.mode
            assert job.mode.takes_part or not job.scheduled
            overlapping = [j for j in jobs.values() if j is not job and j.cpus & job.cpus]
            if job.mode is Mode.RAISED and job.scheduled:
                assert not any(other.scheduled for other in overlapping)
        frozen = {key for key, job in jobs.items() if job.mode is Mode.SUSPENDED}
        assert set(self.node.frozen) & set(jobs) == frozen
        for key in frozen:
            assert self.node.frozen[key] >= set(jobs[key].tasks)

    @invariant()
    def a_raised_job_waits_for_raised_ones_alone(self):
        for job in taking_part(self.node.machine):
            if job.mode is Mode.RAISED and not job.scheduled:
                assert any(
                    other.mode is Mode.RAISED and other.scheduled and other.cpus & job.cpus
                    for other in self.node.machine.jobs.values()
                )

    @invariant()
    def jobs_know_whether_somebody_waits_for_their_cpus(self):
        for group in connected(taking_part(self.node.machine)):
            waits = any(not job.scheduled for job in group)
            for job in group:
                assert (job.key in self.node.contended) == waits
        for key, job in self.node.machine.jobs.items():
            assert job.mode.takes_part or key not in self.node.contended

    @invariant()
    def the_timer_runs_exactly_while_somebody_waits(self):
        if self.node.orders is not None:
            waiting = any(not job.scheduled for job in taking_part(self.node.machine))
            assert self.node.orders.idle == (not waiting)


TestNodeMachine = NodeMachine.TestCase
TestNodeMachine.settings = settings(max_examples=150, stateful_step_count=60, deadline=None)


@settings(max_examples=60, deadline=None)
@given(
    count=st.integers(2, 6),
    align=st.booleans(),
    auto=st.booleans(),
    traps=st.lists(st.tuples(st.integers(0, 5), st.integers(1, 400)), max_size=300),
)
def test_no_job_starves_while_the_timer_ticks(count, align, auto, traps):
    """However messages pull, each job is scheduled at least once in a bounded number of
    slices, given a timer that keeps its orders."""
    node = Node(Settings(NS_PER_S, 100 * NS_PER_MS, align, slice_auto=auto))
    jobs = "abcdef"[:count]
    for job in jobs:
        node.register(job)
    bound_ns = (count + LEAD_SLICES) * (LEAD_SLICES + 2) * NS_PER_S
    bound_ns *= LONGEST if auto else 1
    last_seen = dict.fromkeys(jobs, node.now_ns)
    pulls = iter(traps)

    def advance_to(target_ns):
        while node.now_ns < target_ns:
            deadline = (
                (node.now_ns // NS_PER_S + 1) * NS_PER_S
                if align
                else node.orders.deadline_ns
            )
            step_to = max(node.now_ns, min(target_ns, deadline))
            node.now_ns = step_to
            if step_to == deadline:
                node.send(SliceEnded)
            for job in node.running:
                last_seen[job] = node.now_ns
            for job in jobs:
                assert node.now_ns - last_seen[job] <= bound_ns, job
            if node.now_ns >= target_ns:
                return

    for index, after_ms in pulls:
        advance_to(node.now_ns + after_ms * NS_PER_MS)
        if node.alarm_ns is not None and node.now_ns >= node.alarm_ns:
            node.alarm_ns = None
            node.send(AlarmRang)
        node.trap(jobs[index % count])
    advance_to(node.now_ns + 2 * bound_ns)


def test_a_task_that_is_bound_after_its_launch_leaves_the_other_cpus():
    node = Node()
    node.register("a")
    node.register("b")
    assert node.running == {"a"}
    node.register("b", cpus=frozenset({1}))
    assert node.running == {"a", "b"}
    assert node.machine.jobs["b"].cpus == frozenset({1})
    node.register("b")
    assert len(node.running) == 1


def test_a_task_that_registers_again_as_it_was_changes_nothing():
    node = Node()
    node.register("a")
    node.register("b")
    before = node.machine.snapshot()
    assert node.register("a", after_ns=NS_PER_S) == (AddTask("a", ord("a")),)
    assert node.machine.snapshot().jobs == before.jobs


def test_a_task_in_the_place_of_the_one_that_launched_it_changes_nothing_else():
    node = Node()
    node.register("a", 1, frozenset({0, 1}))
    node.register("b", 2, frozenset({0, 1}))
    assert node.running == {"a", "b"}  # side by side, with no CPU to spare
    before = node.machine.snapshot()
    commands = node.register("b", 3, frozenset({0, 1}), replaces=2)
    assert commands == (RemoveTask("b", 2), AddTask("b", 3))
    assert set(node.machine.jobs["b"].tasks) == {3}
    assert node.machine.snapshot().shares == before.shares
    assert node.machine.jobs["b"].switches == 1
    # Bound to one CPU, it leaves the other.
    node.register("b", 4, frozenset({1}), replaces=3)
    assert node.machine.jobs["b"].cpus == frozenset({1})


def test_every_branch_is_reached_and_counted():
    node = Node()
    node.register("a")
    node.register("a")
    node.register("a", 1)
    node.register("b")
    node.register("c")
    node.send(SliceEnded)
    node.trap("b")
    node.send(AlarmRang)
    node.send(AlarmRang, after_ns=100 * NS_PER_MS)
    node.trap("b")
    node.trap("b")
    node.send(MessageTrapped, job="c", task=ord("c"), epoch=99)
    node.send(MessageTrapped, job="x", task=1, epoch=0)
    node.send(SliceEnded, after_ns=5 * NS_PER_S)
    node.send(SettingsChanged, settings=FREE)
    for _ in range(20):
        other = "b" if node.running == {"a"} else "a"
        node.trap(other, after_ns=500 * NS_PER_MS)
    node.send(TaskExited, job="a", task=1)
    node.send(TaskExited, job="a", task=1)
    node.send(TaskExited, job="c", task=ord("c"))
    node.send(TaskExited, job="b", task=ord("b"))
    node.register("d", 1, frozenset({0}))
    for _ in range(3):
        node.send(SliceEnded, after_ns=10)
        node.send(SliceEnded, after_ns=NS_PER_S)
    kept = Node()
    kept.register("a")
    kept.register("a", cpus=frozenset({0, 1}))
    kept.register("b")
    kept.trap("b", after_ns=NS_PER_S)
    kept.send(SliceEnded, after_ns=NS_PER_S)
    kept.trap("b", after_ns=NS_PER_S)
    kept.send(SettingsChanged, settings=Settings(NS_PER_S, 0, False))
    kept.register("c")
    kept.send(SliceEnded, after_ns=NS_PER_S)
    kept.send(TurnGiven, job="a")
    kept.send(TurnGiven, job="b")
    kept.send(TurnGiven, job="b")
    kept.send(TurnGiven, job="x")
    kept.choose("x", Mode.RAISED)
    kept.choose("a", Mode.COSCHEDULED)
    kept.choose("a", Mode.RAISED)
    kept.trap("b", after_ns=NS_PER_S)
    kept.send(TurnGiven, job="b")
    kept.choose("a", Mode.SUSPENDED)
    kept.trap("a", after_ns=NS_PER_S)
    node.send(ShutdownRequested)
    pulled = Node()
    for job in "abc":
        pulled.register(job)
    pulled.send(SliceEnded, after_ns=NS_PER_S)
    for job in "caaac":
        pulled.trap(job, after_ns=50 * NS_PER_MS)
        pulled.send(AlarmRang, after_ns=50 * NS_PER_MS)
    reached = {branch for one in (node, kept, pulled) for branch in one.machine.counters}
    assert set(Branch) - reached <= {Branch.CSW_KEPT}
