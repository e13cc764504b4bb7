"""Runs a stream of jobs in virtual time on the machine of one node with one CPU.

The jobs only compute, and a switch costs nothing. So two runs differ only in the order of
the jobs. ``cosched sim nodes`` simulates messages and several nodes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from cosched.core.node.knowledge import Expectation
from cosched.core.node.machine import NodeScheduler
from cosched.core.node.messages import (
    AlarmRang,
    Command,
    Event,
    OrderTimer,
    PublishStatus,
    SetAlarm,
    SliceEnded,
    TaskExited,
    TaskRegistered,
)
from cosched.core.node.settings import Settings
from cosched.core.units import NS_PER_S

ONE_CPU = frozenset({0})


@dataclass(frozen=True, slots=True)
class StreamJob:
    """Describes a job that needs the only CPU."""

    submit_ns: int  #: from the begin of the stream, in ns
    length_ns: int  #: CPU time that it needs, in ns
    user: int = 0  #: number of its user
    #: Its kind and length, as the machine expects them; by default unknown.
    expectation: Expectation = field(default_factory=Expectation)
    #: Its work is done by launchers, without a task. When it has to leave the order, it is
    #: announced again, as another job.
    bare: bool = False


@dataclass(frozen=True, slots=True)
class Turn:
    """A time for which one job had the CPU."""

    job: int  #: its number in the stream
    begin_ns: int  #: on the clock of the run
    end_ns: int  #: on the clock of the run


class OneNode:
    """One run. ``turns`` are in the order of time; ``ends_ns`` are by the job's number."""

    def __init__(self, jobs: Sequence[StreamJob], settings: Settings) -> None:
        self.turns: list[Turn] = []
        self.ends_ns: dict[int, int] = {}
        self._jobs = jobs
        self._machine = NodeScheduler(settings)
        self._now_ns = NS_PER_S
        self._rest_ns: dict[int, int] = {}
        self._keys: dict[int, str] = {}
        self._running: int | None = None
        self._since_ns = 0
        self._orders: OrderTimer | None = None
        self._ticked_ns = 0
        self._alarm_ns: int | None = None
        order = sorted(range(len(jobs)), key=lambda number: jobs[number].submit_ns)
        self._arrivals = list(reversed(order))
        while self._arrivals or self._rest_ns:
            self._step()

    @property
    def responses_ns(self) -> list[int]:
        """The time from submission to end of each job."""
        return [
            self.ends_ns[n] - NS_PER_S - job.submit_ns for n, job in enumerate(self._jobs)
        ]

    def _step(self) -> None:
        """Advances to the next event."""
        candidates: list[tuple[int, int]] = []
        if self._arrivals:
            submit_ns = self._jobs[self._arrivals[-1]].submit_ns
            candidates.append((submit_ns + NS_PER_S, 0))
        if self._running is not None:
            candidates.append((self._now_ns + self._rest_ns[self._running], 1))
        if self._orders is not None:
            now_ns = self._now_ns
            tick_ns = self._orders.next_tick_ns(now_ns, now_ns, self._ticked_ns)
            if tick_ns:
                candidates.append((tick_ns, 2))
        if self._alarm_ns is not None:
            candidates.append((self._alarm_ns, 3))
        at_ns, kind = min(candidates)
        at_ns = max(at_ns, self._now_ns)
        if self._running is not None:
            self._rest_ns[self._running] -= at_ns - self._now_ns
        self._now_ns = at_ns
        (self._arrive, self._end, self._tick, self._ring)[kind]()

    def _arrive(self) -> None:
        number = self._arrivals.pop()
        job = self._jobs[number]
        self._rest_ns[number] = job.length_ns
        self._register(number, str(number))

    def _register(self, number: int, key: str) -> None:
        job = self._jobs[number]
        self._keys[number] = key
        self._send(
            TaskRegistered(
                now_ns=self._now_ns,
                wall_ns=self._now_ns,
                job=key,
                task=number,
                cpus=ONE_CPU,
                submitted_ns=self._now_ns,
                user=job.user,
                expectation=job.expectation,
                launcher=job.bare,
            )
        )

    def _end(self) -> None:
        number = self._running
        assert number is not None
        del self._rest_ns[number]
        self.ends_ns[number] = self._now_ns
        self._leave(number)

    def _leave(self, number: int) -> None:
        self._yield_cpu()
        now_ns, key = self._now_ns, self._keys[number]
        self._send(TaskExited(now_ns=now_ns, wall_ns=now_ns, job=key, task=number))

    def _tick(self) -> None:
        self._ticked_ns = self._now_ns
        self._send(SliceEnded(now_ns=self._now_ns, wall_ns=self._now_ns))
        number = self._running
        if number is None or not self._jobs[number].bare:
            return
        if not self._machine.keeps_launchers(self._keys[number], self._now_ns):
            self._leave(number)
            self._register(number, f"{self._keys[number]}.")

    def _ring(self) -> None:
        self._alarm_ns = None
        self._send(AlarmRang(now_ns=self._now_ns, wall_ns=self._now_ns))

    def _send(self, event: Event) -> None:
        for command in self._machine.handle(event):
            self._carry_out(command)

    def _carry_out(self, command: Command) -> None:
        match command:
            case PublishStatus(job=job, scheduled=scheduled):
                number = int(job.rstrip("."))
                if scheduled and number in self._rest_ns:
                    self._running, self._since_ns = number, self._now_ns
                elif not scheduled and number == self._running:
                    self._yield_cpu()
            case OrderTimer():
                self._orders = command
            case SetAlarm(at_ns=at_ns):
                self._alarm_ns = at_ns

    def _yield_cpu(self) -> None:
        assert self._running is not None
        if self._now_ns > self._since_ns:
            self.turns.append(Turn(self._running, self._since_ns, self._now_ns))
        self._running = None
