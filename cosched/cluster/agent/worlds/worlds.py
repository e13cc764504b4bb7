"""Keeps the worlds that a job has spawned and the names that it has published, at its root.

A world has a tree of its own, over nodes of the job, and starts as a job does: its tasks
wait at their gates until all of them are made. The job's root is to a world's root what the
controller is to the job's.

A spawn has succeeded once MPI has begun in the tasks. Until then they share nothing with
the job, so the spawn fails with a task, and the job goes on. The spawn of programs without
MPI has succeeded once they go.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Protocol

import msgspec

from cosched.cluster.agent.frames import WriteOutput
from cosched.cluster.agent.route import Route
from cosched.cluster.agent.worlds.gatherings import Gatherings
from cosched.cluster.agent.worlds.job_nodes import JobNodes
from cosched.cluster.agent.worlds.names import Names
from cosched.cluster.message_kinds import Message, OfJob
from cosched.cluster.messages import (
    Answered,
    Ask,
    Chunk,
    Credit,
    End,
    Failure,
    Order,
    Output,
    StartFailed,
    SubtreeEnded,
    SubtreePrepared,
    TaskFailed,
)
from cosched.core.cluster.queue.nodes import numbers
from cosched.core.cluster.resizing.change import generation_of
from cosched.core.cluster.startup.ends import WORK_S, end_limit_s
from cosched.core.cluster.startup.jobobject import (
    JobObject,
    WorldObject,
    cut,
    encode_object,
)
from cosched.core.cluster.startup.questions import (
    Gather,
    Joined,
    RootAnswer,
    Spawn,
    World,
)
from cosched.core.cluster.startup.tree import Position
from cosched.core.cluster.startup.worlds import Block, Part, place_world
from cosched.core.errors import CoschedError

#: The messages from a world's root to the job's root.
_FROM_WORLD = (SubtreePrepared, StartFailed, TaskFailed, SubtreeEnded, Output)


class Head(Protocol):
    """Does for worlds what their job can do at its root."""

    def send(self, to: str, message: Message) -> None:
        """Sends a message to a member of the domain."""

    def write_output(self, frame: WriteOutput) -> None:
        """Writes output of a world into the job's files."""

    def task_failed(self, failure: Failure) -> None:
        """Ends the job, because a task failed."""

    def check_change(self) -> None:
        """Ends the change of the job's size that waits for the end of a world."""

    def joiners_ended(self, generation: int) -> None:
        """Handles that the ranks which a change has started are gone, after MPI had begun
        in them."""

    def check_end(self) -> None:
        """Ends the job if nothing of it is left."""

    def later(self, after_s: float, call: Callable[[], None]) -> None:
        """Calls ``call`` after this time."""

    def fail(self, reason: str) -> None:
        """Ends the whole job."""

    def check_spawner(self, member: str) -> None:
        """Raises CoschedError if a node may start no tasks of the job's user on others."""


@dataclass(slots=True)
class _World:
    """A world. waits: the question for it, until that is answered. connects: its tasks are
    to connect to their parents. begun: its tasks have passed their gates. ended: the job's
    root has ended it, or it has not started, so that its failures are none of the job."""

    root: str
    blocks: tuple[Block, ...]
    asker: str
    waits: Ask | None
    connects: bool
    generation: int
    begun: bool = False
    ended: bool = False


