"""Finds out on which terms a job enters the queue: its array, and the jobs it waits for.

A job can wait only for jobs that were submitted before it, so no two wait for each other.
It may wait for jobs of its own user.
"""

from __future__ import annotations

from msgspec.structs import replace

from cosched.cluster.record import Outcome, Record, State
from cosched.cluster.store import JobStore
from cosched.core.arrays import JobRef, chosen, parse_array, parse_jobs
from cosched.core.cluster.queue.batches import Batches, Terms
from cosched.core.errors import CoschedError

#: The most jobs for which a job may wait, each task of an array counted.
PREREQUISITES_MOST = 20_000


class Prerequisites:
    """The terms of a domain's jobs. batches: the batches that the queue has already."""

    def __init__(self, store: JobStore, batches: Batches) -> None:
        self._store = store
        self._batches = batches

    def check(self, record: Record) -> None:
        """Raises CoschedError for a new job that waits for an unknown job, for another
        user's, or for one that has failed already."""
        self._find(record)

    def terms(self, record: Record) -> Terms | None:
        """Returns the terms of a stored job; None if it enters the queue at once. Raises
        CoschedError with the reason if it can never start."""
        job = record.submission
        batch = record.array or record.number
        at_once = parse_array(job.array).at_once if job.array else 0
        if not at_once and not job.after and not job.after_ok:
            return None
        if record.let_in_ns is not None:
            return Terms(batch, at_once, let_in=True) if at_once else None
        if self._batches.has(batch):
            return Terms(batch, at_once)
        found = replace(self._find(record), batch=batch, at_once=at_once)
        return found if at_once or found.after or found.after_ok else None

    def _find(self, record: Record) -> Terms:
        """Returns terms with the jobs for which a job still waits."""
        job = record.submission
        after: set[int] = set()
        after_ok: set[int] = set()
        for name, text in (("--after", job.after), ("--after-ok", job.after_ok)):
            refs = parse_jobs(text, name) if text else ()
            for ref in refs:
                for each in self._named(name, ref, record.uid):
                    if not each.state.over:
                        (after if name == "--after" else after_ok).add(each.number)
                    elif name == "--after-ok" and each.state is not State.DONE:
                        raise CoschedError(not_met(each.label, each.state))
                    if len(after) + len(after_ok) > PREREQUISITES_MOST:
                        raise CoschedError(
                            f"{name}: a job waits for at most {PREREQUISITES_MOST} jobs"
                        )
        return Terms(0, after=frozenset(after), after_ok=frozenset(after_ok))

    def _named(self, name: str, ref: JobRef, uid: int) -> list[Outcome]:
        """Returns the job, or the tasks of an array, that a user names."""
        found = self._store.outcomes(ref.number)
        if not found:
            raise CoschedError(f"{name} {ref}: there is no such job")
        if found[0].uid != uid:
            raise CoschedError(f"{name} {ref}: belongs to another user")
        if ref.tasks:
            if found[0].array != ref.number:
                raise CoschedError(f"{name} {ref}: job {ref.number} is no array")
            indices = (each.task for each in found if each.task is not None)
            wanted = set(chosen(ref, indices))
            found = [each for each in found if each.task in wanted]
        if not found:
            raise CoschedError(f"{name} {ref}: there is no such task")
        return found


def not_met(job: str, state: State) -> str:
    """Returns the reason why a job cannot start: another one did not end well."""
    return (
        f"job {job}, whose success this one waits for (--after-ok), has ended: "
        f"{state.value}"
    )
