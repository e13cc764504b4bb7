"""Moves arrays that are cut into blocks along one axis, one block a rank.

A move is given by the number of rows, along that axis, that each rank has before and after
it. Scattering, gathering and redistributing are moves. Each rank needs its old block, its
new block and a bounded number of pieces in MPI's own buffers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any

import numpy as np
from mpi4py import MPI
from msgspec import Struct

from cosched.core.errors import CoschedError

Array = np.ndarray[Any, np.dtype[Any]]
#: Returns how many of ``total`` rows each of ``size`` ranks gets.
Split = Callable[[int, int], Sequence[int]]

#: A message has at most so many bytes, or one row.
PIECE_BYTES = 4 << 20
#: Sends of a rank that are under way at once.
SENDS_AT_ONCE = 4
_TAG = 1


class BlocksDisagree(CoschedError):
    """The ranks gave blocks that do not fit together. All ranks raise it."""


class Form(Struct, frozen=True):
    """Describes a rank's block to the other ranks."""

    shape: tuple[int, ...]  #: of the block
    axis: int  #: along which the array is cut
    dtype: np.dtype[Any]  #: of its elements
    by_column: bool  #: Fortran's order of memory

    def empty(self, rows: int) -> Array:
        """Returns a new block of this form with so many rows."""
        shape = (*self.shape[: self.axis], rows, *self.shape[self.axis + 1 :])
        return np.empty(shape, self.dtype, order="F" if self.by_column else "C")


#: What a rank says of its block: its form, that it has none, or what is wrong.
Described = Form | None | str


class Move(Struct, frozen=True):
    """A move of one array, the same in all ranks of a communicator."""

    form: Form  #: of the blocks
    before: tuple[range, ...]  #: the rows of each rank
    after: tuple[range, ...]  #: the same after it

    @property
    def moved_bytes(self) -> int:
        """The bytes that go from one process to another."""
        kept = sum(
            len(_common(old, new)) for old, new in zip(self.before, self.after, strict=True)
        )
        return (sum(map(len, self.before)) - kept) * _row_bytes(self.form)


def even(total: int, size: int) -> list[int]:
    """Returns blocks that differ by one row at most, the larger ones first."""
    rows, more = divmod(total, size)
    return [rows + (rank < more) for rank in range(size)]


def describe(block: object, axis: object) -> Described:
    """Describes the block of this rank; never raises."""
    if block is None:
        return None
    if not isinstance(block, np.ndarray):
        return f"a block is a NumPy array, not {type(block).__name__}"
    if isinstance(block, np.ma.MaskedArray):
        return "a masked array cannot be moved: give its data and its mask"
    if block.dtype.hasobject:
        return f"a block of Python objects ({block.dtype}) cannot be moved"
    if not isinstance(axis, int) or not -block.ndim <= axis < block.ndim:
        return f"axis {axis} does not exist in an array of {block.ndim} dimensions"
    by_column = block.flags.f_contiguous and not block.flags.c_contiguous
    return Form(block.shape, axis % block.ndim, block.dtype, by_column)


def agree(described: Sequence[Described], what: str) -> tuple[Form, list[int]]:
    """Returns the form of the first rank's block, and the rows of each rank. Raises
    BlocksDisagree, in all ranks if they have the same descriptions. what: names the
    block."""
    first: Form | None = None
    counts = []
    for rank, each in enumerate(described):
        if isinstance(each, str):
            raise BlocksDisagree(f"{what}: rank {rank}: {each}")
        if each is not None:
            if first is None:
                first, first_rank = each, rank
            for name, mine, other in zip(
                ("shape", "axis", "dtype"), _essence(first), _essence(each), strict=True
            ):
                if mine != other:
                    raise BlocksDisagree(
                        f"{what}: {name} {other} in rank {rank}, "
                        f"but {mine} in rank {first_rank}"
                    )
        counts.append(0 if each is None else each.shape[each.axis])
    if first is None:
        raise BlocksDisagree(f"{what}: no rank has a block")
    return first, counts


def _essence(form: Form) -> tuple[object, ...]:
    """Returns what all blocks have in common; the rows are left out of the shape."""
    shape: list[int | str] = list(form.shape)
    shape[form.axis] = "any"
    return tuple(shape), form.axis, form.dtype


