"""Stops the tasks of suspended jobs on this node, and lets them run again.

A job has one steward here for each of its worlds. All of them stop their tasks before the
node answers. A world that begins while its job is suspended is stopped as soon as it goes.
While all tasks stand still, the job that is to run here may have their slots.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol

from msgspec import Struct

from cosched.cluster.message_kinds import OfJob
from cosched.cluster.suspend_messages import (
    ContinueTasks,
    SuspendTasks,
    TasksContinued,
    TasksSuspended,
)
from cosched.linux.memory import machine_memory

Start = tuple[int, int]
_MIB = 1 << 20


class World(Protocol):
    """A world of a job on this node. identity: its job, start and number."""

    @property
    def identity(self) -> tuple[int, int, int]: ...

    def stop_tasks(self, *, stopped: bool) -> bool:
        """Has its tasks stopped, or run again; returns whether it will report that."""


class _Order(Struct):
    """The latest order about a start."""

    times: int  #: how often its job was suspended
    stopped: bool  #: whether the tasks must stop, or run
    awaited: set[int]  #: the worlds that have not reported
    problem: str = ""  #: why some tasks may run on
    answered: bool = False  #: the controller has the answer


class Stops:
    """The suspended starts on this node. worlds_of: returns those of a start here. send:
    sends a message to the controller. lend: lets others have the slots of a start.
    take_back: ends that."""

    def __init__(
        self,
        worlds_of: Callable[[Start], Iterable[World]],
        send: Callable[[OfJob], None],
        lend: Callable[[Start], None],
        take_back: Callable[[Start], None],
    ) -> None:
        self._worlds_of = worlds_of
        self._lend = lend
        self._take_back = take_back
        self._send = send
        self._orders: dict[Start, _Order] = {}

    def take(self, message: SuspendTasks | ContinueTasks) -> None:
        """Carries out an order of the controller."""
        start = (message.job, message.start)
        if isinstance(message, SuspendTasks):
            total = machine_memory().total_bytes
            if 0 < total < message.memory_bytes:
                problem = (
                    f"both jobs need {message.memory_bytes // _MIB} MiB of memory; it has "
                    f"{total // _MIB} MiB"
                )
                self._send(TasksSuspended(*start, message.times, problem))
                return
        stopped = isinstance(message, SuspendTasks)
        if not stopped:
            self._take_back(start)
        order = self._orders[start] = _Order(message.times, stopped, set())
        for world in self._worlds_of(start):
            if world.stop_tasks(stopped=stopped):
                order.awaited.add(world.identity[2])
        self._check(start, order)

    def are_stopped(self, start: Start) -> bool:
        """Returns whether the tasks of a start are to stand still."""
        order = self._orders.get(start)
        return order is not None and order.stopped

    def reported(self, world: World, problem: str, *, stopped: bool) -> None:
        """Notes that the tasks of a world are stopped, or run."""
        order = self._orders.get(world.identity[:2])
        if order is not None and order.stopped == stopped:
            order.problem = order.problem or problem
            order.awaited.discard(world.identity[2])
            self._check(world.identity[:2], order)

    def world_ended(self, world: World, *, last: bool) -> None:
        """Notes that a world has no tasks here any more. last: nor has another one of its
        start."""
        start, number = world.identity[:2], world.identity[2]
        order = self._orders.get(start)
        if order is None:
            return
        order.awaited.discard(number)
        self._check(start, order)
        if last:
            del self._orders[start]

    def _check(self, start: Start, order: _Order) -> None:
        if order.awaited or order.answered:
            return
        order.answered = True
        if order.stopped:
            if not order.problem:
                self._lend(start)
            self._send(TasksSuspended(*start, order.times, order.problem))
        else:
            self._send(TasksContinued(*start, order.times))
