"""Changes the bounds of a malleable job as its owner wishes: ``cosched resize``.

The new bounds are stored with the job. Its work stays as it is, so the time that it may run
with its ideal follows the ideal.
"""

from __future__ import annotations

from msgspec.structs import replace

from cosched.cluster.engines.native.jobs import Jobs
from cosched.cluster.record import State
from cosched.cluster.submission import LONGEST_NS, Submission
from cosched.config.domain import MALLEABLE, RIGID
from cosched.core.cluster.queue.queue_events import BoundsChanged
from cosched.core.errors import CoschedError


def bounds_of(job: Submission, nodes_most: int) -> tuple[int, int] | None:
    """Returns the least and the most nodes of a malleable job; None for a rigid one.
    nodes_most: the domain's nodes."""
    if not job.malleable:
        return None
    return job.minimum, min(job.ideal or nodes_most, nodes_most)


def change_bounds(
    jobs: Jobs, number: int, minimum: int | None, ideal: int | None, kind: str
) -> tuple[int, int]:
    """Gives a job other bounds, in nodes; None: this one stays. Returns both.

    kind: ``queue.size`` of the domain. Raises CoschedError for a job that has ended or is
    rigid, and for bounds that it cannot have; nothing has changed then."""
    record = jobs.records.get(number)
    if number not in jobs.records.live:
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
    least = present[0] if minimum is None else minimum
    most = present[1] if ideal is None else ideal
    _check(number, least, most, nodes_most)
    time_ns = min(LONGEST_NS, round(before.time_ns * present[1] / most))
    after = replace(
        before,
        minimum=least,
        ideal=before.ideal if ideal is None else ideal,
        time_ns=time_ns,
    )
    if record.state is not State.HELD:
        jobs.driver.handle(BoundsChanged(jobs.clock.now_ns(), number, least, most))
    jobs.records.rebound(record, after)
    return least, most


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
