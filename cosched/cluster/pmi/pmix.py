"""Serves PMIx, which Open MPI 5 speaks, by the server in libpmix.

Values that tasks put travel at the next fence of all ranks, which is the exchange of the
nodes' tables. On a job's only node libpmix completes each fence itself.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from msgspec import msgpack

from cosched.cluster.pmi.pmix_facts import (
    facts_of_another,
    job_directory,
    job_facts,
    rank_directory,
    rank_variables,
    server_facts,
)
from cosched.cluster.pmi.pmix_library import ERROR, SUCCESS, PmixLibrary
from cosched.cluster.pmi.pmix_server import Fence, PmixServer, Reply
from cosched.cluster.pmi.service import Events, JobLayout, Service, nodes_of
from cosched.core.cluster.startup.questions import (
    Gather,
    Publish,
    Question,
    RootAnswer,
    Spawn,
    WorldRanks,
)
from cosched.core.decoding import MessagePackDecoder
from cosched.core.errors import CoschedError

#: The variable by which libpmix learns where it stores the facts of jobs.
_STORE = "PMIX_MCA_gds"
#: The most entries for which copies in all tasks are faster than a segment that they share.
#: An entry has the facts of one rank for one task of the node: 1 to 2 KB.
COPIES_MOST = 1 << 16
#: How long the library may take to remove the files of tasks that have ended.
FORGET_WITHIN_S = 2.0
#: Values of tasks, each with its world and its rank.
_Values = list[tuple[int, int, bytes]]
#: Questions whose refusal is explained to the user. Programs may try names.
_EXPLAINED = {Spawn: "MPI_Comm_spawn", Publish: "MPI_Publish_name"}


@dataclass(frozen=True, slots=True)
class _Asked:
    """A question to the job's root. explained: the call that fails if it is refused."""

    rank: int
    take: Callable[[RootAnswer], None]
    explained: str


_values: MessagePackDecoder[_Values] = MessagePackDecoder(_Values, "values of tasks")


