"""Takes a job that has nodes back into the queue after a restart, or refuses it.

The agents report the nodes of the job, and its driver has the rest stored: an open change
of its size, and its suspensions. The job then is in the state in which it was.
"""

from __future__ import annotations

from cosched.core.cluster.queue.halves.sharing_job import SharingJob
from cosched.core.cluster.queue.nodes import count
from cosched.core.cluster.queue.places.cpu_board import CpuJob
from cosched.core.cluster.queue.places.place import Place
from cosched.core.cluster.queue.queue_events import JobRecovered
from cosched.core.cluster.queue.resizing import Resizing
from cosched.core.cluster.queue.sizes.malleable_job import MalleableJob
from cosched.core.cluster.queue.states import KnownJobs, State, Step
from cosched.core.cluster.queue.time_limits import TimeLimits
from cosched.core.errors import CoschedError

#: Jobs that may have another number of nodes than their size. A malleable job may have got
#: other bounds, and keeps its nodes until it changes. A job that shares nodes has whole
#: nodes, or halves or CPUs of more.
_OTHER_SIZES = MalleableJob | SharingJob | CpuJob


def recover(
    event: JobRecovered,
    jobs: KnownJobs,
    place: Place,
    limits: TimeLimits,
    resizing: Resizing | None,
) -> None:
    """Adds a job to those of a queue, with its nodes and its limit. Raises CoschedError for
    a job that is there, or that cannot have these nodes; nothing has changed then."""
    job, number = event.job, event.job.number
    step = Step.RECOVERED_RESERVED if job.waits_for_mates else Step.RECOVERED
    jobs.check(number, step)
    place.check(job)
    found = count(event.nodes)
    if found != job.size and not isinstance(job, _OTHER_SIZES):
        raise CoschedError(
            f"job {number} wants {job.size} nodes, but the agents report {found}"
        )
    if resizing is not None:
        resizing.check_recovery(event)
    if resizing is not None and resizing.suspending.borrows(event):
        resizing.suspending.adopt(job, event)
    else:
        place.adopt(job, event.nodes, event.since_ns, event.halves)
    if resizing is not None and event.growths:
        resizing.restore(number, event.growths)
    entry = jobs.enter(job, step, event.now_ns)
    entry.since_ns, entry.nodes = event.since_ns, event.nodes
    if entry.state is State.RUNNING:
        limits.begin(entry, event.since_ns)
    if resizing is not None and event.ordered is not None:
        resizing.reopen(entry, event)
    if resizing is not None and event.suspension is not None:
        resizing.suspending.restore(entry, event)
