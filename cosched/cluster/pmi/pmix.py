"""Serves PMIx, which Open MPI 5 speaks, by the server in libpmix.

Values that tasks put travel at the next fence of all ranks, which is the exchange of the
nodes' tables. On a job's only node libpmix completes each fence itself.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from cosched.cluster.pmi.pmix_facts import (
    job_directory,
    job_facts,
    rank_directory,
    rank_variables,
    server_facts,
)
from cosched.cluster.pmi.pmix_library import PmixLibrary
from cosched.cluster.pmi.pmix_server import Fence, PmixServer
from cosched.cluster.pmi.service import Events, JobLayout, Service
from cosched.core.cluster.startup.questions import Answer
from cosched.core.errors import CoschedError


class PmixService(Service):
    """One job's PMIx on one node. It takes the reports of its server."""

    def __init__(
        self, library: Path, layout: JobLayout, events: Events, directory: Path
    ) -> None:
        self._layout = layout
        self._events = events
        self._inside: set[int] = set()  # ranks between MPI_Init and MPI_Finalize
        self._fences: deque[Fence] = deque()  # they wait for the tables of all nodes
        self._refused: set[str] = set()
        self._library = PmixLibrary(library)
        self._server = PmixServer(self._library, layout, self)
        try:
            self._start(directory)
        except OSError as error:
            raise CoschedError(f"{error.filename}: {error.strerror}") from None

    def environment(self, rank: int) -> dict[str, str]:
        return {
            **rank_variables(self._layout, rank),
            **self._library.environment(self._layout.name, rank),
        }

    def inherited(self, rank: int) -> tuple[int, ...]:
        return ()

    def started(self, rank: int, pid: int) -> None:
        return

    def watched(self) -> Mapping[int, Callable[[], None]]:
        return {self._server.bell: self._server.take_reports}

    def deliver(self, tables: Sequence[bytes]) -> None:
        self._server.complete(self._fences.popleft(), b"".join(tables))

    def answer(self, number: int, answer: Answer) -> None:
        return

    def ended(self, rank: int) -> None:
        self._server.take_reports()  # the task's last reports came before its end
        if rank in self._inside:
            self.task_aborted(rank, 1, f"rank {rank} ended without MPI_Finalize")

    def close(self) -> None:
        """Leaves the library's server running until the process ends.

        Its orderly end can wait for ever if tasks were killed inside an operation: the
        library's thread then waits for its own mutex.
        """

    def _start(self, directory: Path) -> None:
        layout = self._layout
        job_directory(directory).mkdir(exist_ok=True)
        for rank in layout.ranks:
            rank_directory(directory, rank).mkdir(exist_ok=True)
        crowded = layout.here.count > len(os.sched_getaffinity(0))
        self._server.start(server_facts(layout, directory))
        self._library.register_job(
            layout.name, layout.here.count, job_facts(layout, directory, crowded)
        )
        for rank in layout.ranks:
            self._library.register_task(layout.name, rank, os.geteuid(), os.getegid())

    # --- reports of the server ------------------------------------------------------------

    def task_connected(self, rank: int) -> None:
        """Notes that the rank is in MPI_Init."""
        self._inside.add(rank)

    def task_finalized(self, rank: int) -> None:
        """Notes that the rank is in MPI_Finalize."""
        self._inside.discard(rank)
        self._events.finalized(rank)

    def task_aborted(self, rank: int, status: int, message: str) -> None:
        """Notes that the job must end."""
        self._inside.discard(rank)
        self._events.aborted(rank, status, message)

    def fence_reached(self, fence: Fence) -> None:
        """Notes that all tasks of this node are in a fence of all ranks."""
        self._fences.append(fence)
        self._events.table_ready(fence.table)

    def task_refused(self, rank: int, what: str) -> None:
        """Notes that a task asked for something that is not served; reports it once."""
        if what not in self._refused:
            self._refused.add(what)
            self._events.unsupported(rank, what)
