"""Stewards whose tasks are played, for agents in virtual time.

A task waits at its gate. Then it exchanges a table, asks the root of its job, spawns a
world, writes, reads its input to the end, and ends. So each kind of message is sent.
"""

import asyncio
from collections import Counter

from cosched.cluster.agent.frames import (
    AddCredit,
    DeliverTables,
    EndTasks,
    Go,
    InputWritten,
    OutputWritten,
    TableReady,
    TaskAnswered,
    TaskAsked,
    TasksEnded,
    TasksWait,
    TasksWrote,
    WriteInput,
    WriteOutput,
)
from cosched.cluster.submission_request import FROM_CLIENT
from cosched.core.cluster.startup.questions import Command, Joined, Publish, Spawn
from cosched.core.errors import CoschedError

LINE = b"a line\n"
LINES = 3
#: How long tasks take to prepare, to run and to end when they must.
PREPARE_S, RUN_S, GRACE_S = 0.02, 0.1, 0.15
#: Programs that do nothing. The first one does not end by itself.
ENDLESS, BRIEF = "./endless", "./brief"


class Ran:
    """Orders for the tasks of all nodes, and their traces. refusals: how many starts a node
    refuses; grace_s: how long tasks of a node take to end when they must. begun: by start,
    world and place; output: bytes by start; input: bytes by job; failures: wrong answers
    and tables."""

    def __init__(self):
        self.refusals = Counter()
        self.grace_s = {}
        self.begun = Counter()
        self.output = Counter()
        self.input = Counter()
        self.failures = []


class Nursery:
    """Stands for the process that forks stewards."""

    def watch(self, on_end):
        pass

    def close(self):
        pass


class Stewards:
    """The stewards of one node."""

    ran = None  #: set by the test

    def __init__(self, name, paths, slots, nursery, spawn, log, parts):
        self.name, self._slots = name, slots
        self.running = {}

    def make(self, route, found, _environ, on_frame, on_end):
        tasks = found.counts[route.place] if not route.world else 0
        used = sum(steward.tasks for steward in self.running.values())
        self.ran.refusals[self.name] -= 1
        if used + tasks > self._slots or self.ran.refusals[self.name] >= 0:
            raise CoschedError("has no free slots")
        key = route.job, route.start, route.world

        def ended():
            del self.running[key]
            on_end()

        self.running[key] = Steward(self.ran, route, found, tasks, on_frame, ended)
        return self.running[key]

    def close(self):
        for steward in self.running.values():
            steward.vanish()


class Steward:
    """The steward of one world on one node, and its tasks."""

    def __init__(self, ran, route, found, tasks, on_frame, on_end):
        self.tasks = tasks
        self._ran, self._route, self._found = ran, route, found
        self._on_frame, self._on_end = on_frame, on_end
        self._grace_s = ran.grace_s.get(route.hosts[route.place], GRACE_S)
        self._loop = asyncio.get_running_loop()
        self._gone = self._over = self._closed = False
        self._credit = 0
        self._input_ended = False
        self._got = {}
        self._changed = asyncio.Event()
        self._life = self._loop.create_task(self._live())
        self._life.add_done_callback(self._note_failure)

    def send(self, frame):
        match frame:
            case EndTasks():
                self._life.cancel()
                self._loop.call_later(self._grace_s, self._end)
            case WriteOutput():
                self._ran.output[self._route.job, self._route.start] += len(frame.data)
                size = len(frame.data)
                self._report(OutputWritten(frame.world, frame.place, size))
            case WriteInput():
                self._ran.input[self._route.job] += len(frame.data)
                self._input_ended = self._input_ended or frame.last
                self._report(InputWritten(len(frame.data), not frame.last))
            case AddCredit():
                self._credit += frame.written
        self._got[type(frame)] = frame
        self._changed.set()

    def close(self):
        if not self._closed:
            self._closed = True
            self._loop.call_later(0.002, self._leave)

    def kill(self, _reason):
        self._leave()

    def vanish(self):
        """The agent is gone, and so are the tasks."""
        self._gone = True
        self._life.cancel()

    def _note_failure(self, life):
        if not life.cancelled() and life.exception() is not None:
            self._ran.failures.append(life.exception())

    def _leave(self):
        if not self._gone:
            self.vanish()
            self._on_end()

    def _report(self, frame):
        self._loop.call_soon(lambda: self._gone or self._on_frame(frame))

    def _end(self):
        if not self._over:
            self._over = True
            self._report(TasksEnded())

    async def _until(self, check):
        while not check():
            self._changed.clear()
            await self._changed.wait()

    async def _until_got(self, kind):
        await self._until(lambda: kind in self._got)
        return self._got.pop(kind)

    async def _ask(self, number, question):
        self._report(TaskAsked(number, question))
        answered = await self._until_got(TaskAnswered)
        assert (answered.number, answered.answer.error) == (number, "")

    async def _live(self):
        route = self._route
        await asyncio.sleep(PREPARE_S)
        self._report(TasksWait())
        await self._until_got(Go)
        self._ran.begun[route.job, route.start, route.world, route.place] += 1
        if self._found.commands[0].argv == (ENDLESS,):
            return
        if self._found.commands[0].argv == (BRIEF,):
            self._end()
            return
        self._report(TableReady(b"table"))
        tables = await self._until_got(DeliverTables)
        assert tables.tables == (b"table",) * route.tree.size
        if route.world:
            self._report(TaskAsked(0, Joined()))
        if route.place == 1 and not route.world:
            await self._ask(1, Publish("name", "port"))
            await self._ask(2, Spawn((Command(("./child",), 2),), {}, connects=True))
        for _ in range(LINES):
            self._report(TasksWrote(1, LINE))
        await self._until(lambda: self._credit == LINES * len(LINE))
        if self._found.input == FROM_CLIENT and route.heads_job:
            await self._until(lambda: self._input_ended)
        await asyncio.sleep(RUN_S)
        self._end()
