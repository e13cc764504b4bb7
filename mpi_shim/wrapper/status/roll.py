"""The roll call: rank 0 reports the nodes of the job that are not coscheduled, in one line.

``cosched/roll.h`` has what all ranks agree on; the C interposer does the same
(``interposer/status/rollcall.c``), and both kinds of ranks can be in one job.
"""

from __future__ import annotations

import time
from array import array
from typing import Any

from mpi4py import MPI as mpi

from cosched.shm._native import ffi, lib
from mpi_shim.wrapper.status.shadow import Shadow, completes
from mpi_shim.wrapper.task.environment import Environment, text
from mpi_shim.wrapper.task.link import say, warn

_STDERR = 2
BYTES = ffi.sizeof("struct cosched_answer")


class _Call:
    """One roll call. It may be pending when the limit of MPI.Init passes, and then ends
    before MPI does: all ranks make the same calls in the same order."""

    def __init__(
        self, shadow: Shadow, environment: Environment, presence: int, *, absent: bool
    ) -> None:
        self.is_over = False
        vote = lib.COSCHED_VOTE_GATHER if absent else lib.COSCHED_VOTE_PRESENT
        self._votes = array("i", [vote])
        self._own: Any = ffi.new("struct cosched_answer *")
        lib.cosched_roll_answer(self._own, environment.data.node, presence)
        self._comm = shadow.comm if shadow.has_joined else None
        self._is_first = mpi.COMM_WORLD.Get_rank() == 0
        self._is_silent = environment.needs_none
        self._requests: list[Any] = []
        self._answers = bytearray()
        if self._comm is not None:
            self._requests = [self._comm.Iallreduce(mpi.IN_PLACE, self._votes, mpi.MIN)]

    @property
    def finds_absence(self) -> bool:
        return bool(self._votes[0] == lib.COSCHED_VOTE_GATHER)

    def advance(self, limit_s: float | None) -> bool:
        """Returns whether the call is over within the limit; rank 0 reports at its end."""
        if self.is_over:
            return True
        while self._requests:
            if not completes(self._requests[-1], limit_s):
                return False
            if len(self._requests) == 2 or not self.finds_absence:
                break
            assert self._comm is not None
            size = self._comm.Get_size()
            self._answers = bytearray(BYTES * size if self._is_first else 0)
            received = [self._answers, mpi.BYTE] if self._is_first else None
            own = [ffi.buffer(self._own), mpi.BYTE]
            self._requests.append(self._comm.Igather(own, received, 0))
        self.is_over = True
        if self._is_first and self.finds_absence and not self._is_silent:
            say(self._line())
        return True

    def _line(self) -> str:
        """Returns what the ranks answered; without the others, about this node."""
        line = ffi.new("char[]", lib.COSCHED_ROLL_LINE_BYTES)
        if not self._answers:
            lib.cosched_roll_line(line, self._own, 1)
        else:
            answers = ffi.from_buffer("struct cosched_answer[]", self._answers)
            lib.cosched_roll_line(line, answers, len(answers))
        return text(line)


class Roll:
    """The roll calls of a job: at its start, and before its end."""

    def __init__(self, shadow: Shadow, environment: Environment) -> None:
        self._shadow = shadow
        self._environment = environment
        self._at_start: _Call | None = None

    def call(self, presence: int) -> None:
        """Takes this rank's presence, after its registration or as it begins to wait for
        memory. Collective; a second call does nothing. With COSCHED_REQUIRE=all it ends the
        job if a node is absent."""
        if self._at_start is not None:
            return
        call = self._at_start = self._begin(presence, presence != lib.COSCHED_PRESENT)
        # All ranks that have joined take part, so a job that needs the answer waits for it.
        limit_s = None if self._environment.needs_all else self._shadow.join_s
        if not call.advance(limit_s):
            return
        if self._environment.needs_all and call.finds_absence:
            self._end_job()

    def close(self, presence: int, limit_s: float | None = None) -> bool:
        """Reports the nodes whose daemon has ended since, before MPI ends. Collective.
        Returns False if the others did not take part within ``limit_s``."""
        if self._at_start is None:  # it joined late
            self._at_start = self._begin(presence, presence != lib.COSCHED_PRESENT)
        if not self._at_start.advance(limit_s):
            return False
        return self._begin(presence, presence == lib.COSCHED_LEFT).advance(limit_s)

    def _begin(self, presence: int, absent: bool) -> _Call:
        return _Call(self._shadow, self._environment, presence, absent=absent)

    def _end_job(self) -> None:
        """One rank ends the job; the others wait for that end."""
        if self._shadow.has_joined and mpi.COMM_WORLD.Get_rank() != 0:
            completes(self._shadow.comm.Ibarrier(), None)
        warn("the job needs a daemon on each of its nodes (COSCHED_REQUIRE=all)")
        lib.cosched_roll_await_reader(_STDERR)
        mpi.COMM_WORLD.Abort(1)
        time.sleep(lib.COSCHED_ROLL_END_S)
