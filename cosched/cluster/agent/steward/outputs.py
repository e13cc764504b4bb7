"""Reads what the tasks write, labels it, and pauses while the root has given no credit."""

from __future__ import annotations

import os
import selectors
from collections.abc import Callable
from functools import partial

from cosched.cluster.agent.frames import Frame, TasksWrote
from cosched.cluster.agent.steward.streams import CREDIT_BYTES, READ_BYTES, Labeler
from cosched.cluster.agent.steward.tasks import Task


class TaskOutputs:
    """The outputs of the tasks of one node.

    selector: calls the ``data`` of a descriptor that is ready. report: sends a frame to the
    agent.
    """

    def __init__(
        self, selector: selectors.BaseSelector, report: Callable[[Frame], None]
    ) -> None:
        self._selector = selector
        self._report = report
        self._labels: dict[int, Labeler] = {}
        self._credit = CREDIT_BYTES
        self._paused: list[tuple[int, Callable[[], None]]] = []
        self._open: set[int] = set()

    def watch(self, task: Task, label: str) -> None:
        """Reads the outputs of a task from now on. label: empty for lines without one."""
        for descriptor, stream in task.outputs.items():
            if label:
                self._labels[descriptor] = Labeler(label)
            self._open.add(descriptor)
            self._register(descriptor, partial(self._read, task, descriptor, stream))

    def _register(self, descriptor: int, call: Callable[[], None]) -> None:
        self._selector.register(descriptor, selectors.EVENT_READ, call)

    def _read(self, task: Task, descriptor: int, stream: int) -> None:
        data = os.read(descriptor, READ_BYTES)
        labeler = self._labels.get(descriptor)
        if not data:
            self._selector.unregister(descriptor)
            os.close(descriptor)
            self._open.discard(descriptor)
            del task.outputs[descriptor]
            data = labeler.rest() if labeler else b""
        elif labeler:
            data = labeler.label(data)
        if not data:
            return
        self._credit -= len(data)
        self._report(TasksWrote(stream, data))
        if self._credit <= 0:
            self._pause()

    def _pause(self) -> None:
        for descriptor in self._open:
            if descriptor in self._selector.get_map():
                call = self._selector.unregister(descriptor).data
                self._paused.append((descriptor, call))

    def add_credit(self, written: int) -> None:
        """Reads on: the root has written so many bytes."""
        self._credit += written
        if self._credit > 0:
            paused, self._paused = self._paused, []
            for descriptor, call in paused:
                self._register(descriptor, call)
