"""Answers users and operators of a coupled domain: which jobs wait for mates, and why."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import msgspec

from cosched.cluster.answers import MateInfo, ReloadInfo
from cosched.cluster.coupling.pairs import Pairs
from cosched.cluster.desk import Desk, Person
from cosched.cluster.submission import LONGEST_REQUEST
from cosched.core.decoding import JsonDecoder, Malformed
from cosched.core.errors import CoschedError


class Window:
    """A socket at ``path`` for requests about ``pairs``. stop: ends the controller.
    reload: reads its settings again. log: takes one line about a request that fails."""

    def __init__(
        self,
        path: Path,
        pairs: Pairs,
        stop: Callable[[], None],
        reload: Callable[[], ReloadInfo],
        log: Callable[[str], None],
    ) -> None:
        self._desk = Desk(path, lambda person: _Caller(self, person), log)
        self._pairs = pairs
        self._stop = stop
        self.reload = reload

    async def open(self) -> None:
        """Starts to listen."""
        await self._desk.open()

    async def close(self) -> None:
        """Stops listening."""
        await self._desk.close()

    def mates(self) -> list[MateInfo]:
        """Returns the jobs with mates that wait, by submission."""
        return self._pairs.waiting()

    def stop(self) -> None:
        """Ends the controller; the jobs stay in Slurm."""
        self._stop()


def _error(line: str) -> bytes:
    return msgspec.json.encode({"error": line})


class _Request(msgspec.Struct):
    do: str


_request: JsonDecoder[_Request] = JsonDecoder(_Request, "a request", LONGEST_REQUEST)


class _Caller:
    """One connection."""

    def __init__(self, window: Window, person: Person) -> None:
        self._window = window
        self._person = person

    async def answer(self, body: bytes) -> bytes:
        try:
            wanted = _request.decode(body).do
        except Malformed:
            wanted = ""
        if wanted == "mates":
            return msgspec.json.encode({"ok": self._window.mates()})
        if wanted in ("down", "reload"):
            return self._order(wanted)
        line = "this domain answers only mates, reload and down; Slurm has its jobs"
        return _error(line)

    def _order(self, wanted: str) -> bytes:
        if self._person.uid not in (0, os.geteuid()):
            return _error(f"only root and the controller's user may order {wanted}")
        if wanted == "down":
            self._window.stop()
            return b'{"ok": {"ended_jobs": []}}'
        try:
            return msgspec.json.encode({"ok": self._window.reload()})
        except CoschedError as error:
            return _error(str(error))

    def leave(self) -> None:
        """Nothing is kept for a connection."""
