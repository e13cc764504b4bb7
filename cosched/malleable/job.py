"""Gives a malleable program its job: the loop, the communicator, the arrays.

All ranks call the methods in the same order, unless a method says otherwise.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from types import TracebackType
from typing import Any, ClassVar, TypeVar

from mpi4py import MPI

from cosched.core.errors import CoschedError
from cosched.core.units import NS_PER_S
from cosched.malleable import blocks
from cosched.malleable.blocks import Array, BlocksDisagree, Form, Split, even
from cosched.malleable.membership import Membership
from cosched.malleable.prediction import Predict, ask

T = TypeVar("T")

NODES_MOST = 1 << 20


class Misuse(CoschedError):
    """The program used the job wrongly; the line says what to do."""


class Job:
    """A malleable job. Without an agent of cosched it is an MPI job of fixed size.

    minimum, ideal: the least and the best number of nodes; ideal may stay open. split:
    returns the rows of each rank's block; it must return the same in all ranks. predict:
    returns the time of an iteration with a number of nodes, in seconds, for the queue; rank
    0 calls it at the begin and after each change. Raises Misuse.

    If the program does not catch a Misuse or a BlocksDisagree, Python writes one line for
    it and ends with status 1, as for other errors.

    ``resized``: whether this iteration begins with a change of the size.
    """

    _used: ClassVar[bool] = False  # a process has one job, as it has one MPI_Init

    def __init__(
        self,
        minimum: int = 1,
        ideal: int | None = None,
        *,
        split: Split = even,
        predict: Predict | None = None,
    ) -> None:
        sys.excepthook = partial(_show_error, sys.excepthook)
        _check(minimum, ideal)
        if Job._used:
            raise Misuse("this program has made its malleable.Job already: use that one")
        Job._used = True
        self._resources = (minimum, ideal)
        self._split = split
        self._predict = predict
        self.resized = False
        self._looped = self._closed = False
        self._ours = Membership(os.environ)
        #: What calls before the loop have returned; a rank that joined takes it from there.
        self._prepared = list(self._ours.prepared)
        self._taken = 0
        self._want()

    def __enter__(self) -> Job:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Ends this rank's part of the job, if all ranks come here."""
        if error is None or isinstance(error, BlocksDisagree):
            self.close()
        elif not self._closed:
            self._closed = True
            self._ours.link.end_loop()

    def close(self) -> None:
        """Ends this rank's part of the job, as the end of ``with`` does, for programs
        without one. Frees ``comm``. Later calls do nothing."""
        if not self._closed:
            self._closed = True
            self._ours.close()

    # --- facts ----------------------------------------------------------------------------

    @property
    def comm(self) -> MPI.Intracomm:
        """The communicator of the job. It changes with the size. Between ``resized`` and
        ``redistribute`` the ranks do not have the same one. Free what you made of it,
        such as a Cartesian communicator, before ``redistribute``; make it again after
        it."""
        return self._ours.comm

    @property
    def rank(self) -> int:
        """The rank of this process in ``comm``."""
        return self.comm.rank

    @property
    def size(self) -> int:
        """The number of ranks in ``comm``."""
        return self.comm.size

    @property
    def joined(self) -> bool:
        """Whether a change has made this rank."""
        return self._ours.joined

    @property
    def resources(self) -> tuple[int, int | None]:
        """The least and the best number of nodes."""
        return self._resources

    @property
    def exec_time(self) -> float | None:
        """The mean time of this rank's iterations since the job has its size, in seconds;
        None before the first one has ended."""
        pace = self._ours.link.pace
        return pace.exec_ns / pace.steps / NS_PER_S if pace else None

    @property
    def exec_time_comm(self) -> float | None:
        """The part of ``exec_time`` in which this rank waited in MPI, in seconds; None
        without cosched's shim, which measures it."""
        own = self._ours.link
        pace = own.pace if own.measures_waits else None
        return pace.comm_ns / pace.steps / NS_PER_S if pace else None

    @property
    def exec_time_comp(self) -> float | None:
        """The rest of ``exec_time``, in seconds; None if ``exec_time_comm`` is None."""
        whole, waits = self.exec_time, self.exec_time_comm
        return None if whole is None or waits is None else whole - waits

    # --- the loop -------------------------------------------------------------------------

    def steps(self, count: int | None = None) -> Iterator[int]:
        """Yields the numbers of iterations. Before each one the job's size may change. A
        rank that joined begins with the present iteration. count: None for no end."""
        if self._looped:
            raise Misuse("a malleable job has one loop: call steps() once")
        self._looped = True
        return self._walk(count)

    def _walk(self, count: int | None) -> Iterator[int]:
        ours, step = self._ours, self._ours.step
        if ours.joined:  # the others come to this boundary
            self.resized = True
            yield step
            step += 1
        while count is None or step < count:
            if ours.union is not None:
                raise Misuse(
                    f"the job was resized before iteration {step - 1}, which must call "
                    "redistribute()"
                )
            self.resized = ours.come_to(step, self._prepared)
            yield step
            step += 1
        ours.link.end_loop()

    def ask(self, nodes: int) -> None:
        """Asks for a number of nodes. The queue may give another one, or none. Rank 0's
        number counts, and no rank waits."""
        _check_nodes("nodes", nodes)
        if self.rank == 0:
            self._ours.link.ask(nodes)

    def _want(self) -> None:
        minimum, ideal = self._resources
        if self.rank == 0:
            self._ours.link.want(minimum, ideal or 0)
            self._ours.link.predict(self._prediction())

    def _prediction(self) -> tuple[tuple[int, int], ...]:
        """Returns what the program predicts. It is not asked again once that was wrong."""
        if self._predict is None:
            return ()
        found = ask(self._predict, *self._resources)
        if isinstance(found, str):
            self._predict = None
            sys.stderr.write(f"cosched: the program's prediction is ignored: {found}\n")
            return ()
        return found

    # --- arrays ---------------------------------------------------------------------------

    def bcast(self, value: T) -> T:
        """Returns rank 0's value. Before the loop, a rank that joined gets the value that
        the others got. In an iteration that begins with ``resized``, before
        ``redistribute``, it is the value of the rank 0 before the change, which may end."""
        if not self._looped and self._ours.joined:
            return MPI.pickle.loads(self._take("bcast"))  # type: ignore[no-any-return]
        union = self._ours.union
        value = (self.comm if union is None else union.comm).bcast(value)
        if not self._looped:
            # The program may change its own object in the loop.
            self._prepared.append(("bcast", MPI.pickle.dumps(value)))
        return value

    def scatter(self, rows: Array | None, axis: int = 0) -> Array:
        """Returns this rank's block of rank 0's array, before the loop; other ranks may
        give None. A rank that joined gets a block without rows. Raises BlocksDisagree."""
        if self._ours.joined:
            form: Form = self._take("scatter")
            return form.empty(0)
        if self._looped:
            raise Misuse("call scatter before steps(): ranks that join later need it")
        comm = self.comm
        described = comm.bcast(blocks.describe(rows, axis))
        form, counts = blocks.agree([described, *[None] * (comm.size - 1)], "scatter")
        self._prepared.append(("scatter", form))
        plan = blocks.planned(form, counts, self._split, range(comm.size), "scatter")
        return blocks.move(comm, rows if comm.rank == 0 else None, plan)

    def gather(self, block: Array, axis: int = 0) -> Array | None:
        """Returns the whole array in rank 0, and None elsewhere. Raises BlocksDisagree, and
        Misuse in an iteration that begins with ``resized``, before ``redistribute``."""
        if self._ours.union is not None:
            raise Misuse("the job was resized: call redistribute before gather")
        comm = self.comm
        described = comm.allgather(blocks.describe(block, axis))
        form, counts = blocks.agree(described, "gather")
        plan = blocks.planned(form, counts, even, [0], "gather")
        whole = blocks.move(comm, block, plan)
        return whole if comm.rank == 0 else None

    def redistribute(self, *arrays: Array | None, axis: int | Sequence[int] = 0) -> Any:
        """Ends a change of the size: returns this rank's new block of each array, and the
        array itself if it is one. A rank that the job gives back does not return: its
        program ends here with SystemExit(0). A rank that joined may give None for a block.

        Call it once, in each iteration that begins with ``resized``, with all arrays; at
        other times it evens the blocks out. axis: of all arrays, or one for each. Raises
        BlocksDisagree."""
        ours, union = self._ours, self._ours.union
        comm = self.comm if union is None else union.comm
        order = range(comm.size) if union is None else union.plan.order
        described = comm.allgather(_describe(arrays, axis))
        ours.note_start()
        moves = []
        for number, each in enumerate(_transpose(described)):
            what = f"redistribute: array {number}"
            form, counts = blocks.agree(each, what)
            moves.append(blocks.planned(form, counts, self._split, order, what))
        fresh = [
            blocks.move(comm, array, plan)
            for array, plan in zip(arrays, moves, strict=True)
        ]
        ours.finish(sum(plan.moved_bytes for plan in moves))
        self._want()
        return fresh[0] if len(fresh) == 1 else tuple(fresh)

    def _take(self, call: str) -> Any:
        """Returns what the others got from the same call before the loop."""
        if self._taken == len(self._prepared) or self._prepared[self._taken][0] != call:
            raise Misuse(
                f"call {self._taken + 1} before the loop is {call} in a rank that joined, "
                "but not in the other ranks"
            )
        self._taken += 1
        return self._prepared[self._taken - 1][1]


