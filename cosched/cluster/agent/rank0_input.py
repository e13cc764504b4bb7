"""Carries rank 0's standard input at the job's root: the agent's and steward's parts."""

from __future__ import annotations

import os
from collections.abc import Callable

from cosched.cluster.agent.frames import Frame, InputWritten, WriteInput
from cosched.cluster.messages import AT_END, PIECE_MOST, GiveInput, InputTaken
from cosched.service.loop import Watch

#: Input that may wait for rank 0, in bytes.
WAITING_MOST = 4 * PIECE_MOST


class InputValve:
    """Puts the pieces of input in order and answers each once it is written.

    may_give: returns whether a user (by uid) of a member may give input to the job. reply:
    sends an answer to a member. write: sends a frame to the steward.
    """

    def __init__(
        self,
        may_give: Callable[[str, int], bool],
        reply: Callable[[str, InputTaken], None],
        write: Callable[[Frame], None],
    ) -> None:
        self._may_give = may_give
        self._reply = reply
        self._write = write
        self._passed = 0  # bytes that the steward got
        self._taken = 0  # bytes that it has written
        self._open = True
        self._waiting: list[tuple[int, str, int]] = []  # (end, member, number)

    def take(self, sender: str, message: GiveInput) -> None:
        """Adds a piece, or the rest of one that came in part before."""
        at = self._passed if message.at == AT_END else message.at
        problem = self._problem(sender, message, at)
        if problem:
            self._reply(sender, InputTaken(message.number, self._taken, True, problem))
            return
        new = message.data[self._passed - at :]
        if self._open and (new or message.last):
            self._passed += len(new)
            self._write(WriteInput(new, message.last))
        self._waiting.append((at + len(message.data), sender, message.number))
        self._answer()

    def wrote(self, frame: InputWritten) -> None:
        """Counts the bytes that the steward has written."""
        self._taken += frame.written
        self._open = self._open and frame.open
        self._answer()

    def close(self) -> None:
        """Answers all: the job takes no more input."""
        self._open = False
        self._answer()

    def _problem(self, sender: str, message: GiveInput, at: int) -> str:
        if not self._may_give(sender, message.uid):
            return f"job {message.job}: belongs to another user"
        if at > self._passed:
            return f"job {message.job}: its input before byte {at} is missing"
        if self._passed - self._taken > WAITING_MOST:
            return f"job {message.job}: has not read the input that came before"
        return ""

    def _answer(self) -> None:
        waiting, self._waiting = self._waiting, []
        for end, sender, number in waiting:
            if self._open and end > self._taken:
                self._waiting.append((end, sender, number))
            else:
                self._reply(sender, InputTaken(number, self._taken, self._open, ""))


class InputPipe:
    """Writes into the pipe that is rank 0's standard input, as fast as rank 0 reads.

    watch: calls what is registered there when it may write. report: sends a frame to the
    agent.
    """

    def __init__(self, watch: Watch, report: Callable[[Frame], None]) -> None:
        self.reader, self._pipe = os.pipe2(os.O_CLOEXEC)
        os.set_blocking(self._pipe, False)
        self._watch = watch
        self._report = report
        self._data = bytearray()
        self._last = False
        self._open = True

    def add(self, frame: WriteInput) -> None:
        """Adds input; writes what the pipe has room for."""
        if self._open:
            self._data += frame.data
            self._last = self._last or frame.last
            self._write()

    def close(self) -> None:
        """Ends the input."""
        if self._open:
            self._open = False
            self._data.clear()
            self._await_room(False)
            os.close(self._pipe)

    def _write(self) -> None:
        before = len(self._data)
        broken = False
        try:
            while self._data:
                del self._data[: os.write(self._pipe, self._data)]
        except BlockingIOError:
            pass
        except BrokenPipeError:  # rank 0 has closed its standard input
            broken = True
        written = before - len(self._data)
        if broken or (self._last and not self._data):
            self.close()
        else:
            self._await_room(bool(self._data))
        self._report(InputWritten(written, self._open))

    def _await_room(self, wanted: bool) -> None:
        watched = self._pipe in self._watch
        if wanted and not watched:
            self._watch.watch_room(self._pipe, self._write)
        elif watched and not wanted:
            self._watch.unwatch(self._pipe)
