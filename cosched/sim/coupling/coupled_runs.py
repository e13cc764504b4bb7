"""Runs coupled domains and computes the figures of each (Tang et al., section V.C).

wait, slowdown: means over all jobs. sync: the time from when a job of a group was first
ready until it started, as a mean over all jobs of groups; 0 for a job that never waited
for a mate. lost: node-hours held idle, also as a share of all node-hours between the
first and the last submission.
"""

from __future__ import annotations

import time
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np

from cosched.core.cluster.coupling.coupled_queue import CoupledQueue
from cosched.core.cluster.coupling.groups import Group, Rights, Timing
from cosched.core.cluster.coupling.machine import Coupling as Machine
from cosched.core.cluster.coupling.settings import CouplingSettings
from cosched.core.cluster.queue.machine import QueueMachine
from cosched.core.cluster.queue.places.blocks import allocation_of
from cosched.core.cluster.queue.places.ledger import Ledger
from cosched.core.cluster.queue.policies import POLICIES
from cosched.core.units import LENGTH_MAX_NS, NS_PER_S
from cosched.sim.coupling.domains import CoupledDomain, Exchange
from cosched.sim.coupling.pairs import Mates, groups_of
from cosched.sim.logs.workload import Estimates, Workload
from cosched.sim.queue.metrics import column
from cosched.sim.virtual_time import NEVER, Progress, VirtualTime, no_progress

HOUR_NS = 3600 * NS_PER_S


@dataclass(frozen=True, slots=True)
class Coupling:
    """Settings that all domains of a run share."""

    policy: str = "wfp"  #: a name of POLICIES
    estimates: Estimates = Estimates.LOG  #: the durations that the queues expect
    timing: Timing = Timing.TOGETHER  #: how the jobs of a group should start
    #: In a group, the greatest gap (within) or the lead (after); 0 for together.
    delay_ns: int = 0
    #: The domains that give jobs aligned blocks, and the nodes of their least block.
    units: Mapping[str, int] = field(default_factory=dict)
    #: The search time of each domain, see Exchange. The other domains answer at once.
    search_ns: Mapping[str, int] = field(default_factory=dict)
    down: frozenset[str] = frozenset()  #: the domains that never answer


@dataclass(frozen=True, slots=True)
class Coupled:
    """The result of a run."""

    groups: int  #: the number of groups
    kept: int  #: groups whose jobs satisfied their constraint
    together: int  #: groups whose jobs all started at the same moment
    stuck: int  #: jobs that never started
    domains: dict[str, dict[str, float]]  #: the figures of each domain that answers
    #: How often each of the same domains took each branch.
    counts: dict[str, dict[str, int]]
    cpu_s: float  #: CPU time of the simulator
    #: The jobs of the same domains; empty after they are saved.
    schedules: dict[str, CoupledSchedule]

    def document(self) -> dict[str, Any]:
        """Returns the result as JSON, without the schedules."""
        document = asdict(replace(self, schedules={}))
        del document["schedules"]
        return document


@dataclass(frozen=True, slots=True)
class CoupledSchedule:
    """The jobs of one domain."""

    workload: Workload  #: the domain's part of its log
    start_ns: array[int]  #: when each job started, virtual time; NEVER: it did not
    #: When each job was first ready but could not start; NEVER: it did not wait.
    ready_ns: array[int]
    groups: dict[int, Group]  #: by the index of the job; others have no mate


