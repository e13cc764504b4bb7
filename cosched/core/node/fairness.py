"""What CPU time a job starts with in the accounts that fairness compares
(``process_table.JobState.used_ns``), and how far apart they may be."""

from __future__ import annotations

from cosched.core.node.messages import Mode
from cosched.core.node.settings import Settings
from cosched.core.node.table import JobState, ProcessTable

#: How many of the longest slices the CPU times of jobs that compete may be apart.
ACCOUNTS_APART = 3


def start_account(
    newcomer: JobState, table: ProcessTable, settings: Settings, now_ns: int
) -> None:
    """A newcomer has had as much as the job that has had most, but not more than a (least)
    slice more than the neediest."""
    group = table.group_of(newcomer)
    used = [job.used_ns(now_ns) for job in group if job is not newcomer]
    if used:
        newcomer.credit_ns = min(max(used), min(used) + settings.slice_ns)


def restart_account(
    job: JobState, before: Mode, table: ProcessTable, settings: Settings, now_ns: int
) -> None:
    """A job that comes back has saved nothing up meanwhile; nor does it pay for the time
    in which it was raised."""
    job.account(now_ns)
    own_ns = job.credit_ns
    start_account(job, table, settings, now_ns)
    if before is not Mode.RAISED:
        job.credit_ns = max(job.credit_ns, own_ns)


def bound_accounts(table: ProcessTable, settings: Settings, now_ns: int) -> None:
    """Who ran alone for an hour is not to wait for as long when a group is joined."""
    most_ns = ACCOUNTS_APART * settings.longest_slice_ns
    for group in table.groups:
        neediest_ns = min(job.used_ns(now_ns) for job in group)
        for job in group:
            ahead_ns = job.used_ns(now_ns) - neediest_ns
            job.credit_ns -= max(0, ahead_ns - most_ns)
