"""The machine: the paper's rules one by one, and the additions to them."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest

from cosched.core.node.cpu_need import Use
from cosched.core.node.job import LAUNCH_NS, restored_submission_key, submission_key
from cosched.core.node.knowledge import Ended
from cosched.core.node.machine import NodeScheduler
from cosched.core.node.messages import (
    AddTask,
    AlarmRang,
    Branch,
    Cause,
    DestroyClass,
    Event,
    KnowledgeReplaced,
    MessageTrapped,
    Mode,
    OrderTimer,
    PublishContention,
    PublishStatus,
    Refusal,
    RefuseRequest,
    RemoveTask,
    RestChosen,
    SetClassCpus,
    SetShares,
    SettingsChanged,
    ShutdownRequested,
    SliceEnded,
    TaskExited,
    TurnGiven,
    UseRead,
)
from cosched.core.node.settings import Order, Settings
from cosched.core.node.slices.free import PRECEDENCE
from cosched.core.units import NS_PER_MS, NS_PER_S
from tests.unit.core.machine_node import ALIGNED, FREE, Node


def two_jobs():
    """A node on which b has its slice and a, which was submitted first, waits."""
    node = Node()
    for job in "ab":
        node.register(job)
    node.send(SliceEnded, after_ns=NS_PER_S)
    assert node.running == {"b"}
    return node


PAPER = replace(FREE, order=Order.PAPER)


def test_later_jobs_have_one_percent_by_the_order_of_the_paper():
    node = Node(PAPER)
    for job in "abc":
        node.register(job)
    assert node.shares == {"a": 98, "b": 1, "c": 1}
    node.send(TaskExited, job="c", task=ord("c"))
    assert node.shares == {"a": 99, "b": 1}


def test_first_job_runs_and_later_ones_have_no_share():
    node = Node()
    for job in "abc":
        node.register(job)
    assert node.running == {"a"}
    assert node.shares == {"a": 100, "b": 0, "c": 0}
    assert {job: on for job, (_, on) in node.published.items()} == {
        "a": True,
        "b": False,
        "c": False,
    }


def test_second_task_joins_the_class_of_its_job():
    node = Node()
    node.register("a", 1, frozenset({0}))
    node.register("a", 2, frozenset({1}))
    assert node.members == {"a": {1, 2}}
    assert node.machine.jobs["a"].cpus == {0, 1}


def test_share_is_set_again_when_a_job_gains_cpus():
    """Even if the percentages stay: the weight or quota of a class depends on its CPUs."""
    node = Node()
    node.register("a", 1, frozenset({0}))
    commands = node.register("a", 2, frozenset({1}))
    assert SetShares((("a", 100),)) in commands
    assert commands.index(SetClassCpus("a", frozenset({0, 1}))) < commands.index(
        SetShares((("a", 100),))
    )
    commands = node.register("a", 3, frozenset({1}))
    assert not any(isinstance(c, SetShares) for c in commands)


def test_cmdout_of_last_task_schedules_the_next_job():
    node = Node()
    for job in "ab":
        node.register(job)
    node.send(TaskExited, job="a", task=ord("a"))
    assert node.running == {"b"}
    assert node.members == {"b": {ord("b")}}
    assert node.shares == {"b": 100}


def test_cmdcsw_schedules_job_with_least_cpu_time():
    node = Node()
    for job in "abc":
        node.register(job)
    order = []
    for _ in range(6):
        node.send(SliceEnded, after_ns=NS_PER_S)
        order += sorted(node.running)
    assert order == ["b", "c", "a", "b", "c", "a"]


def test_newcomer_does_not_catch_up_with_old_jobs():
    node = Node()
    node.register("a")
    node.send(SliceEnded, after_ns=500 * NS_PER_S)
    node.register("b")
    seen = []
    for _ in range(4):
        node.send(SliceEnded, after_ns=NS_PER_S)
        seen += sorted(node.running)
    assert seen == ["b", "a", "b", "a"]


def test_cmdsch_is_refused_before_gmet_and_granted_after():
    node = two_jobs()
    refusal = node.trap("a", after_ns=99 * NS_PER_MS)[0]
    assert refusal == RefuseRequest("a", ord("a"), Refusal.GMET, NS_PER_MS, "b")
    assert node.running == {"b"}
    node.send(AlarmRang, after_ns=NS_PER_MS)
    node.trap("a")
    assert node.running == {"a"}
    assert node.machine.counters[Branch.SCH_GRANTED] == 1


def test_switch_notifies_then_moves_shares_then_wakes():
    node = two_jobs()
    commands = node.trap("a", after_ns=NS_PER_S)
    assert [type(c) for c in commands[:3]] == [PublishStatus, SetShares, PublishStatus]
    assert (commands[0].job, commands[0].scheduled) == ("b", False)
    assert (commands[2].job, commands[2].scheduled) == ("a", True)
    assert commands[2].cause is Cause.PULLED


def test_refused_job_may_ask_again_after_gmet():
    node = two_jobs()
    node.trap("a")
    epoch = node.published["a"][0]
    assert node.alarm_ns == node.now_ns + 100 * NS_PER_MS
    node.send(AlarmRang, after_ns=100 * NS_PER_MS)
    assert node.published["a"] == (epoch + 1, False)


def test_request_of_an_earlier_epoch_is_stale():
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


def test_unknown_or_scheduled_task_pulls_no_switch():
    node = Node()
    node.register("a")
    unknown = node.send(MessageTrapped, job="z", task=5, epoch=0)
    assert unknown[0].reason is Refusal.UNKNOWN
    assert node.trap("a", after_ns=NS_PER_S)[0].reason is Refusal.SCHEDULED


def test_pulled_switch_restarts_a_free_slice():
    node = two_jobs()
    assert node.orders.deadline_ns == node.now_ns + NS_PER_S
    node.trap("a", after_ns=400 * NS_PER_MS)
    assert node.orders.deadline_ns == node.now_ns + NS_PER_S


def test_two_chatty_jobs_do_not_starve_a_third():
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


def test_job_far_ahead_of_a_waiting_one_is_refused():
    node = Node()
    for job in "abc":
        node.register(job)
    node.trap("b", after_ns=5 * NS_PER_S)  # the timer is late
    assert node.trap("a", after_ns=200 * NS_PER_MS)[0].reason is Refusal.AHEAD
    assert node.running == {"b"}
    epoch, _ = node.published["a"]
    commands = node.send(SliceEnded, after_ns=NS_PER_S)
    assert node.running == {"c"}
    # It would be refused until c has had GMET.
    assert node.published["a"] == (epoch, False)
    commands = node.send(AlarmRang, after_ns=node.alarm_ns - node.now_ns)
    assert PublishStatus("a", epoch + 1, False, Cause.REARMED) in commands


def test_job_may_ask_again_at_once_if_no_job_has_its_gmet_before_it():
    node = Node()
    for job in "abc":
        node.register(job)
    node.trap("b", after_ns=5 * NS_PER_S)
    assert node.trap("a", after_ns=200 * NS_PER_MS)[0].reason is Refusal.AHEAD
    epoch, _ = node.published["a"]
    commands = node.send(TaskExited, job="c", task=next(iter(node.machine.jobs["c"].tasks)))
    assert node.running == {"b"}
    assert PublishStatus("a", epoch + 1, False, Cause.UNBLOCKED) in commands


def test_pulled_job_is_protected_longer_from_later_jobs():
    node = Node()
    for job in "abc":
        node.register(job)
    node.send(SliceEnded, after_ns=NS_PER_S)
    node.trap("c", after_ns=200 * NS_PER_MS)
    assert node.running == {"c"}  # b had its turn; any job may follow
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


def test_job_kept_at_a_slice_end_begins_its_turn():
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


def test_first_submitted_of_new_jobs_runs():
    """The order in which tasks reach the nodes does not matter."""
    for order in itertools.permutations("abc"):
        node = Node()
        for job in order:
            node.register(
                job, after_ns=50 * NS_PER_MS, submitted_ns=10 * NS_PER_S - ord(job)
            )
        assert node.running == {"c"}, order


def test_first_submitted_of_new_parallel_jobs_runs():
    cpus = frozenset({0, 1})
    for tasks in itertools.permutations([("a", 1), ("a", 2), ("b", 3), ("b", 4)]):
        node = Node()
        for job, task in tasks:
            node.register(job, task, cpus, submitted_ns=10 * NS_PER_S - ord(job))
        assert node.running == {"b"}, tasks


def test_new_job_does_not_replace_one_after_a_slice():
    node = Node()
    node.register("a")
    node.register("b", submitted_ns=node.now_ns - 1, after_ns=NS_PER_S)
    assert node.running == {"a"}


def test_submission_key_of_an_old_time_is_recent():
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


def test_restarted_machine_keeps_the_order_of_jobs():
    """Otherwise the node would pull against the other nodes of the jobs."""
    there, restarted = Node(now_ns=1000 * NS_PER_S), Node(now_ns=2000 * NS_PER_S)
    there.register("zeta")
    there.register("alpha", after_ns=60 * NS_PER_S)
    for job in ("alpha", "zeta"):
        began_ns = there.machine.jobs[job].submitted_ns
        submitted_ns = restored_submission_key(began_ns, began_ns, restarted.now_ns)
        restarted.register(job, submitted_ns=submitted_ns, adopted=True)
    for node in (there, restarted):
        jobs = sorted(node.machine.jobs.values(), key=lambda job: job.precedence)
        order = [job.key for job in jobs]
        assert order == ["zeta", "alpha"]
    assert restarted.running == {"zeta"}
    assert restarted.machine.jobs["alpha"].submitted_ns == 1060 * NS_PER_S


def test_restarted_machine_goes_on_with_the_epochs():
    """A task asks once an epoch, so it would not ask in an epoch of the earlier machine."""
    node = Node()
    commands = node.register("a", adopted=True, epoch=7)
    epochs = [c.epoch for c in commands if isinstance(c, PublishStatus)]
    assert epochs == [7, 8]


def test_forged_submission_key_is_limited():
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


def test_aligned_turns_begin_with_first_submitted_job():
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


def test_neediest_job_follows_an_aligned_job_that_ends():
    node = Node(ALIGNED, now_ns=20 * NS_PER_S)
    for job in "abc":
        node.register(job)
    node.machine.jobs["b"].credit_ns = 5 * NS_PER_S
    node.machine.jobs["c"].credit_ns = 3 * NS_PER_S
    node.send(TaskExited, job="a", task=ord("a"), after_ns=300 * NS_PER_MS)
    assert node.running == {"c"}


def test_stream_of_short_jobs_does_not_starve_a_long_one():
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


def test_jobs_that_fit_side_by_side_take_no_turns():
    node = Node()
    cpus = frozenset(range(4))
    for job in ("a", "b"):
        node.register(job, ord(job), cpus)
        node.register(job, ord(job) + 1000, cpus)
    assert node.running == {"a", "b"}
    assert node.shares == {"a": 100, "b": 100}
    node.register("c", 7, cpus)
    assert node.running == {"a", "b"}
    assert node.shares == {"a": 100, "b": 100, "c": 0}
    node.send(SliceEnded, after_ns=NS_PER_S)
    assert "c" in node.running
    assert len(node.running) == 2


def test_64_jobs_side_by_side_have_more_than_a_waiting_one():
    """A job that waits takes nothing from any of them."""
    node = Node()
    cpus = frozenset(range(64))
    names = [f"j{number:02}" for number in range(64)]
    for number, job in enumerate(names):
        node.register(job, number + 1, cpus)
    assert node.shares == dict.fromkeys(names, 100)
    node.register("one-more", 65, cpus)
    assert node.shares == {**dict.fromkeys(names, 100), "one-more": 0}


def test_scheduled_job_has_half_beside_many_waiting_jobs():
    node = Node(PAPER)
    for number in range(71):
        node.register(f"j{number:02}", number + 1, frozenset({0}))
    (running,) = node.running
    assert node.shares.pop(running) == 70
    assert set(node.shares.values()) == {1}


def test_task_that_exits_frees_its_cpus():
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


def test_only_jobs_on_its_cpus_make_room_for_a_wide_job():
    """x connects k and l on CPU 2 with the wide job, which does not need CPU 2."""
    node = Node()
    node.register("a", 1, frozenset({0}))
    node.register("k", 2, frozenset({2}))
    node.register("l", 3, frozenset({2}))
    node.register("x", 4, frozenset({1, 2}))
    node.register("b", 5, frozenset({0}))
    node.register("b", 6, frozenset({1}))
    assert {"a", "k", "x"} == node.running
    node.send(SliceEnded, after_ns=NS_PER_S // 2)
    node.machine.jobs["k"].account(node.now_ns)  # k has just begun a slice
    node.send(SliceEnded, after_ns=NS_PER_S // 2)
    assert node.running == {"b", "k"}


def test_job_that_grows_crowds_its_neighbour_out():
    node = Node()
    cpus = frozenset({0, 1})
    node.register("a", 1, cpus)
    node.register("b", 2, cpus)
    assert node.running == {"a", "b"}
    commands = node.register("b", 3, cpus)
    assert node.running == {"a"}
    assert any(isinstance(c, PublishStatus) and c.cause is Cause.CROWDED for c in commands)


def test_aligned_nodes_with_the_same_jobs_agree():
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


def test_shutdown_schedules_all_jobs():
    node = Node()
    for job in "ab":
        node.register(job)
    commands = node.send(ShutdownRequested)
    published = [c for c in commands if isinstance(c, PublishStatus)]
    assert all(c.scheduled for c in published)
    assert len(published) == 2
    assert sum(isinstance(c, DestroyClass) for c in commands) == 2


def test_shutdown_publishes_the_end_of_contention():
    """No later command would publish that no job waits for their CPUs."""
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


def test_unknown_event_raises_type_error():
    with pytest.raises(TypeError):
        NodeScheduler(FREE).handle(Event(now_ns=0, wall_ns=0))


def test_task_bound_after_its_launch_frees_other_cpus():
    node = Node()
    node.register("a")
    node.register("b")
    assert node.running == {"a"}
    node.register("b", cpus=frozenset({1}))
    assert node.running == {"a", "b"}
    assert node.machine.jobs["b"].cpus == frozenset({1})
    node.register("b")
    assert len(node.running) == 1


def test_repeated_registration_changes_nothing():
    node = Node()
    node.register("a")
    node.register("b")
    before = node.machine.snapshot()
    assert node.register("a", after_ns=NS_PER_S) == (AddTask("a", ord("a")),)
    assert node.machine.snapshot().jobs == before.jobs


def test_replacing_task_changes_nothing_else():
    node = Node()
    node.register("a", 1, frozenset({0, 1}))
    node.register("b", 2, frozenset({0, 1}))
    assert node.running == {"a", "b"}  # side by side, with no CPU to spare
    before = node.machine.snapshot()
    commands = node.register("b", 3, frozenset({0, 1}), replaces=2)
    assert commands == (AddTask("b", 3), RemoveTask("b", 2))
    assert set(node.machine.jobs["b"].tasks) == {3}
    assert node.machine.snapshot().shares == before.shares
    assert node.machine.jobs["b"].switches == 1
    # Bound to one CPU, it leaves the other.
    node.register("b", 4, frozenset({1}), replaces=3)
    assert node.machine.jobs["b"].cpus == frozenset({1})


def test_replaced_knowledge_has_only_the_named_jobs():
    node = Node()
    node.register("a")
    node.send(TaskExited, job="a", task=ord("a"), after_ns=NS_PER_S)
    assert [ended.length_ns for ended in node.machine.snapshot().ended] == [NS_PER_S]
    named = (Ended(5, kind=3), Ended(7))
    node.send(KnowledgeReplaced, ended=named)
    assert node.machine.snapshot().ended == named


def node_with_modes():
    """Returns a node whose jobs grew, were given turns, and were raised or suspended."""
    kept = Node()
    kept.register("a")
    kept.register("a", cpus=frozenset({0, 1}))
    kept.register("b")
    kept.trap("b", after_ns=NS_PER_S)
    kept.send(SliceEnded, after_ns=NS_PER_S)
    kept.trap("b", after_ns=NS_PER_S)
    kept.send(SettingsChanged, settings=Settings(NS_PER_S, 0, False))
    kept.register("c")
    kept.register("c", 2, launcher=True)
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
    kept.send(KnowledgeReplaced, ended=())
    kept.register("launched", 77, launcher=True)
    kept.send(UseRead, uses=(("a", Use(1, 1)),))
    kept.register("apart", cpus=frozenset({9}))
    for jobs in (("apart",), ()):
        kept.send(RestChosen, jobs=jobs, until_ns=kept.now_ns + 1)
    return kept


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
    kept = node_with_modes()
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
