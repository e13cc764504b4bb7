"""Decides how long the processes that start a job's tasks belong to the job.

A *launcher* is such a process: the user's launcher, or its daemon on a node. Its job takes
part from the launcher's announcement on, before it has tasks: a newcomer is not starved
while it starts. The paper has no launchers; there a job begins with its first task. The
command that will start the launcher is one, too, until another process of the job comes.

A job with launchers alone needs one CPU, and its time counts like that of any job. It is
*starting* until its first task registers, and *ending* after its last task has left.

Launchers belong to a job only while it is scheduled. In its class they would get nothing
while it waits: it would start later than without coscheduling, and obey its user late. So
they leave a job that is not scheduled, unless it is the next one after GMET. They also
leave a job without tasks after some scheduled time, and when they are idle. Then the kernel
gives them the share of any process, and a job without tasks leaves the order with them.

No user gains by launchers that start nothing. The times of such starts add up, until a task
of the user registers (``knowledge``). The next launcher is ordered as if it had run for all
of them.
"""

from __future__ import annotations

from cosched.core.node.job import JobState
from cosched.core.node.messages import Mode
from cosched.core.node.process_table import ProcessTable
from cosched.core.units import NS_PER_MS, NS_PER_S

#: The most scheduled time of a job before its first task.
START_MOST_NS = 5 * NS_PER_S
#: The most scheduled time of a job after its last task.
END_MOST_NS = 200 * NS_PER_MS
#: The launchers of a scheduled job are idle if they use less than this part of a CPU ...
IDLE_PART = 0.05
#: ... for this time. They wait for another node, so the job needs no CPU here.
IDLE_NS = 500 * NS_PER_MS


def keeps_launchers(job: JobState, table: ProcessTable, now_ns: int) -> bool:
    """Returns whether the job's launchers still belong to it. They keep a starting job if
    its owner chose a mode, so that its tasks find that mode."""
    if job.starting and job.mode is not Mode.COSCHEDULED:
        return True
    if not job.scheduled:
        return job.starting and _is_next(job, table, now_ns)
    bare_ns = job.age_ns(now_ns) - job.bare_age_ns
    most_ns = START_MOST_NS if job.starting else END_MOST_NS
    return bool(job.tasks) or bare_ns <= most_ns


def _is_next(job: JobState, table: ProcessTable, now_ns: int) -> bool:
    """Returns whether the job has the CPUs once the others have had GMET."""
    if not job.mode.takes_part or not table.policy.first_takes_over:
        return False
    return table.policy.order_now(table.group_of(job), now_ns)[0] is job


def are_idle(cpu_ns: int, within_ns: int) -> bool:
    """Returns whether launchers with this CPU time in so much scheduled time are idle."""
    return within_ns >= IDLE_NS and cpu_ns < within_ns * IDLE_PART
