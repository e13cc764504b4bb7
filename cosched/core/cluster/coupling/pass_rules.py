"""Orders the jobs of groups in the passes of their engine.

Promised jobs come first. A job that has just released its nodes comes last (section IV.E.1
of the paper). A job that yielded is left out until its rest is over; without a rest, until
something else happens in the queue. A mate's request still reaches it. A follower is left
out until it is due. Each yield can move a job forward.
"""

from __future__ import annotations

from cosched.core.cluster.coupling.jobs import Jobs
from cosched.core.cluster.coupling.state import Stage
from cosched.core.cluster.queue.job import JobId
from cosched.core.cluster.queue.rules import NO_RULES, PassRules


def rules(jobs: Jobs) -> PassRules:
    """Returns the exceptions from the order of the queue for a pass now."""
    state, settings = jobs.state, jobs.settings
    since_ns = state.now_ns - settings.pause_ns
    first: list[JobId] = []
    last: set[JobId] = set()
    left_out: set[JobId] = set()
    raised: dict[JobId, int] = {}
    for number, member in jobs.waiting.items():
        if member.stage is not Stage.QUEUING:
            continue
        if member.has_promised:
            first.append(number)
        elif jobs.leaves_out(member):
            left_out.add(number)
        elif member.past.released_ns is not None and member.past.released_ns > since_ns:
            last.add(number)
        elif settings.raise_by and member.past.yields:
            raised[number] = member.past.yields * settings.raise_by
    if not (first or last or left_out or raised):
        return NO_RULES
    return PassRules(first, last, left_out, raised)


def rules_for(jobs: Jobs, number: JobId) -> PassRules:
    """Returns the rules of a pass that looks for nodes for one job of a group: the others
    are left out, unless they have promised their start."""
    queuing = [each for each in jobs.waiting.values() if each.stage is Stage.QUEUING]
    first = [each.number for each in queuing if each.has_promised]
    others = {each.number for each in queuing} - {number, *first}
    return PassRules(first, left_out=others)
