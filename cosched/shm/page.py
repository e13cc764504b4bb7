"""Makes, reads and writes pages: the memory that a node's agent and the ranks of one
malleable job share. ``include/cosched/page.h`` has the layout and the rule of fences.

The page belongs to the job's user, and the user can write anything into it. An agent takes
its values as hints: it checks them, and a false value harms the user's own job only.
"""

from __future__ import annotations

import errno
import mmap
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cosched.core.cluster.resizing.page_records import (
    NO_BOUNDARY,
    Look,
    Pace,
    Phase,
    Result,
    Times,
    Wants,
)
from cosched.core.decoding import printable, shown_text
from cosched.core.errors import CoschedError
from cosched.shm._native import ffi, lib

_BYTES = int(ffi.sizeof("struct cosched_page"))


class Page:
    """A mapped page. Its agent makes it; ranks open it."""

    def __init__(self, descriptor: int) -> None:
        """Maps a file of the right size, and closes the descriptor."""
        try:
            self._map = mmap.mmap(descriptor, _BYTES)
        finally:
            os.close(descriptor)
        self._view = ffi.from_buffer(self._map)
        self.data: Any = ffi.cast("struct cosched_page *", self._view)

    @classmethod
    def create(cls, path: Path, place: int, host: str) -> Page:
        """Makes a page for this process's user. place: of the node in the job. host: as
        MPI_Comm_spawn takes it; empty: any node. Raises OSError."""
        name = os.fsencode(host)
        if len(name) >= lib.COSCHED_PAGE_HOST_BYTES:
            raise OSError(errno.ENAMETOOLONG, os.strerror(errno.ENAMETOOLONG), host)
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        descriptor = os.open(path, flags, 0o600)
        os.posix_fallocate(descriptor, 0, _BYTES)  # a full disk is an error here, not later
        page = cls(descriptor)
        lib.cosched_page_publish(page.data, place, name)
        return page

    @classmethod
    def private(cls) -> Page:
        """Makes a page that no agent has. Raises OSError."""
        descriptor = os.memfd_create("cosched-page", os.MFD_CLOEXEC)
        os.truncate(descriptor, _BYTES)
        page = cls(descriptor)
        lib.cosched_page_publish(page.data, 0, b"")
        return page

    @classmethod
    def open(cls, path: Path) -> Page:
        """Maps the page of another process. Raises CoschedError if it is none, or is of
        another version."""
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
        except OSError as error:
            raise CoschedError(f"page {path}: {error.strerror}") from None
        found = os.fstat(descriptor)
        if found.st_size < _BYTES or found.st_uid not in (0, os.geteuid()):
            os.close(descriptor)
            raise CoschedError(f"page {path}: is not the page of a job of this user")
        page = cls(descriptor)
        checked = lib.cosched_page_check(page.data, found.st_size)
        if checked == -errno.EPROTONOSUPPORT:
            raise CoschedError(
                f"page {path}: made by another version of cosched; use that of the node's "
                "agent (cosched --version)"
            )
        if checked:
            raise CoschedError(f"page {path}: is not a page of cosched")
        return page

    @property
    def place(self) -> int:
        """The node's place in the job."""
        return int(self.data.header.place)

    @property
    def host(self) -> str:
        """The node's name, as MPI_Comm_spawn takes it; empty: any node."""
        return os.fsdecode(ffi.string(self.data.header.host))

    # --- for the agent --------------------------------------------------------------------

    def give_order(self, generation: int, order: bytes) -> None:
        """Writes the change that the next proposal is about. Raises CoschedError if it is
        too large."""
        if lib.cosched_page_give_order(self.data, generation, order, len(order)):
            raise CoschedError(f"order {generation}: {len(order)} bytes are too many")

    def store_word(self, boundary: int, phase: Phase) -> None:
        """Stores a proposal, a commit or none, and wakes the ranks that wait. What the
        ranks stored before is visible to a ``look`` after it."""
        lib.cosched_page_store_word(self.data, boundary, phase)

    def look(self, boundary: int = NO_BOUNDARY) -> Look:
        """Returns what the ranks do. boundary: the one in question."""
        look = ffi.new("struct cosched_page_look *")
        lib.cosched_page_scan(self.data, boundary, look)
        return Look(
            min(int(look.largest), NO_BOUNDARY - 1),
            int(look.joining),
            int(look.live),
            int(look.leaving),
            int(look.ended),
            bool(look.missed),
        )

    def processes(self) -> set[int]:
        """Returns the processes of ranks whose loop has not ended, as they wrote them."""
        return {
            int(slot.pid)
            for slot in self.data.slots
            if slot.pid and slot.state != lib.COSCHED_PAGE_ENDED
        }

    def forget(self, pid: int) -> None:
        """Frees the slots of a process that has ended."""
        lib.cosched_page_forget(self.data, pid)

    def wants(self) -> Wants:
        """Returns what the job's rank 0 wrote last on this node; all 0 if it never was
        here. It is out of date once rank 0 is on another node."""
        wants = self.data.wants
        return Wants(
            int(wants.minimum), int(wants.ideal), int(wants.wanted), int(wants.asked)
        )

    def prediction(self) -> tuple[tuple[int, int], ...]:
        """Returns the times of an iteration, in ns, that rank 0 predicted last on this
        node, by numbers of nodes. While it is written they may be of two predictions."""
        found = self.data.prediction
        count = min(int(found.count), lib.COSCHED_PAGE_POINTS)
        return tuple((int(found.nodes[i]), int(found.exec_ns[i])) for i in range(count))

    def result(self) -> Result | None:
        """Returns the last change that a rank 0 on this node reported."""
        generation = int(lib.cosched_page_last_result(self.data))
        if not generation:
            return None
        found = self.data.result
        times = Times(*(int(getattr(found, name)) for name in Times.__struct_fields__))
        refused = ""
        if found.outcome != lib.COSCHED_PAGE_DONE:
            reason = ffi.string(found.reason, len(found.reason))
            refused = printable(shown_text(reason)) or "refused"
        return Result(generation, int(found.ranks), times, int(found.moved_bytes), refused)

    def paces(self) -> dict[int, Pace]:
        """Returns the pace of each rank at work on this node."""
        return {
            int(slot.rank): Pace(int(slot.steps), int(slot.exec_ns), int(slot.comm_ns))
            for slot in self.data.slots
            if slot.state == lib.COSCHED_PAGE_LIVE
        }

    # --- for a rank -----------------------------------------------------------------------

    def join(self, pid: int) -> int:
        """Takes a slot for a rank, and returns its number. Raises CoschedError if there is
        none left."""
        slot = int(lib.cosched_page_join(self.data, pid))
        if slot < 0:
            raise CoschedError(
                f"a node has {lib.COSCHED_PAGE_SLOTS} ranks of the job, which is the most"
            )
        return slot

    def pace(self, slot: int) -> Pace | None:
        """Returns the pace of a rank; None if it is in no iteration."""
        found = self.data.slots[slot]
        if not found.steps:
            return None
        return Pace(int(found.steps), int(found.exec_ns), int(found.comm_ns))

    def order(self) -> bytes:
        """Returns the change that the proposal is about."""
        order = self.data.order
        size = min(int(order.bytes), lib.COSCHED_PAGE_ORDER_BYTES)
        return bytes(ffi.buffer(order.data, size))

    def want(self, minimum: int, ideal: int) -> None:
        """Writes what the job wants, in nodes. ideal: 0 if it is not known."""
        self.data.wants.ideal = ideal
        self.data.wants.minimum = minimum

    def predict(self, points: Sequence[tuple[int, int]]) -> None:
        """Writes a prediction; without points there is none."""
        prediction = ffi.new("struct cosched_page_prediction *")
        prediction.count = len(points)
        for place, (nodes, exec_ns) in enumerate(points):
            prediction.nodes[place], prediction.exec_ns[place] = nodes, exec_ns
        lib.cosched_page_predict(self.data, prediction)

    def report(self, result: Result) -> None:
        """Writes the result of a change."""
        record = self.data.result
        for name in Times.__struct_fields__:
            setattr(record, name, getattr(result.times, name))
        record.ranks, record.moved_bytes = result.ranks, result.moved_bytes
        record.outcome = (
            lib.COSCHED_PAGE_REFUSED if result.refused else lib.COSCHED_PAGE_DONE
        )
        reason = os.fsencode(result.refused)[: len(record.reason) - 1]
        record.reason = reason + bytes(1)
        lib.cosched_page_report(self.data, result.generation)