def _check(minimum: int, ideal: int | None) -> None:
    _check_nodes("minimum", minimum)
    if ideal is not None:
        _check_nodes("ideal", ideal)
        if ideal < minimum:
            raise Misuse(f"minimum {minimum} is more than ideal {ideal}")
    if MPI.Is_finalized():
        raise Misuse("MPI has been finalized: make the malleable.Job before that")
    if not MPI.Is_initialized():
        raise Misuse("MPI is not initialized: call MPI.Init() before malleable.Job")


def _check_nodes(name: str, nodes: int) -> None:
    if not isinstance(nodes, int) or not 1 <= nodes <= NODES_MOST:
        raise Misuse(f"{name} {nodes}: is not a number of nodes from 1 to {NODES_MOST}")


def _show_error(
    others: Callable[..., object],
    kind: type[BaseException],
    error: BaseException,
    trace: TracebackType | None,
) -> None:
    """Writes one line for an error of ours that the program does not catch. others: shows
    the rest."""
    if isinstance(error, CoschedError):
        sys.stderr.write(f"cosched: {error}\n")
    else:
        others(kind, error, trace)


def _describe(
    arrays: Sequence[Array | None], axis: int | Sequence[int]
) -> list[blocks.Described] | str:
    """Describes the arrays of this rank; never raises."""
    axes = list(axis) if isinstance(axis, Sequence) else [axis] * len(arrays)
    if len(axes) != len(arrays):
        return f"{len(arrays)} arrays have {len(axes)} axes"
    return [blocks.describe(*each) for each in zip(arrays, axes, strict=True)]


def _transpose(
    described: Sequence[list[blocks.Described] | str],
) -> list[tuple[blocks.Described, ...]]:
    """Returns the descriptions of each array. Raises BlocksDisagree, in all ranks."""
    found = []
    for rank, each in enumerate(described):
        if isinstance(each, str):
            raise BlocksDisagree(f"redistribute: rank {rank}: {each}")
        if len(each) != len(described[0]):
            raise BlocksDisagree(
                f"redistribute: {len(each)} arrays in rank {rank}, "
                f"but {len(described[0])} in rank 0"
            )
        found.append(each)
    return list(zip(*found, strict=True))
