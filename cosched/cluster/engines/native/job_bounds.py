"""Changes the sizes of a malleable job as its owner wishes: ``cosched resize``.

The new sizes are stored with the job. Its work stays as it is, so the time that it may run
with its ideal follows the ideal.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from msgspec.structs import replace

from cosched.cluster.engines.native.jobs import Jobs
from cosched.cluster.job_texts import JobBounds
from cosched.cluster.record import State
from cosched.cluster.submission import LONGEST_NS, Submission
from cosched.config.queue import MALLEABLE, RIGID
from cosched.core.cluster.queue.queue_events import BoundsChanged
from cosched.core.errors import CoschedError


def bounds_of(job: Submission, nodes_most: int) -> JobBounds | None:
    """Returns the sizes of a malleable job; None for a rigid one. nodes_most: the domain's
    nodes."""
    if not job.malleable:
        return None
    ideal = min(job.ideal or nodes_most, nodes_most)
    preferred = max(job.minimum, min(job.preferred, ideal)) if job.preferred else None
    return JobBounds(job.minimum, ideal, preferred)


class Wanted(NamedTuple):
    """The sizes that a user gives a job, in nodes; None: this one stays."""

    minimum: int | None  #: the least
    ideal: int | None  #: the most
    preferred: int | None  #: the most while other jobs wait


def change_all(jobs: Jobs, numbers: Sequence[int], wanted: Wanted, kind: str) -> JobBounds:
    """Gives each of these jobs other sizes, as ``_change``. A job of several that cannot
    have them stays as it is. Returns the sizes of the first one that has changed. Raises
    CoschedError if none can have them."""
    changed: list[JobBounds] = []
    refused: list[CoschedError] = []
    for number in numbers:
        try:
            changed.append(_change(jobs, number, wanted, kind))
        except CoschedError as error:
            refused.append(error)
    if not changed:
        raise refused[0]
    return changed[0]


def _change(jobs: Jobs, number: int, wanted: Wanted, kind: str) -> JobBounds:
    """Gives a job other sizes; returns all of them.

    kind: ``queue.size`` of the domain. Raises CoschedError for a job that has ended or is
    rigid, and for sizes that it cannot have; nothing has changed then."""
    minimum, ideal, preferred = wanted
    record = jobs.records.get(number)
    if number in jobs.records.unresolved:
        raise jobs.not_known_yet(f"job {number}")
    waits = record.state in (State.HELD, State.QUEUED)
    before, nodes_most = record.submission, jobs.nodes_most
    present = bounds_of(before, nodes_most)
    if present is None:
        raise CoschedError(
            f"job {number}: is rigid: it was not submitted with --min and --ideal"
        )
    if kind == RIGID or not (waits or kind == MALLEABLE):
        raise CoschedError(
            f'job {number}: this domain does not change it; [queue] size is "{kind}"'
        )
    least = present.minimum if minimum is None else minimum
    most = present.ideal if ideal is None else ideal
    _check(number, least, most, nodes_most)
    if preferred is not None and not least <= preferred <= most:
        raise CoschedError(
            f"job {number}: preferred {preferred}: is not between the minimum of {least} "
            f"and the ideal of {most} nodes"
        )
    after = replace(
        before,
        minimum=least,
        ideal=before.ideal if ideal is None else ideal,
        preferred=_preferred(before.preferred, preferred, least, most),
        time_ns=min(LONGEST_NS, round(before.time_ns * present.ideal / most)),
    )
    if record.state is not State.HELD:
        now_ns = jobs.clock.now_ns()
        jobs.driver.handle(BoundsChanged(now_ns, number, least, most, after.preferred))
    jobs.records.rebound(record, after)
    changed = bounds_of(after, nodes_most)
    assert changed is not None
    return changed


def _preferred(before: int, asked: int | None, least: int, most: int) -> int:
    """Returns the preferred size that is stored; 0: none. One that was given earlier moves
    into the new bounds."""
    if asked is not None:
        return asked
    return max(least, min(before, most)) if before else 0


def _check(number: int, least: int, most: int, nodes_most: int) -> None:
    """Raises CoschedError for bounds that no job can have in this domain."""
    for name, nodes in (("minimum", least), ("ideal", most)):
        if nodes < 1:
            raise CoschedError(f"job {number}: {name} {nodes}: must be 1 or more")
    if least > most:
        raise CoschedError(
            f"job {number}: minimum {least} is above ideal {most}; give both, such as "
            f"{most}..{least}"
        )
    if most > nodes_most:
        raise CoschedError(f"job {number}: ideal {most}: the domain has {nodes_most} nodes")
