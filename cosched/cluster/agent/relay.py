"""Relays the input and output of one start of a job through this node.

Output goes up the tree to the root, whose steward writes it. Credit for it comes down.
Input comes to the root alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from cosched.cluster.agent.frames import (
    AddCredit,
    Frame,
    InputWritten,
    OutputWritten,
    TasksWrote,
    WriteOutput,
)
from cosched.cluster.agent.rank0_input import InputValve
from cosched.cluster.agent.route import Route
from cosched.cluster.agent.steward.streams import LONGEST_OUTPUT
from cosched.cluster.agent.worlds.worlds import Worlds
from cosched.cluster.message_kinds import Message
from cosched.cluster.messages import Credit, GiveInput, InputTaken, Output
from cosched.core.errors import CoschedError


class Relay:
    """send: sends a message to a member. write: sends a frame to this node's steward."""

    def __init__(
        self,
        route: Route,
        worlds: Worlds,
        send: Callable[[str, Message], None],
        write: Callable[[Frame], None],
    ) -> None:
        self._route = route
        self._worlds = worlds
        self._send = send
        self._write = write
        self._input: InputValve | None = None
        # At the root: bytes without credit by world and place; None without a steward.
        self._unwritten: Counter[tuple[int, int]] | None = Counter()

    def accept_input(self, may_give: Callable[[str, int], bool]) -> None:
        """Accepts the input of rank 0 from now on. may_give: whether a member may pass on a
        user's bytes."""
        self._input = InputValve(may_give, self._send, self._write)

    def take_input(self, sender: str, message: GiveInput) -> None:
        """Passes input on; a job that takes none refuses it."""
        if self._input is not None:
            self._input.take(sender, message)
        else:
            self._send(sender, InputTaken(message.number, 0, False, ""))

    def input_written(self, frame: InputWritten) -> None:
        """Answers for the input that rank 0 has."""
        if self._input is not None:
            self._input.wrote(frame)

    def close_input(self) -> None:
        """Answers all clients: the job takes no more input."""
        if self._input is not None:
            self._input.close()

    def tasks_wrote(self, frame: TasksWrote) -> None:
        """Carries the output of this node's tasks."""
        if len(frame.data) > LONGEST_OUTPUT:
            raise CoschedError("a steward sent too much output at once")
        route = self._route
        output = Output(route.job, route.start, route.place, frame.stream, frame.data)
        self.carry_output(output)

    def carry_output(self, output: Output) -> None:
        """Passes output up the tree; the root writes it. Raises CoschedError for a place
        that the tree lacks."""
        if self._route.heads_job:
            if output.place != self._route.place:
                self._route.towards(output.place)
            self.write(WriteOutput(0, output.place, output.stream, output.data))
        else:
            self._send(self._route.parent, output)

    def write(self, frame: WriteOutput) -> None:
        """Gives output to the root's steward, which writes it. Without a steward the output
        is lost, but its tasks go on: they may have to end."""
        size = len(frame.data)
        if self._unwritten is None:
            self._give_credit(frame.world, frame.place, size)
        else:
            self._unwritten[frame.world, frame.place] += size
            self._write(frame)

    def output_written(self, frame: OutputWritten) -> None:
        """Gives credit to the node whose output the root has written."""
        if self._unwritten is not None:
            self._unwritten[frame.world, frame.place] -= frame.written
        self._give_credit(frame.world, frame.place, frame.written)

    def lose_steward(self) -> bool:
        """Gives credit for the output that this node's steward has not written. Returns
        whether there is some: it is lost."""
        unwritten, self._unwritten = self._unwritten, None
        lost = +(unwritten or Counter())
        for (world, place), size in lost.items():
            self._give_credit(world, place, size)
        return bool(lost)

    def _give_credit(self, world: int, place: int, written: int) -> None:
        if world == 0:
            route = self._route
            self.carry_credit(Credit(route.job, route.start, place, written))
        else:
            self._worlds.written(world, place, written)

    def carry_credit(self, credit: Credit) -> None:
        """Passes credit down the tree to its node."""
        if credit.place == self._route.place:
            self._write(AddCredit(credit.written))
        else:
            self._send(self._route.towards(credit.place), credit)
