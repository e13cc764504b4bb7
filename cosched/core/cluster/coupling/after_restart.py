"""Restores the coupling of a domain after a restart of its controller.

Decisions, votes and promises survive; the rest is found out again. So a job that had nodes
only waits in the queue again. A prepared job that has voted waits for the decision on; one
that has not is released. A job whose start was decided begins, if its engine still has it
prepared; if not, it starts without its mates as soon as it can. A round that was not
decided has failed.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

from msgspec import Struct
from msgspec.structs import replace

from cosched.core.cluster.coupling.departures import depart_again, started_alone
from cosched.core.cluster.coupling.engine_messages import Found, GoJob
from cosched.core.cluster.coupling.jobs import Jobs
from cosched.core.cluster.coupling.mail.post import Post
from cosched.core.cluster.coupling.mate_messages import Go
from cosched.core.cluster.coupling.ready import ReadyJobs
from cosched.core.cluster.coupling.state import GroupJob, Stage, State
from cosched.core.units import NS_PER_MS

Part = TypeVar("Part", bound=Struct)  #: a part of a job's state


def next_incarnation(last: int, wall_ns: int) -> int:
    """Returns an incarnation that is greater than all before. Other domains may have seen
    greater ones than ``last``: a backup may have replaced the store, or it was lost. So it
    is at least the wall time in ms."""
    return max(last + 1, wall_ns // NS_PER_MS)


def restarted(state: State, wall_ns: int) -> None:
    """Makes a restored state ready for the reports of the engine."""
    state.incarnation = next_incarnation(state.incarnation, wall_ns)
    state.next_number = 1
    state.recovering = True
    state.found.clear()
    state.rounds.clear()
    state.questions.clear()
    state.wake_ns = None
    for peer in state.peers.values():
        peer.down = peer.doubted = False
    for member in state.members.values():
        member.turn.asking = member.turn.owed = member.turn.trying = None
        member.dates = replace(member.dates, retry_ns=None)
        promised = member.turn.promised
        if promised is not None and promised[0] == state.name:
            member.turn.promised = member.turn.pin_ns = None  # its round has failed
        member.aside = -1


#: The fields of a member's parts that are times of the monotonic clock, or None.
TIMES = {
    "turn": ("pin_ns", "vote_ns", "lease_ns"),
    "dates": ("promise_ns", "due_ns", "rest_ns", "retry_ns"),
    "past": ("ready_ns", "released_ns"),
}


def shift_clock(state: State, now_ns: int, away_ns: int) -> None:
    """Moves all times of a state to a monotonic clock that shows ``now_ns``.

    away_ns: how long ago the state was stored, by the wall clock. Leases go on meanwhile;
    a step of the wall clock can neither renew one nor make it longer.
    """
    shift_ns = now_ns - state.now_ns - max(0, away_ns)
    for member in state.members.values():
        member.since_ns += shift_ns
        for part, names in TIMES.items():
            setattr(member, part, _shifted(getattr(member, part), names, shift_ns))
        for since in (member.past.down_since, member.past.unknown_since):
            for domain in since:
                since[domain] += shift_ns
    for peer in state.peers.values():
        peer.down_ns += shift_ns
    if state.released_ns is not None:
        state.released_ns += shift_ns
    state.now_ns = state.ticked_ns = now_ns


def _shifted(part: Part, names: Iterable[str], shift_ns: int) -> Part:
    """Returns a part of a job with these times moved."""
    times = {name: getattr(part, name) for name in names}
    moved = {name: at_ns + shift_ns for name, at_ns in times.items() if at_ns is not None}
    return replace(part, **moved)


def reconcile(jobs: Jobs, post: Post, ready: ReadyJobs) -> None:
    """Brings jobs and engine together once the engine has reported all jobs."""
    state = jobs.state
    state.recovering = False
    for member in list(state.members.values()):
        depart_again(post, member)
        found = state.found.get(member.number)
        if found is not None:
            _reconcile_one(jobs, post, member, *found)
        elif member.stage not in (Stage.UNSUBMITTED, Stage.OVER):
            ready.end(member)
        if member.stage is Stage.RUNNING:
            ready.tell_followers(member)
    state.found.clear()
    for key, decisions in state.decisions.items():
        of_group = jobs.of_group(key)
        assert of_group is not None
        for decision in decisions:
            for domain in decision.open:
                post.ask(domain, of_group, Go(decision.id, decision.addresses))
    jobs.want_pass()


def _reconcile_one(
    jobs: Jobs, post: Post, member: GroupJob, found: Found, size: int
) -> None:
    if found is Found.RUNS:
        if not member.past.began:
            started_alone(jobs.state, post, member)
        if member.stage is not Stage.RUNNING:
            jobs.begin(member)
    elif found is Found.PREPARED:
        if member.stage is Stage.RUNNING:
            jobs.commands.append(GoJob(member.number, member.past.addresses))
        elif member.stage is not Stage.PREPARED or jobs.promise_of(member) is None:
            jobs.take_back(member)  # it has no vote, or its round here was not decided
    elif member.stage is Stage.OVER and member.past.began:
        return  # it was put back after it had run: it does not wait for its mates
    else:
        began = member.stage is Stage.RUNNING
        jobs.queue(member, size)
        if began:  # its start was decided, and its mates have begun
            jobs.set_dates(member, promise_ns=jobs.state.now_ns)
