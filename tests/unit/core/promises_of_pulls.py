"""Checks the promises about messages that pull a switch, and about refused requests."""

from __future__ import annotations

from cosched.core.node.messages import Mode, Refusal, RefuseRequest
from cosched.core.node.slices.free import LEAD_SLICES, PRECEDENCE
from cosched.core.node.slices.rest import PATIENCE
from tests.unit.core.node_moment import Rules, group_of


def running_jobs_keep_gmet(before, after, key, now_ns):
    """A message takes CPUs only from jobs that compete and have had their time."""
    asking = before.jobs.get(key)
    for job in before.left(after):
        ran_ns = job.ran_ns(now_ns)
        assert job.key in {other.key for other in group_of(key, before.jobs)}
        assert ran_ns >= before.gmet_ns(job.key)
        if not before.by_rest:
            assert ran_ns >= before.protected_ns(job, asking)


def request_is_granted_or_refused_for_a_reason(before, node, fields, commands):
    after, was = node.machine.jobs, before.jobs[fields["job"]]
    refusals = [each for each in commands if isinstance(each, RefuseRequest)]
    if not refusals:
        request_is_in_order(before, node, fields, was)
        return
    (refusal,) = refusals
    assert {key for key, one in after.items() if one.scheduled} == {
        key for key, one in before.jobs.items() if one.scheduled
    }
    match refusal.reason:
        case Refusal.UNKNOWN:
            assert fields["task"] not in was.tasks
        case Refusal.SUSPENDED:
            assert was.mode is Mode.SUSPENDED
        case Refusal.SCHEDULED:
            assert was.scheduled or was.mode is Mode.RELEASED
        case Refusal.STALE:
            assert was.epoch != fields["epoch"]
        case Refusal.BARRED:
            assert barring(before, was)
        case Refusal.AHEAD:
            assert refusal.by_ns == lead_ns(before, was, node.now_ns) > most_ns(before, was)
        case Refusal.GMET | Refusal.PRECEDED:
            refused_for_time(before, node, refusal, was)
    if refusal.reason in (Refusal.BARRED, Refusal.AHEAD) and not before.paper:
        assert after[was.key].awaits_switch
    elif refusal.reason in (Refusal.GMET, Refusal.PRECEDED) and not before.paper:
        assert after[was.key].awaits_gmet
    elif refusal.reason is Refusal.BARRED or refusal.by_ns:
        assert after[was.key].epoch == was.epoch + 1, "the paper discards the request"


def request_is_in_order(before, node, fields, was):
    assert node.machine.jobs[was.key].scheduled
    assert not was.scheduled
    assert was.epoch == fields["epoch"]
    assert not barring(before, was)
    if not before.paper and not before.by_rest:
        assert lead_ns(before, was, node.now_ns) <= most_ns(before, was)


def barring(before, job):
    """The raised jobs that keep this one from its CPUs."""
    return job.mode is not Mode.RAISED and [
        other
        for other in before.jobs.values()
        if other.mode is Mode.RAISED and other.cpus & job.cpus
    ]


def lead_ns(before, asking, now_ns):
    """How far the job is ahead of the one that has had least, of those that may be next."""
    return asking.used_ns(now_ns) - min(
        job.used_ns(now_ns)
        for job in group_of(asking.key, before.jobs)
        if not job.scheduled and not barring(before, job)
    )


def most_ns(before, asking):
    """The greatest lead with which a job pulls a switch."""
    if before.settings.slice_auto:
        return before.slice_ns + before.turns_ns[asking.key]
    return LEAD_SLICES * before.slice_ns


def refused_for_time(before, node, refusal, was):
    """The time is that of another job that runs and competes."""
    other = before.jobs[refusal.other]
    assert other.scheduled
    assert other.key in {one.key for one in group_of(was.key, before.jobs)}
    protected_ns = other.ran_ns(node.now_ns) + refusal.by_ns
    gmet_ns = before.gmet_ns(other.key)
    assert refusal.by_ns > 0
    assert (protected_ns == gmet_ns) == (refusal.reason is Refusal.GMET)
    if before.by_rest:
        assert gmet_ns <= protected_ns <= PATIENCE * gmet_ns
    else:
        assert protected_ns == before.protected_ns(other, was)
        assert protected_ns in (gmet_ns, PRECEDENCE * gmet_ns)


def refused_job_asks_again(before, node):
    """A refusal is kept until the job runs, takes no part, or may ask in another epoch."""
    after = node.machine.jobs
    for job in after.values():
        waits = job.awaits_gmet or job.awaits_switch
        assert not (waits and job.scheduled)
        assert not waits or job.mode.takes_part
        was = before.jobs.get(job.key)
        if was is not None and (was.awaits_gmet or was.awaits_switch):
            assert waits or job.epoch > was.epoch
    if before.left(after) or before.came(after):
        assert not any(job.awaits_switch for job in after.values())


def alarm_rings_at_the_first_end(node):
    """The alarm rings by the time at which the first refused job is granted its switch."""
    jobs = node.machine.jobs
    refused = [job for job in jobs.values() if job.awaits_gmet]
    rules = Rules(node.machine) if refused else None
    for job in refused:
        assert node.alarm_ns is not None
        assert node.alarm_ns <= max(ends_ns(rules, jobs, job), default=0)


def ends_ns(rules, jobs, asking):
    """Until when each job that runs keeps its CPUs from the one that asks."""
    return [
        job.since_ns + rules.protected_ns(job, asking)
        for job in group_of(asking.key, jobs)
        if job.scheduled
    ]


def alarm_lets_jobs_ask_again(before, after, now_ns):
    """A refused job asks again exactly once no job that runs is protected from it."""
    for key, job in after.items():
        was = before.jobs[key]
        if not was.awaits_gmet:
            continue
        if job.awaits_gmet:
            assert now_ns < max(ends_ns(before, before.jobs, was), default=0)
        else:
            assert job.epoch == was.epoch + 1
            if not before.by_rest:
                assert now_ns >= max(ends_ns(before, before.jobs, was), default=0)
