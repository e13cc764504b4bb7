"""Starts stewards by the nursery and carries their frames."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from cosched.cluster.agent.frames import (
    AnyFrame,
    Frame,
    FrameReader,
    KillSteward,
    MakeSteward,
    RemoveTree,
    Request,
    WriteTopology,
    encode_frame,
    encode_request,
)
from cosched.core.complaints import fault
from cosched.core.errors import CoschedError, StateLost
from cosched.start.own_command import own_command

_READ_BYTES = 1 << 18
_PROGRAM = own_command("cosched.cluster.agent.nursery")
_REMEDY = "restart the agent: systemctl restart cosched-agent, or cosched cluster up"


class Nursery:
    """The process that forks stewards; see ``nursery``. program: the words
    that start it."""

    def __init__(self, program: Sequence[str] = _PROGRAM) -> None:
        self._requests, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._process = subprocess.Popen(
            program,
            stdin=theirs.fileno(),
            start_new_session=True,
        )
        theirs.close()
        self._last = 0  # number of a steward

    def watch(self, on_end: Callable[[CoschedError], None]) -> None:
        """Calls ``on_end`` when the nursery has ended by itself: no job can start then."""

        def ended() -> None:  # it never writes
            loop.remove_reader(self._requests)
            on_end(CoschedError(f"the agent's nursery has ended; {_REMEDY}"))

        loop = asyncio.get_running_loop()
        loop.add_reader(self._requests, ended)

    def make(self, limit_s: float) -> tuple[int, socket.socket]:
        """Starts a steward; returns its number and the agent's end of its socket. Raises
        CoschedError if that fails. limit_s: how long it may take to end when the agent has
        ended."""
        self._last += 1
        try:
            ours, theirs = socket.socketpair()
        except OSError as error:  # too many descriptors, or no memory
            raise CoschedError(f"cannot make a socket: {error.strerror}") from None
        with theirs:
            try:
                self._send(MakeSteward(self._last, limit_s), [theirs.fileno()])
            except CoschedError:
                ours.close()
                raise
        return self._last, ours

    def kill(self, number: int) -> None:
        """Kills a steward, also one that is stopped. Its tasks end with it."""
        with contextlib.suppress(CoschedError):  # the end of the nursery is reported
            self._send(KillSteward(number))

    def write_topology(self, path: Path) -> None:
        """Makes a process write the node's topology into a file."""
        self._send(WriteTopology(os.fsencode(path)))

    def remove_tree(self, path: Path) -> None:
        """Makes a process remove a directory, however large and deep a user made it."""
        self._send(RemoveTree(os.fsencode(path)))

    def _send(self, request: Request, descriptors: Sequence[int] = ()) -> None:
        try:
            socket.send_fds(self._requests, [encode_request(request)], list(descriptors))
        except OSError as error:
            raise CoschedError(
                f"the agent's nursery has ended ({error.strerror}); {_REMEDY}"
            ) from None

    def close(self) -> None:
        """Ends the nursery; it waits for its stewards, whose agent is gone, and kills those
        that take too long."""
        with contextlib.suppress(RuntimeError):  # without a loop it is not watched
            asyncio.get_running_loop().remove_reader(self._requests)
        self._requests.close()
        self._process.wait()


@dataclass(slots=True)
class Steward:
    """The steward of a job. on_frame gets its frames, on_end is called when it is gone."""

    nursery: Nursery  #: forked it
    number: int  #: the nursery's
    connection: socket.socket  #: to the steward
    job: int  #: the job's number
    on_frame: Callable[[AnyFrame], None]  #: takes its frames
    on_end: Callable[[], None]  #: is called when it is gone
    complain: Callable[[str], None]  #: takes one line about a frame that cannot be read
    _early: bytes = b""  #: frames that wait for the connection, the first one included
    _writer: asyncio.StreamWriter | None = None
    _closing: bool = False

    async def run(self) -> None:
        """Reads frames until the steward is gone."""
        reader, self._writer = await asyncio.open_unix_connection(sock=self.connection)
        self._writer.write(self._early)
        if self._closing:
            self._writer.write_eof()
        frames = FrameReader()
        try:
            while data := await reader.read(_READ_BYTES):
                for frame in frames.feed(data):
                    self.on_frame(frame)
        except StateLost:
            raise
        except Exception as error:  # noqa: BLE001  (it costs this job only)
            self.complain(f"job {self.job}: its steward is left alone: {fault(error)}")
        finally:
            self._writer.close()
            with contextlib.suppress(ConnectionError):
                await self._writer.wait_closed()
            self.on_end()

    def send(self, frame: Frame) -> None:
        """Sends a frame; its size is bounded by the credit of the job's output."""
        if self._writer is None:
            self._early += encode_frame(frame)
        elif not self._closing and not self._writer.is_closing():
            self._writer.write(encode_frame(frame))

    def close(self) -> None:
        """Closes the connection; the steward ends once it has handled all frames."""
        if self._closing:
            return
        self._closing = True
        if self._writer is not None and not self._writer.is_closing():
            self._writer.write_eof()

    def kill(self, reason: str) -> None:
        """Kills the steward, and with it the tasks. reason: one line for the log."""
        self.complain(f"job {self.job}: {reason}")
        self.nursery.kill(self.number)
