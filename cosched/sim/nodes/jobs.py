"""Holds the state of simulated nodes and of the jobs that run on them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from cosched.core.node.machine import NodeScheduler
from cosched.core.node.messages import OrderTimer, PublishStatus
from cosched.sim.nodes.model import Pattern, Program
from cosched.sim.nodes.ranks import Ranks


class SimulatedNode:
    """A node: its scheduler, its clock, its timer."""

    __slots__ = ("alarm", "began_ns", "clock_ns", "fired_ns", "machine", "orders", "timer")

    def __init__(self, machine: NodeScheduler, clock_ns: int, began_ns: int) -> None:
        self.machine = machine
        self.clock_ns = clock_ns
        self.orders = OrderTimer(idle=True, align=False, slice_ns=0, deadline_ns=0)
        self.timer = 0  # the version of the order in force
        self.alarm = 0
        self.fired_ns = 0
        self.began_ns = began_ns  # when its timer began


def launch_of(program: Program) -> Program:
    """Returns the work of the ranks before all of them first meet."""
    return replace(program, pattern=Pattern.NONE, work_ns=program.launch_ns, imbalance=0.0)


class SimulatedJob:
    """A job, and the status that its nodes published to its ranks."""

    def __init__(self, program: Program, nodes: range, seed: int) -> None:
        self.program = program
        #: The present work of its ranks: the launch, then the program.
        self.part = launch_of(program) if program.launch_ns else program
        self.key = f"0.{program.name}"
        self.nodes = nodes
        ranks = len(nodes)
        self.chance = np.random.default_rng(seed)
        self.launched_ns = 0
        self.registered = 0
        self.ranks: Ranks | None = None  # until all have registered
        self.start_ns: int | None = None  # the program begins, after the launch
        self.end_ns: int | None = None
        self.version = 0  # counts changes of the part's expected end
        self.scheduled = np.zeros(ranks, dtype=np.bool_)  # as published
        self.on = np.zeros(ranks, dtype=np.bool_)  # as the ranks run
        self.epoch = np.zeros(ranks, dtype=np.int64)
        self.asked = np.full(ranks, -1, dtype=np.int64)  # the epoch of the last request
        self.trap_ns = np.full(ranks, np.inf)  # when it will ask
        self.glance = self.chance.random(ranks)  # when it looks, as a share of trap_ns

    @property
    def running(self) -> bool:
        return self.ranks is not None and self.end_ns is None

    def publish(self, rank: int, status: PublishStatus) -> None:
        """Applies a published status to a rank."""
        self.scheduled[rank] = status.scheduled
        self.epoch[rank] = status.epoch
        self.trap_ns[rank] = np.inf
        self.glance[rank] = self.chance.random()
