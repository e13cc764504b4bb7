"""Sets the CPU time from which a job's account starts, and bounds how far accounts differ.

The accounts are what fairness compares (``JobState.used_ns``). The bounds hold under every
slice policy.
"""

from __future__ import annotations

from cosched.core.node.job import JobState
from cosched.core.node.messages import Mode
from cosched.core.node.process_table import ProcessTable

#: How many of the longest turns the accounts of jobs that compete may differ. A job that
#: ran alone for an hour then waits for three turns after its group is joined, not an hour.
ACCOUNTS_APART = 3


def start_account(newcomer: JobState, table: ProcessTable, now_ns: int) -> None:
    """Starts a newcomer's account at that of the job that has had most CPU time.

    It starts at most a slice ahead of the neediest job. So a newcomer does not keep the CPU
    until it has caught up with jobs that have run for hours, and a stream of short jobs
    does not keep a long one waiting.
    """
    group = table.group_of(newcomer)
    used = [job.used_ns(now_ns) for job in group.jobs if job is not newcomer]
    if used:
        newcomer.credit_ns = min(max(used), min(used) + table.policy.slice_ns)


def restart_account(job: JobState, before: Mode, table: ProcessTable, now_ns: int) -> None:
    """Starts the account of a job that takes part again, or is no longer raised.

    The job has saved up nothing meanwhile, and does not pay for the time as a raised job.
    """
    job.account(now_ns)
    own_ns = job.credit_ns
    start_account(job, table, now_ns)
    if before is not Mode.RAISED:
        job.credit_ns = max(job.credit_ns, own_ns)


def bound_accounts(table: ProcessTable, now_ns: int) -> None:
    """Limits how far each account is ahead of the neediest one of its group."""
    most_ns = ACCOUNTS_APART * table.policy.longest_ns
    for group in table.groups:
        neediest_ns = group.least_used_ns(now_ns)
        for job in group.jobs:
            ahead_ns = job.used_ns(now_ns) - neediest_ns
            job.credit_ns -= max(0, ahead_ns - most_ns)
