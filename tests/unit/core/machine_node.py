"""A node's machine with a clock, for the tests of the machine."""

from __future__ import annotations

from dataclasses import dataclass, field

from cosched.core.node.machine import NodeScheduler
from cosched.core.node.messages import (
    AddTask,
    CreateClass,
    DestroyClass,
    Event,
    FreezeClass,
    MessageTrapped,
    ModeChosen,
    OrderTimer,
    PublishContention,
    PublishMode,
    PublishStatus,
    RemoveTask,
    SetAlarm,
    SetClassCpus,
    SetShares,
    TaskRegistered,
    ThawClass,
)
from cosched.core.node.settings import Settings
from cosched.core.units import NS_PER_MS, NS_PER_S

ONE_CPU = frozenset({0})
FREE = Settings(slice_ns=NS_PER_S, gmet_ns=100 * NS_PER_MS, align=False)
ALIGNED = Settings(slice_ns=NS_PER_S, gmet_ns=100 * NS_PER_MS, align=True)
#: A job has a part of each period: perhaps early in one, and late in the next one.
PERIODS_NS = 3 * Settings().least_share.period_ns


@dataclass
class Node:
    """A machine with a clock, and the state that its commands make."""

    settings: Settings = FREE
    now_ns: int = 10 * NS_PER_S
    wall_ahead_ns: int = 0  #: the wall clock's lead over the monotonic one
    published: dict = field(default_factory=dict)
    members: dict = field(default_factory=dict)
    shares: dict = field(default_factory=dict)
    widths: dict = field(default_factory=dict)
    shared: dict = field(default_factory=dict)
    contended: set = field(default_factory=set)
    modes: dict = field(default_factory=dict)
    frozen: dict = field(default_factory=dict)
    alarm_ns: int | None = None
    orders: OrderTimer | None = None

    def __post_init__(self):
        self.machine = NodeScheduler(self.settings)

    def send(self, kind: type[Event], *, after_ns: int = 0, **fields):
        self.now_ns += after_ns
        commands = self.machine.handle(
            kind(now_ns=self.now_ns, wall_ns=self.now_ns + self.wall_ahead_ns, **fields)
        )
        for command in commands:
            self.apply(command)
        return commands

    def apply(self, command):
        match command:
            case PublishStatus(job, epoch, scheduled):
                assert epoch >= self.published.get(job, (0, None))[0]
                assert not (scheduled and job in self.frozen)
                self.published[job] = (epoch, scheduled)
            case CreateClass(job, cpus):
                assert job not in self.members
                self.members[job] = set()
                self.widths[job] = cpus
            case SetClassCpus(job, cpus):
                assert job in self.members
                self.widths[job] = cpus
            case AddTask(job, task):
                self.members[job].add(task)
            case RemoveTask(job, task):
                self.members[job].remove(task)
            case DestroyClass(job):
                del self.members[job]
                for record in (self.shares, self.widths, self.shared):
                    record.pop(job, None)
                self.contended.discard(job)
            case FreezeClass(job):
                self.frozen[job] = set(self.members[job])
            case ThawClass(job):
                del self.frozen[job]
            case PublishMode(job, mode):
                self.modes[job] = mode
            case SetShares(percents):
                self.shares = dict(percents)
                self.shared = {job: self.widths[job] for job in self.shares}
            case SetAlarm(at_ns):
                self.alarm_ns = at_ns
            case OrderTimer():
                self.orders = command
            case PublishContention(job, contended):
                assert contended != (job in self.contended)
                self.contended ^= {job}
        # Otherwise no daemon continues the job if this one dies now.
        assert all(self.modes[job].stops for job in self.frozen)

    def register(self, job, task=None, cpus=ONE_CPU, **kw):
        task = task if task is not None else ord(job[0])
        return self.send(TaskRegistered, job=job, task=task, cpus=cpus, **kw)

    def trap(self, job, **kw):
        state = self.machine.jobs[job]
        task = next(iter(state.tasks))
        return self.send(MessageTrapped, job=job, task=task, epoch=state.epoch, **kw)

    def choose(self, job, mode, **kw):
        return self.send(ModeChosen, job=job, mode=mode, **kw)

    @property
    def running(self):
        return {key for key, job in self.machine.jobs.items() if job.scheduled}
