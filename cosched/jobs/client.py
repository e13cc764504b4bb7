"""Submits jobs to a domain and watches them: the ``Client`` for programs.

from cosched import Client, Job

with Client.connect() as client:
    number = client.submit(Job(["./app"], ranks=4))
    print(client.wait(number)["state"])
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from cosched.cluster import client as domain
from cosched.cluster.client import USUAL_PATIENCE, NoDomain, Patience
from cosched.cluster.paths import DomainPaths
from cosched.cluster.submission import Submission
from cosched.cluster.up.missing_member import lacks_a_member
from cosched.cluster.user_requests import JOB_VARIABLE
from cosched.jobs.job import Job
from cosched.jobs.reporting import Reports
from cosched.rundir.directories import domain_dir_to_ask

if TYPE_CHECKING:
    from cosched.jobs.calls.job_executor import JobExecutor
    from cosched.jobs.choices import Choices

__all__ = ["Client", "NoDomain", "Patience"]

SomeClient = TypeVar("SomeClient", bound="Client")
_WARNINGS = Reports(warnings.warn, lambda line: None)


class Client(domain.Client):
    """A connection to a domain."""

    @classmethod
    def connect(
        cls: type[SomeClient],
        run_dir: Path | str | None = None,
        node: str | None = None,
        patience: Patience = USUAL_PATIENCE,
    ) -> SomeClient:
        """Connects to the domain of a run directory, by default to the one that serves this
        user. If none is up, a private one of this machine is started.

        node: this machine's name in the domain; none is started then. Raises NoDomain if
        the domain there is not a private one and is down, and within a job of a domain.
        """
        at = _domain_dir(run_dir)
        try:
            client = cls.connect_to_running(at, node, patience)
        except NoDomain:
            if node or not _may_start():
                raise
        else:
            if not _may_start() or not lacks_a_member(DomainPaths(at)):
                return client
            client.close()
        from cosched.cluster.up.private import start_private

        start_private(at)
        return cls.connect_to_running(at, node, patience)

    @classmethod
    def connect_to_running(
        cls: type[SomeClient],
        run_dir: Path | str | None = None,
        node: str | None = None,
        patience: Patience = USUAL_PATIENCE,
    ) -> SomeClient:
        """Does the same, but starts nothing. Raises NoDomain if no domain answers."""
        return super().connect(
            _domain_dir(run_dir), node or os.environ.get("COSCHED_NODE"), patience
        )

    def submit(self, job: Job | Submission, reports: Reports = _WARNINGS) -> int:
        """Submits a job; returns its number.

        Raises CoschedError if the domain can never run it, or if something is missing here.
        """
        return super().submit(self.prepare(job, reports) if isinstance(job, Job) else job)

    def map(
        self,
        work: Callable[..., Any] | Sequence[str],
        items: Iterable[Any],
        *,
        ranks: int | None = None,
        chunksize: int = 1,
        timeout: float | None = None,
        folder: Path | str | None = None,
        **job: Any,
    ) -> Iterator[Any]:
        """Runs a function or a command for each item as a job, and returns an iterator over
        the results in the order of the items. All jobs are sent at once.

        work: a function of an item; with ``ranks``, of the communicator and an item. Or the
        words of a command, in which ``{}`` stands for the item; without it the item is the
        last word. The result is then a ``subprocess.CompletedProcess``. The other arguments
        are those of ``cosched.Executor`` and its ``map``.
        """
        from cosched.jobs.calls.job_executor import JobExecutor  # most programs need none

        def connect() -> Client:
            return type(self).connect(self.run_dir, self.node)

        executor = JobExecutor(connect, ranks, folder=folder, **job)
        results = executor.map(work, items, timeout=timeout, chunksize=chunksize)
        return _closing(results, executor)

    def prepare(
        self, job: Job, reports: Reports = _WARNINGS, choices: Choices | None = None
    ) -> Submission:
        """Returns a job as it is sent; builds the shim for its MPI if it is not there. Sent
        twice it is still one job. reports: by default Python's warnings. choices: by
        default those of the user's configuration."""
        # Commands that send no job need none of it.
        from cosched.jobs.preparing import prepare_request

        return Submission(**prepare_request(self, job, reports, choices))


def _closing(results: Iterator[Any], executor: JobExecutor) -> Iterator[Any]:
    """Yields the results; then the executor takes no more work."""
    try:
        yield from results
    finally:
        executor.shutdown(wait=False)


def _domain_dir(run_dir: Path | str | None) -> Path:
    if run_dir is None:
        return domain_dir_to_ask(os.environ, os.geteuid())
    return Path(run_dir).absolute()


def _may_start() -> bool:
    """Returns whether this process may start members of a domain. Members that a job
    starts would end with it."""
    return JOB_VARIABLE not in os.environ and not os.environ.get("COSCHED_NODE")
