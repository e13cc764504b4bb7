"""Reads what the tasks write, labels it, and pauses while the root has given no credit.

A job whose root is lost gets no credit any more. Its tasks have to end, and their pipes
with them, so the rest of the output is then read and lost.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable
from functools import partial

from cosched.cluster.agent.frames import Frame, TasksWrote
from cosched.cluster.agent.steward.streams import CREDIT_BYTES, READ_BYTES, Labeler
from cosched.cluster.agent.steward.task_process import Task
from cosched.service.loop import Watch

#: The most that the kernel lets an ordinary user's pipe hold.
_PIPE_MOST = 1 << 20


class TaskOutputs:
    """The outputs of the tasks of one node.

    watch: calls what belongs to a descriptor that is ready. report: sends a frame to the
    agent.
    """

    def __init__(self, watch: Watch, report: Callable[[Frame], None]) -> None:
        self._watch = watch
        self._report = report
        self._labels: dict[int, Labeler] = {}
        self._credit = CREDIT_BYTES
        self._loses = False
        self._paused: list[tuple[int, Callable[[], object]]] = []
        self._open: set[int] = set()

    def watch(self, task: Task, label: str) -> None:
        """Reads the outputs of a task from now on. label: empty for lines without one."""
        for descriptor, stream in task.outputs.items():
            if label:
                self._labels[descriptor] = Labeler(label)
            self._open.add(descriptor)
            self._watch.watch(descriptor, partial(self._read, task, descriptor, stream))

    def _read(self, task: Task, descriptor: int, stream: int) -> None:
        data = os.read(descriptor, READ_BYTES)
        labeler = self._labels.get(descriptor)
        if not data:
            data = self._close(task, descriptor)
        elif labeler:
            data = labeler.label(data)
        if not data or (self._loses and self._credit <= 0):
            return
        self._credit -= len(data)
        self._report(TasksWrote(stream, data))
        if self._credit <= 0 and not self._loses:
            self._pause()

    def leave(self, tasks: Iterable[Task]) -> None:
        """Reads what the pipes of tasks hold and closes them, though processes that cannot
        be ended keep them open. Pipes that wait for credit stay until the next call."""
        for task in tasks:
            for descriptor, stream in list(task.outputs.items()):
                with contextlib.suppress(BlockingIOError):  # it holds nothing more
                    for _ in range(_PIPE_MOST // READ_BYTES):
                        if descriptor in self._watch:
                            self._read(task, descriptor, stream)
                if descriptor in self._watch and (rest := self._close(task, descriptor)):
                    self._report(TasksWrote(stream, rest))

    def _close(self, task: Task, descriptor: int) -> bytes:
        """Closes a pipe; returns the line that it has begun."""
        self._watch.unwatch(descriptor)
        os.close(descriptor)
        self._open.discard(descriptor)
        del task.outputs[descriptor]
        labeler = self._labels.get(descriptor)
        return labeler.rest() if labeler else b""

    def _pause(self) -> None:
        for descriptor in self._open:
            if descriptor in self._watch:
                self._paused.append((descriptor, self._watch.unwatch(descriptor)))

    def add_credit(self, written: int) -> None:
        """Reads on: the root has written this number of bytes."""
        self._credit += written
        if self._credit > 0:
            self._read_on()

    def lose_rest(self) -> None:
        """Reads on, and loses what is without credit: that may never come."""
        self._loses = True
        self._read_on()

    def _read_on(self) -> None:
        paused, self._paused = self._paused, []
        for descriptor, call in paused:
            self._watch.watch(descriptor, call)
