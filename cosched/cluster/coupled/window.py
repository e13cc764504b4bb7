"""Answers users and operators of a coupled domain: which jobs wait for mates, and why."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from cosched.cluster.answers import MateInfo, ReloadInfo
from cosched.cluster.desk import Desk, Person
from cosched.cluster.submission import LONGEST_REQUEST
from cosched.core.cluster.coupling.machine import Coupling
from cosched.core.cluster.coupling.state import Member, Stage
from cosched.core.cluster.coupling.why import Moment, reason, sentence
from cosched.core.decoding import JsonDecoder, Malformed
from cosched.core.errors import CoschedError
from cosched.core.units import NS_PER_S


class Window:
    """A socket at ``path`` for requests about ``coupling``. stop: ends the controller.
    reload: reads its settings again. log: takes one line about a request that fails."""

    def __init__(
        self,
        path: Path,
        coupling: Coupling,
        now_ns: Callable[[], int],
        stop: Callable[[], None],
        reload: Callable[[], ReloadInfo],
        log: Callable[[str], None],
    ) -> None:
        self._desk = Desk(path, lambda person: _Caller(self, person), log)
        self._coupling = coupling
        self._now_ns = now_ns
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
        now_ns = self._now_ns()
        own = self._coupling.name
        return [describe(member, own, now_ns) for member in self._coupling.waiting]

    def stop(self) -> None:
        """Ends the controller; the jobs stay in Slurm."""
        self._stop()


def describe(member: Member, own: str, now_ns: int) -> MateInfo:
    """Returns a job with mates of the domain ``own``, for its user."""
    return MateInfo(
        job=member.number,
        group=member.group.name,
        user=member.user,
        state=member.stage.value,
        nodes=member.size,
        held=member.stage is not Stage.QUEUING,
        since_s=round((now_ns - member.since_ns) / NS_PER_S, 3),
        yields=member.yields,
        why=explain(member, own, now_ns),
    )


def explain(member: Member, own: str, now_ns: int) -> str:
    """Returns one line about the wait of a job of the domain ``own``."""
    moment = Moment(now_ns, time.time_ns())
    return sentence(reason(member, own, moment), _clock)


def _clock(wall_ns: int) -> str:
    return time.strftime("%H:%M:%S", time.localtime(wall_ns / NS_PER_S))


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
