"""Carries a rank from boundary to boundary, and through the changes of the job's size."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any

from mpi4py import MPI
from msgspec import Struct
from msgspec.structs import replace

from cosched.core.cluster.resizing.page_records import Result, Times
from cosched.core.cluster.resizing.plan import Rank, plan
from cosched.core.errors import CoschedError
from cosched.malleable.worlds import Union, Welcome, Worlds, own_generation
from cosched.shm.boundaries import Boundaries, link, unlinked
from mpi_shim.marks import mark
from mpi_shim.waited import waited_counter


class _Change(Struct):
    """A change under way."""

    union: Union
    times: Times  #: its phases so far
    since_ns: int  #: when the present phase began

    def take_phase(self, name: str) -> None:
        """Ends the present phase."""
        now_ns = time.monotonic_ns()
        self.times = replace(self.times, **{name: now_ns - self.since_ns})
        self.since_ns = now_ns


class Membership:
    """This rank in the job. link: to the node's agent, or to none if the job has a fixed
    size. joined: whether a change has made this rank. step: the first iteration of this
    rank. prepared: what calls before the loop returned to the other ranks, in a rank that
    joined."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        """Begins the job or joins it. Collective. Raises SystemExit in all ranks of a new
        world if one of them cannot join."""
        self._change: _Change | None = None
        self.link: Boundaries
        self.step = 0
        self.prepared: tuple[Any, ...] = ()
        self.joined = own_generation() > 0
        if self.joined:
            self._worlds = self._join(environ)
        else:
            self.link, self._worlds = _begin(environ)

    def _join(self, environ: Mapping[str, str]) -> Worlds:
        """The job waits for this rank, so one without a link takes its reason there."""
        reason = "a rank that joins a job has no page of its node's agent"
        try:
            own = link(environ, waited_counter())
        except CoschedError as error:
            own, reason = None, str(error)
        since_ns = time.monotonic_ns()
        spot = reason if own is None else own.spot
        try:
            worlds, union = Worlds.join(spot, MPI.Comm.Get_parent())
        except CoschedError:  # the job reports it; a status not 0 could end the job
            if own is not None:
                own.leave()
            raise SystemExit(0) from None
        assert own is not None
        self.link = own
        self.step, self.prepared = union.welcome.step, union.welcome.prepared
        self._enter(own, union, since_ns)
        return worlds

    @property
    def comm(self) -> MPI.Intracomm:
        """The communicator of the job; during a change the next one, but for ranks that
        end."""
        after = None if self._change is None else self._change.union.after
        return self._worlds.comm if after is None else after

    @property
    def union(self) -> Union | None:
        """All ranks before and after the change under way."""
        return None if self._change is None else self._change.union

    def come_to(self, step: int, prepared: Sequence[Any]) -> bool:
        """Comes to a boundary; returns whether a change begins there. prepared: what calls
        before the loop have returned. If the change fails, the job goes on as it is."""
        own = self.link
        mark()
        if not own.stops_at(step):
            return False
        times = Times(wait_ns=own.waited_ns)
        change = own.change()
        since_ns = time.monotonic_ns()
        try:
            found = plan(self._worlds.ranks, change)
            bond = self._worlds.spawn(found, change.generation)
        except (CoschedError, MPI.Exception) as error:
            return self._refuse(own, change.generation, times, error)
        now_ns = time.monotonic_ns()
        times = replace(times, spawn_ns=now_ns - since_ns)
        welcome = Welcome(change.generation, step, found, times, tuple(prepared))
        try:
            union = self._worlds.unite(bond, welcome)
        except CoschedError as error:
            return self._refuse(own, change.generation, times, error)
        self._enter(own, union, now_ns)
        return True

    def _refuse(
        self, own: Boundaries, generation: int, times: Times, error: Exception
    ) -> bool:
        """Reports that the job goes on as it is; returns False."""
        # No next order may be written before all ranks have read this one.
        self._worlds.comm.Barrier()
        # Of several lines of an MPI the last one has the cause.
        ranks, why = self._worlds.comm.size, str(error).splitlines()[-1]
        self._report(own, Result(generation, ranks, times, 0, why))
        return False

    def _enter(self, own: Boundaries, union: Union, since_ns: int) -> None:
        """Begins to move data. since_ns: when this rank began to make the union."""
        self._change = _Change(union, union.welcome.times, since_ns)
        self._change.take_phase("connect_ns")
        if union.after is None:
            own.begin_last_change()
        else:
            own.enter(union.welcome.step, union.after.rank)

    def note_start(self) -> None:
        """Notes that all ranks have come to move their data."""
        if self._change is not None:
            self._change.take_phase("start_ns")

    def finish(self, moved_bytes: int) -> None:
        """Ends the change under way, if there is one. Collective. Raises SystemExit in a
        rank that ends."""
        change, own = self._change, self.link
        if change is None:
            return
        change.take_phase("move_ns")
        self._worlds.settle(change.union)
        change.take_phase("resume_ns")
        self._change = None
        if change.union.ends:
            own.leave()
            self.link = unlinked()
            raise SystemExit(0)
        generation, size = change.union.welcome.generation, self.comm.size
        self._report(own, Result(generation, size, change.times, moved_bytes))

    def _report(self, own: Boundaries, result: Result) -> None:
        if self.comm.rank == 0:
            own.report(result)

    def close(self) -> None:
        """Ends this rank's part of the job. Collective."""
        self.finish(0)
        self.link.end_loop()
        self._worlds.close()


def _begin(environ: Mapping[str, str]) -> tuple[Boundaries, Worlds]:
    """Begins the job. Without the pages of all nodes it keeps its size."""
    comm = MPI.COMM_WORLD.Dup()
    try:
        own = link(environ, waited_counter())
    except CoschedError as error:  # the program runs all the same
        sys.stderr.write(f"cosched: the job keeps its size: {error}\n")
        own = None
    spots = comm.allgather(own and own.spot)
    ranks = [Rank(0, spot) for spot in spots if spot]
    if own is None or len(ranks) < comm.size:
        own, ranks = unlinked(waited_counter()), []
    own.enter(0, comm.rank)
    return own, Worlds(comm, ranks)