def simulate(
    logs: Sequence[Workload],
    names: Sequence[str],
    mates: Sequence[Mates],
    settings: Sequence[CouplingSettings],
    coupling: Coupling | None = None,
    progress: Progress = no_progress,
) -> Coupled:
    """Runs each log through a domain with its name and settings."""
    began_s = time.process_time()
    how = coupling or Coupling()
    engine = VirtualTime()
    exchange = Exchange(engine, how.search_ns)
    groups = groups_of(mates, names, how.timing, how.delay_ns)
    # A domain that is down stays down: nothing asks whether it is back.
    lasting = [
        replace(own, patience=replace(own.patience, probe_ns=LENGTH_MAX_NS))
        for own in settings
    ]
    domains = {
        name: CoupledDomain(
            engine,
            exchange,
            log,
            make_queue(name, log.machine, how.policy, own, names, how.units.get(name)),
            how.estimates,
            its_groups,
        )
        for log, name, own, its_groups in zip(logs, names, lasting, groups, strict=True)
        if name not in how.down
    }
    jobs = sum(len(domain.start_ns) for domain in domains.values())
    engine.run(lambda: progress(sum(each.ended for each in domains.values()) / jobs))
    starts = [
        domains[name].start_ns if name in domains else array("q", [NEVER]) * len(log)
        for name, log in zip(names, logs, strict=True)
    ]
    up = {
        name: CoupledSchedule(log, domains[name].start_ns, domains[name].ready_ns, own)
        for name, log, own in zip(names, logs, groups, strict=True)
        if name in domains
    }
    return Coupled(
        groups=len(mates),
        kept=sum(_kept(group, logs, starts, how) for group in mates),
        together=sum(
            len({starts[place][index] for place, index in group.items()} | {NEVER}) == 2
            for group in mates
        ),
        stuck=sum(domain.start_ns.count(NEVER) for domain in domains.values()),
        domains={name: _figures(each, domains[name]) for name, each in up.items()},
        counts={name: domain.counts for name, domain in domains.items()},
        cpu_s=time.process_time() - began_s,
        schedules=up,
    )


def make_queue(
    name: str,
    machine: int,
    policy: str,
    settings: CouplingSettings,
    names: Sequence[str],
    unit: int | None = None,
) -> CoupledQueue:
    """Returns the queue of a simulated domain; the users of all domains are the same.
    unit: the nodes of the least block, if jobs get aligned blocks."""
    nodes, chosen = ((0, machine - 1),), POLICIES[policy]
    queue = QueueMachine(Ledger(nodes, allocation=allocation_of(unit)), chosen)
    rights = Rights(same_names=frozenset(names))
    return CoupledQueue(queue, Machine(name, settings, rights))


def _kept(
    group: Mates, logs: Sequence[Workload], starts: Sequence[array[int]], how: Coupling
) -> bool:
    """Returns whether the starts of a group's jobs satisfied their constraint."""
    begins = [starts[place][index] for place, index in group.items()]
    if NEVER in begins:
        return False
    if how.timing is not Timing.AFTER:
        # The delay of groups that start together is 0.
        return max(begins) - min(begins) <= how.delay_ns
    leader = group[0]
    due_ns = starts[0][leader] + min(how.delay_ns, logs[0].run_ns[leader])
    return all(
        starts[place][index] >= due_ns for place, index in group.items() if place != 0
    )


def _figures(schedule: CoupledSchedule, domain: CoupledDomain) -> dict[str, float]:
    log = schedule.workload
    submit, run, start, ready = map(
        column, (log.submit_ns, log.run_ns, schedule.start_ns, schedule.ready_ns)
    )
    started = start != NEVER
    wait = (start - submit)[started] / NS_PER_S
    ran = started & (run > 0)
    slowdown = (start - submit + run)[ran] / run[ran]
    grouped = np.zeros(len(log), dtype=bool)
    grouped[list(schedule.groups)] = True
    grouped &= started
    waited = grouped & (ready != NEVER)
    sync_s = float((start - ready)[waited].sum()) / NS_PER_S
    span_ns = log.submit_ns[-1] - log.submit_ns[0]
    node_ns = column(log.size) * (run / NS_PER_S)
    span_s = max(span_ns / NS_PER_S, 1.0)
    return {
        "jobs": len(log),
        "grouped": int(grouped.sum()),
        "load": float(node_ns.sum()) / (log.machine * span_s),
        "mean_wait_s": float(wait.mean()) if wait.size else 0.0,
        "mean_slowdown": float(slowdown.mean()) if slowdown.size else 1.0,
        "mean_sync_s": sync_s / max(1, int(grouped.sum())),
        "lost_node_h": domain.held_node_ns / HOUR_NS,
        "lost_share": domain.held_node_ns / NS_PER_S / (log.machine * span_s),
    }
