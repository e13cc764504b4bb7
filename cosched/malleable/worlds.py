"""Makes and ends ranks: a change of the job's communicator at a boundary.

Ranks that were started together are a world (``cosched/core/cluster/resizing/plan.py``). A
change first makes the *union*: a communicator of all ranks before and after it, in which
data moves. Then the ranks that end leave it.

MPI connects worlds by intercommunicators. A world that ends is disconnected from all
others, or its MPI_Finalize could wait for them. Open MPI waits for ever in
MPI_Comm_disconnect of a merged communicator, so only intercommunicators are disconnected;
the others are freed.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from itertools import groupby
from typing import Any, cast

from mpi4py import MPI
from msgspec import Struct
from msgspec.structs import replace

from cosched.core.cluster.resizing.change import OPTION
from cosched.core.cluster.resizing.page_records import Times
from cosched.core.cluster.resizing.plan import Plan, Rank, Spot
from cosched.core.decoding import parse_integer
from cosched.core.errors import CoschedError
from cosched.malleable.ucx import silence_warnings


class Bond(Struct, frozen=True):
    """An intercommunicator, and the worlds of its ranks."""

    comm: MPI.Intercomm  #: between old ranks and a new world
    worlds: frozenset[int]  #: of all its ranks


class Welcome(Struct, frozen=True):
    """What the ranks of a new world are given to know."""

    generation: int  #: of the change
    step: int  #: its boundary
    plan: Plan  #: its ranks
    times: Times  #: its phases so far
    #: What calls before the loop have returned to the other ranks, in order.
    prepared: tuple[Any, ...]


class Union(Struct, frozen=True):
    """All ranks before and after a change, between its begin and its end."""

    comm: MPI.Intracomm  #: of all of them
    welcome: Welcome  #: what they know of the change
    after: MPI.Intracomm | None  #: the job's next communicator; None in a rank that ends

    @property
    def plan(self) -> Plan:
        return self.welcome.plan

    @property
    def ends(self) -> bool:
        """Whether this rank ends."""
        return self.after is None


class Worlds:
    """The communicator of the job, its ranks, and the bonds of this rank."""

    def __init__(self, comm: MPI.Intracomm, ranks: Sequence[Rank]) -> None:
        self.comm = comm
        self.ranks = tuple(ranks)
        self._bonds: list[Bond] = []
        self._was_bound = False

    def spawn(self, plan: Plan, generation: int) -> MPI.Intercomm | None:
        """Starts the ranks of a new world; returns None if the plan has none. Collective.
        Raises MPI.Exception, and then nothing has changed."""
        if not plan.spawned:
            return None
        counts, infos = [], []
        for host, spots in groupby(plan.spawned, key=lambda spot: spot.host):
            counts.append(len(list(spots)))
            infos.append(_info(host))
        count = len(counts)
        command, *arguments = _own_command(generation)
        try:
            return self.comm.Spawn_multiple(
                [command] * count, [arguments] * count, counts, infos
            )
        finally:
            for info in infos:
                if info != MPI.INFO_NULL:
                    info.Free()

    def unite(self, bond: MPI.Intercomm | None, welcome: Welcome) -> Union:
        """Makes the union. bond: to the new world. Collective over the old ranks, while the
        new ones call ``join``. Raises CoschedError in all ranks if a new one cannot join;
        then nothing has changed."""
        if bond is None:
            return _union(self.comm, welcome)
        comm = bond.Merge(high=False)
        comm.bcast(welcome)
        agreed = _with_spots(bond, comm, welcome, None)
        worlds = {rank.world for rank in (*self.ranks, *welcome.plan.ranks)}
        self._bonds.append(Bond(bond, frozenset(worlds)))
        return _union(comm, agreed)

    @classmethod
    def join(cls, spot: Spot | str, bond: MPI.Intercomm) -> tuple[Worlds, Union]:
        """Joins the job, in a rank of its new world. spot: where it runs, or why it cannot
        join. Collective. Raises CoschedError as ``unite`` does."""
        comm = bond.Merge(high=True)
        welcome: Welcome = comm.bcast(None)
        union = _union(comm, _with_spots(bond, comm, welcome, spot))
        assert union.after is not None
        worlds = cls(union.after, union.plan.ranks)
        everyone = frozenset(rank.world for rank in union.plan.ranks)
        worlds._bonds.append(Bond(bond, everyone | union.plan.ended_worlds))
        return worlds, union

    def settle(self, union: Union) -> None:
        """Ends a change: the job has its next communicator, and worlds that end are
        disconnected. Collective over the union."""
        if union.comm != self.comm:
            union.comm.Free()
        if union.after != self.comm:  # a rank that has joined has no earlier one
            self.comm.Free()
        if union.after is not None:
            self.comm, self.ranks = union.after, union.plan.ranks
        ended = union.plan.ended_worlds
        if union.ends:
            silence_warnings(os.environ)
        for bond in self._bonds:
            if bond.worlds & ended:
                bond.comm.Disconnect()
        self._was_bound = self._was_bound or bool(self._bonds)
        self._bonds = [bond for bond in self._bonds if not bond.worlds & ended]

    def close(self) -> None:
        """Frees the communicator and disconnects all worlds. Collective."""
        if self._was_bound:
            silence_warnings(os.environ)
        self.comm.Free()
        for bond in self._bonds:
            bond.comm.Disconnect()
        self._bonds = []


def _union(comm: MPI.Intracomm, welcome: Welcome) -> Union:
    order = welcome.plan.order
    stays = comm.rank in order
    key = order.index(comm.rank) if stays else 0
    after = comm.Split(0 if stays else MPI.UNDEFINED, key)
    return Union(comm, welcome, cast(MPI.Intracomm, after) if stays else None)


def _with_spots(
    bond: MPI.Intercomm, comm: MPI.Intracomm, welcome: Welcome, spot: Spot | str | None
) -> Welcome:
    """Returns the welcome with the places where the new ranks run in fact. If one of them
    cannot join, disconnects the worlds, and raises CoschedError with its reason."""
    spots: list[Spot | None] = []
    for each in comm.allgather(spot):
        if isinstance(each, str):
            comm.Free()
            bond.Disconnect()
            raise CoschedError(each)
        spots.append(each)
    plan = welcome.plan
    ranks = tuple(
        Rank(rank.world, spots[number] or rank.spot)
        for number, rank in zip(plan.order, plan.ranks, strict=True)
    )
    return replace(welcome, plan=replace(plan, ranks=ranks))


def _info(host: str) -> MPI.Info:
    if not host:
        return MPI.INFO_NULL
    info = MPI.Info.Create()
    info.Set("host", host)
    return info


def _own_command(generation: int) -> list[str]:
    """Returns the command of this process, for a new world."""
    mark = f"{OPTION}="
    words = list(sys.orig_argv[1:])
    for place in range(len(words) - 1):
        if words[place] == "-X" and words[place + 1].startswith(mark):
            del words[place : place + 2]
            break
    return [sys.executable, "-X", f"{mark}{generation}", *words]


def own_generation() -> int:
    """Returns the change that made this process; 0 if it began the job."""
    return parse_integer(str(sys._xoptions.get(OPTION, 0)), f"-X {OPTION}", 0, 1 << 62)