def planned(
    form: Form, counts: Sequence[int], split: Split, order: Sequence[int], what: str
) -> Move:
    """Returns the move to new blocks. counts: the rows of each rank before. order: the
    ranks that have blocks after it, in order. Raises BlocksDisagree if the split is
    wrong."""
    total = sum(counts)
    wanted = list(split(total, len(order)))
    right = len(wanted) == len(order) and all(
        isinstance(rows, (int, np.integer)) and rows >= 0 for rows in wanted
    )
    if not right or sum(wanted) != total:
        raise BlocksDisagree(
            f"{what}: the split of {total} rows among {len(order)} ranks is {wanted}"
        )
    after = [range(0)] * len(counts)
    for rank, rows in zip(order, _ranges(wanted), strict=True):
        after[rank] = rows
    return Move(form, tuple(_ranges(counts)), tuple(after))


def _ranges(counts: Sequence[int]) -> list[range]:
    ends = list(accumulate(counts, initial=0))
    return [range(ends[i], ends[i + 1]) for i in range(len(counts))]


def _common(one: range, other: range) -> range:
    return range(max(one.start, other.start), min(one.stop, other.stop))


def _row_bytes(form: Form) -> int:
    others = (size for axis, size in enumerate(form.shape) if axis != form.axis)
    return math.prod(others) * form.dtype.itemsize


class _Rows:
    """Messages of the rows of one block. first: the number of its first row."""

    def __init__(self, block: Array, form: Form, first: int) -> None:
        shape = block.shape[::-1] if form.by_column else block.shape
        axis = len(shape) - 1 - form.axis if form.by_column else form.axis
        self.flat = (block.T if form.by_column else block).reshape(-1).view(np.uint8)
        self._outer = math.prod(shape[:axis])
        self._stride = math.prod(shape[axis:]) * block.itemsize
        self._row = math.prod(shape[axis + 1 :]) * block.itemsize
        self._first = first

    def message(self, rows: range) -> tuple[Any, MPI.Datatype]:
        """Returns a buffer for MPI, and its datatype, which the caller frees."""
        row = MPI.BYTE.Create_contiguous(self._row)
        kind = row.Create_hvector(self._outer, len(rows), self._stride).Commit()
        row.Free()
        start = (rows.start - self._first) * self._row
        return [self.flat[start:], 1, kind], kind

    def copy_to(self, other: _Rows, rows: range) -> None:
        """Copies rows into another block of this process."""
        size = len(rows) * self._row
        here = (rows.start - self._first) * self._row
        there = (rows.start - other._first) * self._row
        for _ in range(self._outer if size else 0):
            other.flat[there : there + size] = self.flat[here : here + size]
            here, there = here + self._stride, there + other._stride


def move(comm: MPI.Intracomm, block: Array | None, plan: Move) -> Array:
    """Carries a move out; returns the new block of this rank. Collective."""
    form, rank = plan.form, comm.rank
    mine, wanted = plan.before[rank], plan.after[rank]
    fresh = form.empty(len(wanted))
    row_bytes = _row_bytes(form)
    if not row_bytes:
        return fresh
    old = form.empty(0) if block is None else block
    # A block in another order of memory than that of the first rank is copied.
    old = np.asfortranarray(old) if form.by_column else np.ascontiguousarray(old)
    source, target = _Rows(old, form, mine.start), _Rows(fresh, form, wanted.start)
    rows = max(1, PIECE_BYTES // row_bytes)
    receives = []
    for peer, theirs in enumerate(plan.before):
        if peer != rank:
            for piece in _pieces(_common(theirs, wanted), rows):
                buffer, kind = target.message(piece)
                receives.append(comm.Irecv(buffer, peer, _TAG))
                kind.Free()
    source.copy_to(target, _common(mine, wanted))
    _send_all(comm, source, plan, rows)
    MPI.Request.Waitall(receives)
    return fresh


def _send_all(comm: MPI.Intracomm, source: _Rows, plan: Move, rows: int) -> None:
    """Sends the rows that other ranks need. Each has posted its receives, or will without
    waiting for a send, so the bound on sends at once cannot block."""
    mine = plan.before[comm.rank]
    under_way: list[MPI.Request] = []
    for peer, wanted in enumerate(plan.after):
        if peer == comm.rank:
            continue
        for piece in _pieces(_common(mine, wanted), rows):
            if len(under_way) == SENDS_AT_ONCE:
                under_way.pop(MPI.Request.Waitany(under_way))
            buffer, kind = source.message(piece)
            under_way.append(comm.Isend(buffer, peer, _TAG))
            kind.Free()
    MPI.Request.Waitall(under_way)


def _pieces(rows: range, most: int) -> list[range]:
    return [rows[start : start + most] for start in range(0, len(rows), most)]
