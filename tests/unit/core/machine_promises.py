"""Checks what a node's machine promises at each event of a random history."""

from __future__ import annotations

from cosched.core.node.messages import (
    AlarmRang,
    MessageTrapped,
    Mode,
    ModeChosen,
    RestChosen,
    SettingsChanged,
    SliceEnded,
    TaskExited,
    TaskRegistered,
    TurnGiven,
    UseRead,
)
from tests.unit.core.node_moment import group_of, is_new, runs_one_at_a_time
from tests.unit.core.promises_of_pulls import (
    alarm_lets_jobs_ask_again,
    alarm_rings_at_the_first_end,
    refused_job_asks_again,
    request_is_granted_or_refused_for_a_reason,
    running_jobs_keep_gmet,
)
from tests.unit.core.promises_of_turns import (
    given_turn_begins_now,
    losers_are_notified_first,
    neediest_job_follows,
    no_turn_ends_before_its_time,
    slices_begin_with_a_switch_or_a_turn,
    turns_end_in_time,
)


def check(before, node, kind, fields, commands):
    """Checks all promises about one event. before: the moment before it."""
    machine, after, now_ns = node.machine, node.machine.jobs, node.now_ns
    slices_begin_with_a_switch_or_a_turn(before, after, kind, now_ns)
    refused_job_asks_again(before, node)
    alarm_rings_at_the_first_end(node)
    if before.rests or kind is RestChosen:
        return
    losers_are_notified_first(before, after, commands)
    if kind in (SettingsChanged, UseRead, AlarmRang):
        assert not before.left(after)
        assert not before.came(after)
    if kind in (MessageTrapped, TurnGiven, UseRead, AlarmRang):
        accounts_grow_with_cpu_time_alone(before, after, now_ns)
    if kind is MessageTrapped:
        running_jobs_keep_gmet(before, after, fields["job"], now_ns)
        request_is_granted_or_refused_for_a_reason(before, node, fields, commands)
    elif kind is SliceEnded:
        turns_end_in_time(before, machine, now_ns)
        no_turn_ends_before_its_time(before, machine, now_ns)
        neediest_job_follows(before, machine, now_ns)
    elif kind is TurnGiven:
        given_turn_begins_now(before, after, fields["job"], now_ns)
    elif kind is AlarmRang:
        alarm_lets_jobs_ask_again(before, after, now_ns)
    elif kind is ModeChosen:
        job_that_returns_has_saved_nothing(before, after, fields["job"], now_ns)
    elif kind is TaskRegistered and fields["job"] not in before.jobs:
        arrivals_and_exits_keep_running_jobs(before, node, kind)
        first_submitted_newcomer_runs(before, after, fields["job"], now_ns)
        newcomer_starts_near_the_neediest(before, after, fields["job"], now_ns)
        accounts_are_bounded(before, after, now_ns)
    elif kind is TaskExited and fields["job"] not in after:
        arrivals_and_exits_keep_running_jobs(before, node, kind)
        accounts_are_bounded(before, after, now_ns)


# -- accounts -----------------------------------------------------------------------------


def accounts_grow_with_cpu_time_alone(before, after, now_ns):
    for key, was in before.jobs.items():
        assert after[key].used_ns(now_ns) == was.used_ns(now_ns)


def newcomer_starts_near_the_neediest(before, after, key, now_ns):
    others = [job.used_ns(now_ns) for job in group_of(key, after) if job.key != key]
    if others:
        used_ns = after[key].used_ns(now_ns)
        ahead_ns = before.slice_ns
        assert min(others) <= used_ns <= min(others) + ahead_ns
        assert used_ns >= min(max(others), min(others) + ahead_ns)


def accounts_are_bounded(before, after, now_ns):
    """However long a job ran alone, it is three of the longest turns ahead at most."""
    for job in after.values():
        if job.mode.takes_part:
            used = [one.used_ns(now_ns) for one in group_of(job.key, after)]
            assert max(used) - min(used) <= 3 * before.longest_ns


def job_that_returns_has_saved_nothing(before, after, key, now_ns):
    was, job = before.jobs[key], after[key]
    if not job.mode.takes_part or was.mode.takes_part:
        return
    others = [one.used_ns(now_ns) for one in group_of(key, after) if one.key != key]
    if others:
        least_ns = min(max(others), min(others) + before.slice_ns)
        assert job.used_ns(now_ns) >= least_ns


# -- arrivals and exits -------------------------------------------------------------------


def arrivals_and_exits_keep_running_jobs(before, node, kind):
    """A job that comes or goes takes no CPUs from a job before its GMET. Where jobs take
    turns, only jobs in their first slice give way, or those that make room."""
    now_ns = node.now_ns
    makes_room = before.by_age and kind is TaskExited
    for job in before.left(node.machine.jobs):
        # At least the GMET of the shortest turn: the event may have changed the turns.
        ran_its_gmet = job.ran_ns(now_ns) >= before.settings.gmet_within_ns(before.slice_ns)
        if before.by_rest:
            assert ran_its_gmet
            continue
        if makes_room and ran_its_gmet:
            continue
        assert not before.paper
        assert is_new(job, before.slice_ns, now_ns)


def first_submitted_newcomer_runs(before, after, key, now_ns):
    """Jobs that start together run in the order of their submission on all nodes."""
    group = group_of(key, after)
    old = [before.jobs[job.key] for job in group if job.key != key]
    all_new = all(is_new(job, before.slice_ns, now_ns) for job in old)
    raised = any(job.mode is Mode.RAISED for job in group)
    if before.paper or before.by_rest or raised or not runs_one_at_a_time(group):
        return
    if old and all_new:
        assert min(group, key=lambda job: job.precedence).scheduled
