"""Finds out after a start of the controller what a scheduler does with its jobs. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping

from cosched.cluster.coupling.mates import group_of
from cosched.cluster.engines.slurm import events as live
from cosched.cluster.engines.slurm.events import PairedJob
from cosched.core.cluster.coupling.engine_messages import Found
from cosched.core.cluster.coupling.state import GroupJob, Stage


def submitted(events: Iterable[live.Event]) -> dict[int, PairedJob]:
    """Returns the jobs that the scheduler has reported, by number."""
    return {
        event.job.number: event.job for event in events if isinstance(event, live.Submitted)
    }


def inventory(
    events: Collection[live.Event], members: Mapping[int, GroupJob], own: str
) -> Iterator[tuple[int, Found, int]]:
    """Yields the number, state and size of each member that the scheduler has.

    It leaves out a job that waits and names other mates by now: the member is over, and the
    job is announced as a new one. own: the name of this domain.
    """
    jobs = submitted(events)
    for number, found in _states(events).items():
        member, job = members.get(number), jobs[number]
        if member is None:
            continue
        if found is Found.RUNS or group_of(job.mates, own) == member.group:
            yield number, _as_found(member, found, own), job.nodes


def _as_found(member: GroupJob, found: Found, own: str) -> Found:
    """Returns PREPARED only for a job whose start is decided, or is being decided in
    another domain. A job that only has nodes waits, and is ready at once: it keeps them."""
    if found is not Found.PREPARED or member.stage is Stage.RUNNING:
        return found
    others = member.turn.round is not None and member.turn.round[0] != own
    return found if others and member.stage is Stage.PREPARED else Found.WAITS


def _states(events: Iterable[live.Event]) -> dict[int, Found]:
    """Returns what the scheduler does with each job that it has reported."""
    found: dict[int, Found] = {}
    for event in events:
        match event:
            case live.Submitted():
                found[event.job.number] = Found.WAITS
            case live.Ready():
                found[event.number] = Found.PREPARED
            case live.NotReady() | live.GaveBack() | live.StartFailed():
                found[event.number] = Found.WAITS
            case live.Started():
                found[event.number] = Found.RUNS
            case live.Ended() | live.Cancelled():
                found.pop(event.number, None)
    return found
