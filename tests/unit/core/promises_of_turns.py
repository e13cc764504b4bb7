"""Checks the promises about turns: their ends, the job that follows, and each switch."""

from __future__ import annotations

from cosched.core.node.messages import (
    Cause,
    MessageTrapped,
    Mode,
    ModeChosen,
    PublishStatus,
    SetShares,
    SliceEnded,
    TurnGiven,
)
from tests.unit.core.node_moment import group_of, runs_one_at_a_time

CAUSES = {
    SliceEnded: Cause.SLICE,
    MessageTrapped: Cause.PULLED,
    TurnGiven: Cause.GIVEN,
}


def losers_are_notified_first(before, after, commands):
    """Then the shares move, and then the winners are notified. So no two jobs that compete
    ever read at one time that they are scheduled."""
    left = {job.key for job in before.left(after)}
    came = {job.key for job in before.came(after)}
    stages = []
    for command in commands:
        match command:
            case SetShares():
                stages.append(1)
            case PublishStatus(job, _, False) if job in left:
                stages.append(0)
            case PublishStatus(job, _, True) if job in came:
                stages.append(2)
    assert stages == sorted(stages)
    assert stages.count(2) == len(came)


def slices_begin_with_a_switch_or_a_turn(before, after, kind, now_ns):
    for job in before.came(after):
        assert job.since_ns == now_ns
        if kind in CAUSES and not before.rests:
            assert job.came_by is CAUSES[kind]
    for key, job in after.items():
        was = before.jobs.get(key)
        if was is not None and was.scheduled and job.scheduled:
            if kind in (SliceEnded, TurnGiven, ModeChosen) and job.since_ns == now_ns:
                continue
            assert (job.since_ns, job.came_by) == (was.since_ns, was.came_by)


def turns_end_in_time(before, machine, now_ns):
    """No job runs on beyond its turn while another one waits."""
    if before.paper or before.by_rest:
        return
    for job in machine.jobs.values():
        if job.scheduled and any(
            not one.scheduled for one in group_of(job.key, machine.jobs)
        ):
            assert job.ran_ns(now_ns) < before.turns_ns[job.key] - before.early_ns


def no_turn_ends_before_its_time(before, machine, now_ns):
    """Where turns end apart, a job that has had GMET makes room for one that comes."""
    after = machine.jobs
    came = {job.key for job in before.came(after)}
    for job in before.left(after):
        ran_ns, group = job.ran_ns(now_ns), group_of(job.key, before.jobs)
        if before.paper:
            age_ns = job.age_ns(now_ns)
            waiting = [other for other in group if not other.scheduled]
            assert any(other.age_ns(now_ns) <= age_ns for other in waiting)
            continue
        is_over = ran_ns >= before.turns_ns[job.key] - before.early_ns
        if before.by_rest or not is_over:
            assert ran_ns >= before.gmet_ns(job.key)
            assert not before.fixed_boundaries
            assert came & {other.key for other in group}


def neediest_job_follows(before, machine, now_ns):
    """Where jobs take turns by CPU time, the one that has had least comes next. It may be
    the one that ran."""
    after = machine.jobs
    in_turns = not before.fixed_boundaries and not before.by_rest
    if not in_turns or any(job.mode is Mode.RAISED for job in after.values()):
        return
    for job in [*before.came(after), *before.began_again(after, now_ns)]:
        group = group_of(job.key, after)
        if not runs_one_at_a_time(group):
            continue
        for other in group:
            if before.paper:
                assert job.age_ns(now_ns) <= other.age_ns(now_ns)
            else:
                most_ns = other.used_ns(now_ns) + before.grain_ns(job.key)
                assert job.used_ns(now_ns) <= most_ns


def given_turn_begins_now(before, after, key, now_ns):
    was, job = before.jobs[key], after[key]
    if was.scheduled:
        assert (job.since_ns, job.came_by) == (now_ns, Cause.GIVEN)
        assert not before.left(after)