class Worlds:
    """The worlds, names and gatherings of one job. slots: the number on each node. nodes:
    those of the job. prepare_s: how long the tasks of a world may take to come to their
    gates, and in a malleable job from there to MPI.
    """

    def __init__(
        self, route: Route, head: Head, slots: int, chunk_bytes: int, prepare_s: float
    ) -> None:
        self.nodes = JobNodes(numbers(route.nodes), route.hosts)
        self._route = route
        self._head = head
        self._slots = slots
        self._first_lives = True  # world 0, with which the job began
        self._spawn_problem = ""  # why the last spawn failed
        self._chunk_bytes = chunk_bytes
        self._prepare_s = prepare_s
        self._found: JobObject | None = None
        self._worlds: dict[int, _World] = {}
        self._last = 0
        self._names = Names()
        self._gatherings = Gatherings()

    @property
    def empty(self) -> bool:
        """Whether no task of any world is left."""
        return not self._worlds

    def places_in_use(self) -> frozenset[Position]:
        """Returns the places of all nodes where a world still has tasks."""
        found = {block.place for world in self._worlds.values() for block in world.blocks}
        if self._first_lives:
            found |= set(range(len(self._route.hosts)))
        return frozenset(found)

    def end_outside(self, places: frozenset[Position], reason: str) -> bool:
        """Ends the spawned worlds with tasks on other nodes; returns whether world 0 has
        tasks there."""
        for number, world in self._worlds.items():
            if not {block.place for block in world.blocks} <= places:
                self._end_one(number, reason)
        return self._first_lives and not set(range(len(self._route.hosts))) <= places

    def lose(
        self, lost: frozenset[Position], kept: frozenset[Position], reason: str
    ) -> None:
        """Forgets the worlds with tasks at lost places that wait at their gates, but not
        those with tasks at kept places. The controller ends them on other nodes."""
        for number, world in list(self._worlds.items()):
            places = {block.place for block in world.blocks}
            waits = world.waits is not None and not world.begun
            if not waits or not places & lost or places & kept:
                continue
            self._answer_spawn(number, RootAnswer(reason))
            del self._worlds[number]
        self._head.check_change()

    def take_spawn_problem(self) -> str:
        """Returns why a spawn failed since the last call; empty: none did. An MPI need not
        pass that on."""
        problem, self._spawn_problem = self._spawn_problem, ""
        return problem

    def first_ended(self) -> None:
        """Records that the tasks with which the job began are gone, on all nodes."""
        if self._first_lives:
            self._first_lives = False
            self._gatherings.leave(0)
            self._head.check_change()

    def begin(self, found: JobObject) -> None:
        """Answers questions from now on."""
        self._found = found

    def close(self) -> None:
        """Answers no question any more, and forgets worlds whose nodes end directly."""
        self._found = None
        self._worlds.clear()

    def end(self, reason: str) -> None:
        """Ends all worlds, and starts no other."""
        self._found = None
        for number in self._worlds:
            self._send(number, End(*self._start, reason, direct=False))

    def written(self, number: int, place: Position, size: int) -> None:
        """Grants a world's node credit for more output."""
        if number in self._worlds:
            self._send(number, Credit(*self._start, place, size))

    def concern(self, sender: str, message: OfJob) -> bool:
        """Returns whether a message is addressed to the job's root."""
        if isinstance(message, Ask):
            return True
        world = self._worlds.get(message.world)
        return (
            world is not None and world.root == sender and isinstance(message, _FROM_WORLD)
        )

    def take(self, sender: str, message: OfJob) -> None:
        """Handles a message that concerns the root. Raises CoschedError for one of a node
        that the job does not have."""
        number = message.world
        match message:
            case Ask():
                self._take_question(sender, message)
            case SubtreePrepared() | TaskFailed() if self._worlds[number].ended:
                pass  # its end is on the way
            case SubtreePrepared():
                self._go(number)
            case StartFailed():
                self._answer_spawn(number, RootAnswer(message.reason))
                self._worlds[number].ended = True
            case TaskFailed() if self._worlds[number].waits is not None:
                self._give_up(number, message.failure.reason)
            case TaskFailed():
                self._head.task_failed(message.failure)
            case SubtreeEnded():
                world = self._worlds[number]
                reason = "the start was given up"
                if world.begun:
                    reason = "the new tasks ended before MPI began in them"
                has_joined = world.waits is None and not world.ended
                self._answer_spawn(number, RootAnswer(reason))
                del self._worlds[number]
                self._gatherings.leave(number)
                if has_joined and world.generation:
                    self._head.joiners_ended(world.generation)
                self._head.check_change()
                self._head.check_end()
            case Output():
                if not 0 <= message.place < len(self._worlds[number].blocks):
                    raise CoschedError(f"job {message.job}: output of no node of its world")
                self._head.write_output(
                    WriteOutput(number, message.place, message.stream, message.data)
                )

    @property
    def _start(self) -> tuple[int, int]:
        return self._route.job, self._route.start

    def _send(self, number: int, message: Message) -> None:
        """Sends a message to a world's root."""
        self._head.send(
            self._worlds[number].root, msgspec.structs.replace(message, world=number)
        )

    def _take_question(self, sender: str, message: Ask) -> None:
        if not self.nodes.has(sender):
            raise CoschedError(f"job {message.job}: {sender} is not one of its nodes")
        question = message.question
        self._note_joined(sender, message.world)
        if isinstance(question, Joined):
            return
        reply = partial(self._reply, sender, message)
        if self._found is None:
            reply(RootAnswer("the job ends"))
            return
        world = self._worlds.get(message.world)
        if message.world and (world is None or world.ended):
            reply(RootAnswer("the world ends"))
            return
        try:
            if isinstance(question, Spawn):
                self._head.check_spawner(sender)
                self._spawn(sender, message, question, self._found)
            elif isinstance(question, Gather):
                asker = message.world, sender
                self._gatherings.take(asker, question, self._all(self._found), reply)
            else:
                self._names.take(question, reply)
        except CoschedError as error:
            if isinstance(question, Spawn):
                self._spawn_problem = str(error)
            reply(RootAnswer(str(error)))

    def _note_joined(self, sender: str, number: int) -> None:
        """Answers the question for a world: a task of it asks, so MPI has begun there. Open
        MPI asks in order to connect to the parents."""
        world = self._worlds.get(number)
        if world is None or not world.begun or world.ended:
            return
        if sender in (self.nodes.hosts[block.place] for block in world.blocks):
            self._answer_spawn(number, RootAnswer(value=str(number)))

    def _all(self, job: JobObject) -> dict[int, World]:
        """Returns the worlds that run, also that which the job began with."""
        hosts = self.nodes.hosts
        found = {0: World(0, self._route.hosts, job.counts)} if self._first_lives else {}
        for number, world in self._worlds.items():
            places = [block.place for block in world.blocks]
            counts = tuple(block.ranks for block in world.blocks)
            found[number] = World(number, tuple(hosts[place] for place in places), counts)
        return found

    def _spawn(self, sender: str, ask: Ask, question: Spawn, job: JobObject) -> None:
        parts = [
            Part(each.ranks, self.nodes.places(each.hosts)) for each in question.commands
        ]
        blocks = place_world(parts, self._free(job))
        found = WorldObject(tuple(block.ranks for block in blocks), question)
        chunks = self._chunks(found, blocks)  # before the world: they may be too large
        self._last += 1
        root = self.nodes.hosts[blocks[0].place]
        generation = max(generation_of(each.argv) for each in question.commands)
        self._worlds[self._last] = _World(
            root, blocks, sender, ask, question.connects, generation
        )
        for chunk in chunks:
            self._send(self._last, chunk)
        self._limit_start(self._last, "the start of world {} took more than {:.0f} s")

    def _limit_start(self, number: int, reason: str) -> None:
        """Gives up the start of a world that stays in its present stage for too long.
        reason: with places for the number and the seconds."""
        world, begun = self._worlds[number], self._worlds[number].begun

        def check() -> None:
            if self._found is None or self._worlds.get(number) is not world:
                return
            if world.waits is not None and world.begun is begun:
                self._give_up(number, reason.format(number, self._prepare_s))

        self._head.later(self._prepare_s, check)

    def _go(self, number: int) -> None:
        """Lets the tasks of a world pass their gates."""
        world = self._worlds[number]
        world.begun = True
        self._send(number, Order(*self._start, go=True))
        if not world.connects:
            self._answer_spawn(number, RootAnswer(value=str(number)))
        elif self._found is not None and self._found.malleable:
            # The ranks of a malleable job stand still meanwhile.
            self._limit_start(number, "MPI did not begin in world {} within {:.0f} s")

    def _give_up(self, number: int, reason: str) -> None:
        """Ends a world that the job goes on without. Fails the job if its tasks do not
        end."""
        world = self._worlds[number]
        self._end_one(number, reason)

        def enforce() -> None:
            if self._found is not None and self._worlds.get(number) is world:
                self._head.fail(f"{reason}, and its tasks did not end")

        if self._found is not None:
            self._head.later(end_limit_s(self._found.grace_s) + WORK_S, enforce)

    def _end_one(self, number: int, reason: str) -> None:
        """Ends a world; the job goes on."""
        self._answer_spawn(number, RootAnswer(reason))
        self._worlds[number].ended = True
        self._send(number, End(*self._start, reason, direct=False))

    def _free(self, job: JobObject) -> list[int]:
        """Returns the free slots of each of the job's nodes."""
        used = Counter(dict(enumerate(job.counts)) if self._first_lives else {})
        for world in self._worlds.values():
            for block in world.blocks:
                used[block.place] += block.ranks
        return [self._slots - used[place] for place in range(len(self.nodes.hosts))]

    def _chunks(self, found: WorldObject, blocks: tuple[Block, ...]) -> list[Chunk]:
        route = self._route
        numbered = self.nodes.numbers
        nodes = tuple((numbered[block.place],) * 2 for block in blocks)
        arity, exchange = route.tree.arity, route.exchange
        empty = Chunk(*self._start, 0, nodes, arity, exchange, 0, 1, numbered[0], b"")
        return empty.with_parts(cut(encode_object(found), self._chunk_bytes))

    def _answer_spawn(self, number: int, answer: RootAnswer) -> None:
        """Answers the question for a world, once."""
        world = self._worlds[number]
        if world.waits is not None:
            self._spawn_problem = answer.error
            self._reply(world.asker, world.waits, answer)
            world.waits = None

    def _reply(self, to: str, ask: Ask, answer: RootAnswer) -> None:
        self._head.send(to, Answered(*self._start, ask.number, answer, world=ask.world))
