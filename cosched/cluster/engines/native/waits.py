"""Keeps the requests that wait until a job runs, until a start of it is over, or until it
has ended."""

from __future__ import annotations

import asyncio

from cosched.cluster.store import Record, State

_Waiting = dict[int, list["asyncio.Future[Record]"]]


class Waits:
    """Requests that wait for jobs, by the jobs' numbers."""

    def __init__(self) -> None:
        self._for_start: _Waiting = {}
        self._for_rest: _Waiting = {}
        self._for_end: _Waiting = {}

    async def until_running(self, number: int) -> Record:
        """Returns the job once it runs or has ended."""
        return await _wait(self._for_start, number)

    async def until_at_rest(self, number: int) -> Record:
        """Returns the job once it waits again or has ended."""
        return await _wait(self._for_rest, number)

    async def until_ended(self, number: int) -> Record:
        """Returns the job once it has ended."""
        return await _wait(self._for_end, number)

    def note(self, record: Record) -> None:
        """Answers the requests that waited for the state that this job has now."""
        if record.state.over or record.state is State.RUNNING:
            _answer(self._for_start, record)
        if record.state not in (State.STARTING, State.RUNNING):
            _answer(self._for_rest, record)
        if record.state.over:
            _answer(self._for_end, record)


async def _wait(waiting: _Waiting, number: int) -> Record:
    future: asyncio.Future[Record] = asyncio.get_running_loop().create_future()
    waiting.setdefault(number, []).append(future)
    try:
        return await future
    finally:
        if future in waiting.get(number, ()):  # the user has left
            waiting[number].remove(future)


def _answer(waiting: _Waiting, record: Record) -> None:
    for future in waiting.pop(record.number, ()):
        if not future.done():
            future.set_result(record)
