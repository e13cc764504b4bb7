"""Reads what the tasks write, labels it, and pauses while the root has given no credit.

A job whose root is lost gets no credit any more. Its tasks have to end, and their pipes
with them, so the rest of the output is then read and lost.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial

from cosched.cluster.agent.frames import Frame, TasksWrote
from cosched.cluster.agent.steward.streams import CREDIT_BYTES, READ_BYTES, Labeler
from cosched.cluster.agent.steward.tasks import Task
from cosched.cluster.agent.steward.watch import Watch


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
            self._watch.read(descriptor, partial(self._read, task, descriptor, stream))

    def _read(self, task: Task, descriptor: int, stream: int) -> None:
        data = os.read(descriptor, READ_BYTES)
        labeler = self._labels.get(descriptor)
        if not data:
            self._watch.stop(descriptor)
            os.close(descriptor)
            self._open.discard(descriptor)
            del task.outputs[descriptor]
            data = labeler.rest() if labeler else b""
        elif labeler:
            data = labeler.label(data)
        if not data or (self._loses and self._credit <= 0):
            return
        self._credit -= len(data)
        self._report(TasksWrote(stream, data))
        if self._credit <= 0 and not self._loses:
            self._pause()

    def _pause(self) -> None:
        for descriptor in self._open:
            if descriptor in self._watch:
                self._paused.append((descriptor, self._watch.stop(descriptor)))

    def add_credit(self, written: int) -> None:
        """Reads on: the root has written so many bytes."""
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
            self._watch.read(descriptor, call)