class PmixService(Service):
    """One job's PMIx on one node. It takes the reports of its server. topology: a file that
    may be there; the server then does not look at the hardware itself."""

    def __init__(
        self,
        library: Path,
        layout: JobLayout,
        events: Events,
        directory: Path,
        topology: Path,
    ) -> None:
        self._layout = layout
        self._events = events
        self._inside: set[int] = set()  # ranks between MPI_Init and MPI_Finalize
        self._fences: deque[Fence] = deque()  # they wait for the tables of all nodes
        self._refused: set[str] = set()
        self._asked: dict[int, _Asked] = {}
        self._last_question = 0
        self._worlds: set[int] = {layout.world}  # the worlds in libpmix
        self._values: dict[tuple[int, int], bytes] = {}  # of other worlds' ranks
        self._library = PmixLibrary(library)
        self._server = PmixServer(self._library, layout, self)
        try:
            self._start(directory, topology)
        except OSError as error:
            raise CoschedError(f"{error.filename}: {error.strerror}") from None

    def environment(self, rank: int) -> dict[str, str]:
        return {
            **rank_variables(self._layout, rank),
            **self._library.environment(self._layout.space, rank),
        }

    def watched(self) -> Mapping[int, Callable[[], None]]:
        return {self._server.bell: self._server.take_reports}

    def deliver(self, tables: Sequence[bytes]) -> None:
        self._server.complete(self._fences.popleft().reply, b"".join(tables))

    def answer(self, number: int, answer: RootAnswer) -> None:
        asked = self._asked.pop(number)
        if answer.error and asked.explained:
            self._events.refused(asked.rank, f"{asked.explained}: {answer.error}")
        asked.take(answer)

    def ended(self, rank: int) -> None:
        self._server.take_reports()  # the task's last reports came before its end
        if rank in self._inside:
            self.task_aborted(rank, 1, f"rank {rank} ended without MPI_Finalize")

    def close(self) -> None:
        """Makes the library remove its tasks' files, and leaves its server running until
        the process ends.

        Its orderly end can wait for ever if tasks were killed inside an operation: the
        library's thread then waits for its own mutex.
        """
        self._server.forget_tasks(FORGET_WITHIN_S)

    def _start(self, directory: Path, topology: Path) -> None:
        layout = self._layout
        job_directory(directory).mkdir(exist_ok=True)
        for rank in layout.ranks:
            rank_directory(directory, rank).mkdir(exist_ok=True)
        if layout.here.count * layout.size <= COPIES_MOST:
            os.putenv(_STORE, "hash")  # for libpmix alone, as below
        if topology.exists():
            os.putenv("HWLOC_XMLFILE", os.fsencode(topology))
            os.putenv("HWLOC_THISSYSTEM", "1")
        crowded = layout.here.count > len(os.sched_getaffinity(0))
        self._server.start(server_facts(layout, directory))
        self._library.register_job(
            layout.space, layout.here.count, job_facts(layout, directory, crowded)
        )
        for rank in layout.ranks:
            self._library.register_task(layout.space, rank, os.geteuid(), os.getegid())

    # --- reports of the server ------------------------------------------------------------

    def task_connected(self, rank: int) -> None:
        """Reports that the rank is in MPI_Init."""
        self._inside.add(rank)

    def task_finalized(self, rank: int) -> None:
        """Reports that the rank is in MPI_Finalize."""
        self._inside.discard(rank)
        self._events.finalized(rank)

    def task_aborted(self, rank: int, status: int, message: str) -> None:
        """Reports that the job must end."""
        self._inside.discard(rank)
        self._events.aborted(rank, status, message)

    def fence_reached(self, fence: Fence) -> None:
        """Handles a fence of all ranks: all tasks of this node are in it."""
        self._fences.append(fence)
        self._events.table_ready(fence.table)

    def members_fenced(self, members: tuple[WorldRanks, ...], fence: Fence) -> None:
        """Handles a fence of some ranks, or of several worlds. Several worlds exchange
        their values when they connect."""

        def take(answer: RootAnswer) -> None:
            if answer.error:
                self._server.complete(fence.reply, None)
            else:
                values = b"".join(answer.parts) if len(members) == 1 else b""
                self._server.complete(fence.reply, values)

        self._gather("fence", members, fence.table, take)

    def members_connected(
        self, members: tuple[WorldRanks, ...], done: Callable[[int], None]
    ) -> None:
        """Handles a connect of worlds by this node's tasks. Each server then gets the
        values of the other worlds' tasks, and their nodes."""

        def answered(answer: RootAnswer) -> None:
            if not answer.error:
                self._learn(answer)
            done(ERROR if answer.error else SUCCESS)

        def read(values: Mapping[int, bytes]) -> None:
            part = [(self._layout.world, rank, data) for rank, data in values.items()]
            self._gather("connect", members, msgpack.encode(part), answered)

        own = next(each for each in members if each.world == self._layout.world)
        here = self._layout.ranks
        ranks = [rank for rank in own.ranks if rank in here] if own.ranks else list(here)
        self._server.read_values(ranks, read)

    def members_disconnected(
        self, members: tuple[WorldRanks, ...], done: Callable[[int], None]
    ) -> None:
        """Handles a disconnect of worlds by this node's tasks."""
        self._gather(
            "disconnect",
            members,
            b"",
            lambda answer: done(ERROR if answer.error else SUCCESS),
        )

    def values_wanted(self, world: int, rank: int, reply: Reply) -> None:
        """Gives libpmix the values of a rank of another world."""
        self._server.complete(reply, self._values.get((world, rank)))

    def task_asked(
        self, rank: int, question: Question, take: Callable[[RootAnswer], None]
    ) -> None:
        """Passes a task's question to the job's root."""
        self._last_question += 1
        explained = _EXPLAINED.get(type(question), "")
        self._asked[self._last_question] = _Asked(rank, take, explained)
        self._events.asked(self._last_question, question)

    def _gather(
        self,
        what: str,
        members: tuple[WorldRanks, ...],
        part: bytes,
        take: Callable[[RootAnswer], None],
    ) -> None:
        self.task_asked(self._layout.here.first, Gather(what, members, part), take)

    def _learn(self, answer: RootAnswer) -> None:
        """Makes other worlds known to libpmix, and keeps the values of their tasks."""
        for world in answer.worlds:
            if world.number not in self._worlds:
                self._worlds.add(world.number)
                space = self._layout.space_of(world.number)
                facts = facts_of_another(space, nodes_of(world.hosts, world.counts))
                self._library.register_job(space, 0, facts)
        for part in answer.parts:
            for number, rank, data in _values.decode(part):
                self._values[number, rank] = data

    def task_refused(self, rank: int, what: str) -> None:
        """Reports once that a task asked for something that is not served."""
        if what not in self._refused:
            self._refused.add(what)
            self._events.unsupported(rank, what)
