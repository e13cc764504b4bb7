"""Declares ``[queue]`` of ``domain.toml``: how jobs wait, and how their sizes change."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from cosched.core.cluster.queue.plans.conservative import Conservative
from cosched.core.cluster.queue.plans.easy import Easy
from cosched.core.cluster.queue.policies import POLICIES, Policy
from cosched.core.cluster.queue.sizes.harvest_policies import HARVESTS, LOW_IMPACT
from cosched.core.cluster.queue.sizes.settings import (
    MOLDABLE,
    Control,
    Distribution,
    SizePolicy,
)
from cosched.core.cluster.queue.sizes.suspension import Suspension
from cosched.core.config.kinds import decimal, duration, one_of, whole
from cosched.core.config.mistakes import Mistake
from cosched.core.config.tables import differences, key, table
from cosched.core.units import NS_PER_S

#: Each job keeps the number of nodes that its user gives.
RIGID = "rigid"
#: The queue changes the number of nodes of a job while it runs.
MALLEABLE = "malleable"
#: A moldable job keeps the number of nodes with which it starts.
SIZES = (RIGID, "moldable", MALLEABLE)
#: A job has whole nodes, or as many CPUs of each of its nodes as it has tasks there.
NODE, CPU = UNITS = ("node", "cpu")


@dataclass(frozen=True, slots=True)
class ChangeSettings:
    """[queue.changes]: when the queue changes the sizes of malleable jobs."""

    harvest: str = key(
        one_of(*HARVESTS), LOW_IMPACT.name, "Which jobs give nodes to others.", live=True
    )
    distribution: str = key(
        one_of(*(each.value for each in Distribution)),
        Distribution.FAVOUR_RUNNING.value,
        "Who gets the nodes of a job that has ended.",
        live=True,
    )
    #: None: no limit.
    degree: int | None = key(
        whole(1),
        None,
        "Jobs take nodes from others below this number of jobs.",
        live=True,
    )
    #: None: no limit.
    harvest_limit: int | None = key(
        whole(0), None, "How often a job gives nodes to others at most.", live=True
    )
    protected_ns: int = key(
        duration(), 0, "The age below which a job gives no nodes to others.", live=True
    )
    least_benefit: float = key(
        decimal("a number of 0 or more", lambda value: 0.0 <= value < float("inf")),
        0.0,
        "The least benefit of a change, as a multiple of its cost.",
        live=True,
    )
    late_after_ns: int = key(
        duration(1), 60 * NS_PER_S, "A change is withdrawn after this time.", live=True
    )
    spared_ns: int = key(
        duration(1),
        60 * NS_PER_S,
        "How long a job keeps its size after a change that failed.",
        live=True,
    )

    #: None: no job is suspended.
    suspend_ns: int | None = key(
        duration(1),
        None,
        "The longest time limit of a job that gets the nodes of a suspended one.",
        live=True,
    )
    suspend_limit: int = key(
        whole(1), 2, "How often a job is suspended at most.", live=True
    )

    @property
    def suspension(self) -> Suspension | None:
        """When jobs are suspended; None: never."""
        if self.suspend_ns is None:
            return None
        return Suspension(self.suspend_ns, self.suspend_limit)

    @property
    def sizes(self) -> SizePolicy:
        """The policy of sizes for the queue."""
        control = Control(
            self.harvest_limit,
            self.protected_ns,
            self.least_benefit,
            self.late_after_ns,
            self.spared_ns,
        )
        harvest, distribution = HARVESTS[self.harvest], Distribution(self.distribution)
        return SizePolicy(
            harvest, distribution, self.degree, control, suspension=self.suspension
        )


@dataclass(frozen=True, slots=True)
class QueueSettings:
    """[queue]: how jobs wait and end."""

    policy: str = key(one_of(*POLICIES), "easy", "The order and the plan.", live=True)
    jobs_per_node: int = key(
        whole(1), 1, "How many jobs may share a node, or a CPU.", live=True
    )
    #: None: such a job has no limit.
    default_time_ns: int | None = key(
        duration(1), None, "The limit of a job that names none.", live=True
    )
    grace_ns: int = key(
        duration(),
        10 * NS_PER_S,
        "The time above its limit, and between SIGTERM and SIGKILL.",
        live=True,
    )
    size: str = key(one_of(*SIZES), RIGID, "Whether jobs may have several sizes.")
    changes: ChangeSettings = table(ChangeSettings)
    unit: str = key(one_of(*UNITS), NODE, "What a job has: whole nodes, or CPUs.")
    block: int = key(
        whole(0), 0, "The nodes of the least aligned block of a job; 0: any nodes."
    )

    def contradictions(self) -> Iterator[Mistake]:
        """Yields settings that do not combine with CPUs, or with sizes that change."""
        if self.unit == CPU and POLICIES[self.policy].plan is Conservative:
            text = f'does not combine with unit = "{CPU}"; choose another one'
            yield Mistake("policy", f"{self.policy} {text}")
        if self.block:
            yield from self._mistakes_with_blocks()
        if self.size == RIGID:
            return
        if self.unit == CPU:
            text = f'write "{NODE}": size = "{self.size}" needs whole nodes'
            yield Mistake("unit", text)
        policy = POLICIES[self.policy]
        if not policy.takes_sizes:
            text = f'does not combine with size = "{self.size}"; write "easy" or "fcfs"'
            yield Mistake("policy", f"{self.policy} {text}")
        elif policy.plan is Easy:
            problem = self.decides.sizes and self.decides.sizes.problem_with_easy
            if problem:
                name, text = problem
                yield Mistake(f"changes.{name}", text)
        if self.jobs_per_node != 1:
            text = f'write 1: size = "{self.size}" needs nodes with one job each'
            yield Mistake("jobs_per_node", text)

    def without_effect(self) -> Iterator[Mistake]:
        """Yields the settings of changes where the sizes of jobs stay."""
        if self.size == RIGID:
            for name in differences(ChangeSettings(), self.changes):
                yield Mistake(f"changes.{name}", f'has no effect with size = "{RIGID}"')

    def _mistakes_with_blocks(self) -> Iterator[Mistake]:
        """Yields settings that do not combine with blocks of nodes."""
        blocks = f"does not combine with block = {self.block}"
        if POLICIES[self.policy].plan is Conservative:
            yield Mistake("policy", f"{self.policy} {blocks}; choose another one")
        if self.unit == CPU:
            yield Mistake("unit", f'{CPU} {blocks}; write "{NODE}"')
        if self.size != RIGID:
            yield Mistake("size", f'{self.size} {blocks}; write "{RIGID}"')
        if self.jobs_per_node != 1:
            yield Mistake("jobs_per_node", f"write 1: another number {blocks}")

    @property
    def decides(self) -> Policy:
        """The order, the plan and the sizes of the queue."""
        policy = POLICIES[self.policy]
        if self.size == RIGID:
            return policy
        sizes = self.changes.sizes
        if self.size == MALLEABLE:
            return replace(policy, sizes=sizes)
        if sizes.suspension is None:
            return replace(policy, sizes=MOLDABLE)
        control, suspension = sizes.control, sizes.suspension
        return replace(
            policy, sizes=replace(MOLDABLE, control=control, suspension=suspension)
        )
