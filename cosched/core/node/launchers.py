"""Decides how long the processes that start a job's tasks belong to the job.

A *launcher* is such a process: the user's launcher, or its daemon on a node. Its job takes
part from the launcher's announcement on, before it has tasks: a newcomer is not starved
while it starts. The paper has no launchers; there a job begins with its first task.

A job with launchers alone needs one CPU, and its time counts like that of any job. It is
*starting* until its first task registers, and *ending* after its last task has left:

    starting   for ``START_MOST_NS`` of scheduled time, and until its launchers are idle
    running    as long as the job is scheduled: outside of its class a launcher obeys the
               user at once, also while its job waits
    ending     for ``END_MOST_NS`` of scheduled time, and as long as the job is scheduled

Then its launchers leave the job, and the kernel gives them the share of any process. A job
without tasks leaves the order with them.

No user gains by launchers that start nothing. The times of such starts add up, until a task
of the user registers (``knowledge``). The next launcher is ordered as if it had run for all
of them.
"""

from __future__ import annotations

from cosched.core.node.job import JobState
from cosched.core.units import NS_PER_MS, NS_PER_S

#: The most scheduled time of a job before its first task.
START_MOST_NS = 5 * NS_PER_S
#: The most scheduled time of a job after its last task.
END_MOST_NS = 200 * NS_PER_MS
#: The launchers of a scheduled job are idle if they use less than this part of a CPU ...
IDLE_PART = 0.05
#: ... for this time. They wait for another node, so the job needs no CPU here.
IDLE_NS = 500 * NS_PER_MS


def keeps_launchers(job: JobState, now_ns: int) -> bool:
    """Returns whether the job's launchers still belong to it."""
    if not job.mode.takes_part:
        return False
    if job.tasks:
        return job.scheduled
    bare_ns = job.age_ns(now_ns) - job.bare_age_ns
    if job.ending:
        return job.scheduled and bare_ns <= END_MOST_NS
    return bare_ns <= START_MOST_NS


def are_idle(cpu_ns: int, within_ns: int) -> bool:
    """Returns whether launchers with this CPU time in so much scheduled time are idle."""
    return within_ns >= IDLE_NS and cpu_ns < within_ns * IDLE_PART
