"""Drives the machine of ``core.node`` with the events of a live node."""

from __future__ import annotations

import time

from cosched.core.errors import must_succeed
from cosched.core.node.machine import NodeScheduler
from cosched.core.node.messages import Event
from cosched.node.effects import Effects
from cosched.node.records.recorder import Recorder


def clocks() -> dict[str, int]:
    """Returns the current times in the form of an event's fields."""
    return {"now_ns": time.monotonic_ns(), "wall_ns": time.time_ns()}


class Driver:
    """The machine, the effects of its commands, and the record of both."""

    def __init__(
        self, machine: NodeScheduler, effects: Effects, recorder: Recorder
    ) -> None:
        self.machine = machine
        self.recorder = recorder
        self._effects = effects

    def feed(self, event: Event) -> None:
        """Feeds one event to the machine, carries out its commands and records both.
        Raises StateLost if any of that fails: the machine counts on its commands."""
        with must_succeed(f"event {type(event).__name__}"):
            try:
                commands = self.machine.handle(event)
            except Exception:
                self.recorder.record(event, ())  # a replay then fails in the same way
                self.recorder.close()
                raise
            self._effects.carry_out(commands)
            self.recorder.record(event, commands)
