"""Keeps the page of a malleable job on one node, as the job's user.

The page is a file that the user can truncate, and that kills a process which maps it.
So neither the agent nor a steward maps it, and this process does nothing else. If it is
killed, another one goes on with the same page.
"""

from __future__ import annotations

import socket
import time
from pathlib import Path

from cosched.cluster.agent.frames import (
    AnyFrame,
    CannotStart,
    Frame,
    FrameReader,
    KeepPage,
    OrderPage,
    PageAnswered,
    PageReady,
    encode_frame,
    receive_frame,
)
from cosched.cluster.agent.steward.task_process import become_user
from cosched.cluster.size_messages import PhaseTimes
from cosched.core.bounds import NATURAL_MOST
from cosched.core.cluster.resizing.agreement import Finished
from cosched.core.cluster.resizing.node_part import NodePart, Sensed
from cosched.core.cluster.resizing.page_records import Result
from cosched.core.errors import CoschedError
from cosched.linux.processes.signals import Delivery, send
from cosched.linux.system_text import from_wire
from cosched.service.loop import Watch
from cosched.shm.page import Page

#: A page is read this often at the begin of a change.
LOOK_S = 0.001
#: Later it is read again after this part of the time since the last order. So an answer
#: comes late by that part at most, and a job that stops late costs its nodes little.
LOOK_PART = 1 / 16
#: The longest time between two looks at the page while a change is under way.
LOOK_MOST_S = 0.05
#: How often the job's pace and wishes are read.
SENSE_S = 1.0
#: Only files of the user's own come from this process.
_UMASK = 0o077


def keep_page(
    agent: socket.socket, reader: FrameReader, order: KeepPage, frames: list[AnyFrame]
) -> None:
    """Keeps a page until the agent closes the socket. frames: those after ``order``."""
    try:
        become_user(order.uid, order.gid, _UMASK)
        path = Path(from_wire(order.path))
        page = Page.open(path) if order.again else _create(path, order)
    except CoschedError as error:  # this process may be root: it does nothing more
        agent.sendall(encode_frame(CannotStart(str(error))))
        return
    PageKeeper(agent, reader, page, order.place).run(frames)


def _create(path: Path, order: KeepPage) -> Page:
    try:
        return Page.create(path, order.place, order.host)
    except OSError as error:
        raise CoschedError(f"page {path}: {error.strerror}") from None


class PageKeeper:
    """Carries out orders about a page, and reports what it reads there."""

    def __init__(
        self, agent: socket.socket, reader: FrameReader, page: Page, place: int
    ) -> None:
        self._agent = agent
        self._reader = reader
        self._page = page
        self._part = NodePart(place, page)
        self._ranks = 0
        self._watch = Watch()
        self._sensed: Sensed | None = None
        self._sense_at = 0.0
        self._ordered_at = 0.0
        self._agent_lives = True

    def run(self, frames: list[AnyFrame]) -> None:
        """Runs until the agent closes the socket."""
        self._watch.watch(self._agent.fileno(), self._read_agent)
        self._report(PageReady())
        for frame in frames:
            self._obey(frame)
        while self._agent_lives:
            self._watch.wait(self._pause_s)
            self._look()

    @property
    def _pause_s(self) -> float:
        """How long this process waits until it reads the page again."""
        if not self._part.is_open:
            return SENSE_S
        return look_after_s(time.monotonic() - self._ordered_at)

    def _read_agent(self) -> None:
        frames = receive_frame(self._agent, self._reader)
        if frames is None:
            self._agent_lives = False
            return
        for frame in frames:
            self._obey(frame)

    def _obey(self, frame: AnyFrame) -> None:
        if not isinstance(frame, OrderPage):
            raise CoschedError(f"a page's keeper does not take {type(frame).__name__}")
        self._ranks, self._ordered_at = frame.ranks, time.monotonic()
        for answer in self._part.take(frame.order):
            self._report(PageAnswered(answer))

    def _look(self) -> None:
        for answer in self._part.watch(self._ranks):
            self._report(PageAnswered(answer, self._times_of(answer)))
        now = time.monotonic()
        if now < self._sense_at:
            return
        self._sense_at = now + SENSE_S
        for pid in self._page.processes():
            if pid > 0 and send(pid, 0) is Delivery.ENDED:
                self._page.forget(pid)
        sensed = self._part.sense()
        if sensed is not None and sensed != self._sensed:
            self._sensed = sensed
            self._report(PageAnswered(sensed))

    def _times_of(self, answer: object) -> PhaseTimes | None:
        result = self._page.result()
        if not isinstance(answer, Finished) or answer.refused or result is None:
            return None
        return phase_times(result)

    def _report(self, frame: Frame) -> None:
        try:
            self._agent.sendall(encode_frame(frame))
        except OSError:
            self._agent_lives = False


def look_after_s(since_order_s: float) -> float:
    """Returns the time from one look at the page to the next one, in seconds."""
    return min(max(LOOK_S, since_order_s * LOOK_PART), LOOK_MOST_S)


def phase_times(result: Result) -> PhaseTimes:
    """Returns the phases that rank 0 reported; the root adds its own. The page's user may
    write any number there."""
    times = result.times
    phases = (
        *(times.wait_ns, times.spawn_ns, times.connect_ns, times.start_ns),
        *(times.move_ns, times.resume_ns, 0, result.moved_bytes),
    )
    return PhaseTimes(0, *(min(each, NATURAL_MOST) for each in phases))
