"""Waits for and tests several requests: the any, all and some forms.

Each blocking form is the non-blocking one in a loop with pauses (``Task.wait``). The
requests may be any mixture of the wrapper's and of mpi4py's own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from mpi4py import MPI as mpi

from mpi_shim.wrapper.requests.completion import (
    CleanUp,
    Statuses,
    adjust,
    complete_all,
    complete_some,
    padded,
)
from mpi_shim.wrapper.task.link import task


class MultipleRequests(mpi.Request):
    """Class methods of Request: a wait pauses between two tests, and each request that
    completes does the work that is left."""

    # Any of several

    @classmethod
    def Waitany(
        cls, requests: Sequence[mpi.Request], status: mpi.Status | None = None
    ) -> int:
        return cls.waitany(requests, status)[0]

    @classmethod
    def Testany(
        cls, requests: Sequence[mpi.Request], status: mpi.Status | None = None
    ) -> tuple[int, bool]:
        return cls.testany(requests, status)[:2]

    @classmethod
    def waitany(
        cls, requests: Sequence[mpi.Request], status: mpi.Status | None = None
    ) -> tuple[int, Any]:
        mine = mpi.Status() if status is None else status

        def poll() -> tuple[int, Any] | None:
            index, done, obj = mpi.Request.testany(requests, mine)
            return (index, obj) if done else None

        with CleanUp(*requests):
            found = task.wait(poll, lambda: mpi.Request.waitany(requests, mine))
        assert found is not None
        index, obj = found
        if index == mpi.UNDEFINED:
            return found
        return index, complete_all([requests[index]], [mine], [obj])[0]

    @classmethod
    def testany(
        cls, requests: Sequence[mpi.Request], status: mpi.Status | None = None
    ) -> tuple[int, bool, Any | None]:
        mine = mpi.Status() if status is None else status
        with CleanUp(*requests):
            index, done, obj = mpi.Request.testany(requests, mine)
        if not done:
            task.looked()
        elif index != mpi.UNDEFINED:
            obj = complete_all([requests[index]], [mine], [obj])[0]
        return index, done, obj

    @classmethod
    def Get_status_any(
        cls, requests: Sequence[mpi.Request], status: mpi.Status | None = None
    ) -> tuple[int, bool]:
        index, done = mpi.Request.Get_status_any(requests, status)
        if not done:
            task.looked()
        if done and status is not None and index != mpi.UNDEFINED:
            adjust(requests[index], status)
        return index, done

    get_status_any = Get_status_any

    # All of several

    @classmethod
    def Waitall(
        cls, requests: Sequence[mpi.Request], statuses: Statuses | None = None
    ) -> Literal[True]:
        cls.waitall(requests, statuses)
        return True

    @classmethod
    def Testall(
        cls, requests: Sequence[mpi.Request], statuses: Statuses | None = None
    ) -> bool:
        return cls.testall(requests, statuses)[0]

    @classmethod
    def waitall(
        cls, requests: Sequence[mpi.Request], statuses: Statuses | None = None
    ) -> list[Any]:
        mine = padded(statuses, len(requests))

        def poll() -> tuple[list[Any]] | None:
            done, objects = mpi.Request.testall(requests, mine)
            return (objects or [],) if done else None

        with CleanUp(*requests, statuses=mine, caller=statuses):
            found = task.wait(poll, lambda: (mpi.Request.waitall(requests, mine),))
        assert found is not None
        return complete_all(requests, mine, found[0])

    @classmethod
    def testall(
        cls, requests: Sequence[mpi.Request], statuses: Statuses | None = None
    ) -> tuple[bool, list[Any] | None]:
        mine = padded(statuses, len(requests))
        with CleanUp(*requests, statuses=mine, caller=statuses):
            done, objects = mpi.Request.testall(requests, mine)
        if not done:
            task.looked()
            return False, None
        return True, complete_all(requests, mine, objects or [])

    @classmethod
    def Get_status_all(
        cls, requests: Sequence[mpi.Request], statuses: Statuses | None = None
    ) -> bool:
        done = task.look(lambda: mpi.Request.Get_status_all(requests, statuses))
        if done and statuses is not None:
            for request, status in zip(requests, statuses, strict=False):
                adjust(request, status)
        return done

    get_status_all = Get_status_all

    # Some of several

    @classmethod
    def Waitsome(
        cls, requests: Sequence[mpi.Request], statuses: Statuses | None = None
    ) -> list[int] | None:
        return cls.waitsome(requests, statuses)[0]

    @classmethod
    def Testsome(
        cls, requests: Sequence[mpi.Request], statuses: Statuses | None = None
    ) -> list[int] | None:
        return cls.testsome(requests, statuses)[0]

    @classmethod
    def waitsome(
        cls, requests: Sequence[mpi.Request], statuses: Statuses | None = None
    ) -> tuple[list[int] | None, list[Any] | None]:
        mine = padded(statuses, len(requests))

        def poll() -> tuple[list[int] | None, list[Any] | None] | None:
            indices, objects = mpi.Request.testsome(requests, mine)
            # None: no request is active; []: none has completed yet.
            return None if indices == [] else (indices, objects)

        with CleanUp(*requests):
            found = task.wait(poll, lambda: mpi.Request.waitsome(requests, mine))
        assert found is not None
        return complete_some(requests, mine, statuses, *found)

    @classmethod
    def testsome(
        cls, requests: Sequence[mpi.Request], statuses: Statuses | None = None
    ) -> tuple[list[int] | None, list[Any] | None]:
        mine = padded(statuses, len(requests))
        with CleanUp(*requests):
            indices, objects = mpi.Request.testsome(requests, mine)
        if indices == []:
            task.looked()
        return complete_some(requests, mine, statuses, indices, objects)

    @classmethod
    def Get_status_some(
        cls, requests: Sequence[mpi.Request], statuses: Statuses | None = None
    ) -> list[int] | None:
        indices = mpi.Request.Get_status_some(requests, statuses)
        if indices == []:
            task.looked()
        if statuses is not None:
            for index, status in zip(indices or [], statuses, strict=False):
                adjust(requests[index], status)
        return indices

    get_status_some = Get_status_some
