"""Advises whether to coschedule a job, to leave it alone, or to run it in batch.

Two figures decide. Both come from the counters of the job's own tasks.

*Grain*: how long a task is scheduled for each message that it sends or waits for. Under the
kernel alone, two jobs share a CPU in slices of about ``KERNEL_SLICE_S``. When a task needs
a message, its peer's job has the CPU on the other node half of the time, so the message is
late by half a slice on average. A job of grain g then loses about ``KERNEL_SLICE_S / 2 /
g`` of its time for each job that shares its CPUs. Coscheduling avoids this loss. A loss
below ``LOSS_WORTH`` is not worth it.

*Idle share*: the part of its scheduled time in which a task waited for a message, although
its peers were scheduled too. The causes are imbalance, latency, input and output. Other
jobs can use only a part of that time. A job that idles more than ``IDLE_MOST`` should share
its CPUs under the kernel, with waits that sleep.

Batch suits a job that gains nothing from sharing a node: it ends within ``SLICES_LEAST``
slices, or it is so large that two such jobs do not fit into memory. Batch gives each job
the whole node, one job after the other.

The estimate is coarse. It says which of the three to try; ``cosched bench`` measures.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from cosched.core.units import format_bytes

#: How long a task runs at a time if another one wants its CPU: the least slice of CFS and
#: EEVDF on machines with several CPUs.
KERNEL_SLICE_S = 0.003
#: A job that loses less than this under the kernel is left alone.
LOSS_WORTH = 0.10
#: A job that idles more than this while it is scheduled wastes its turns.
IDLE_MOST = 0.50
#: A job of fewer slices ends before turns matter.
SLICES_LEAST = 2.0
#: A job must have been scheduled for this long before its counters mean anything.
SEEN_LEAST_S = 1.0


class Choice(str, Enum):
    """The three ways to run a job."""

    COSCHEDULE = "coschedule"
    LEAVE_ALONE = "leave alone"
    BATCH = "batch"
    UNKNOWN = "not known yet"


@dataclass(frozen=True, slots=True)
class Profile:
    """The measurements of a job."""

    ranks: int  #: the number of its ranks
    tasks: int  #: the number of measured ranks
    nodes: int  #: the number of nodes that the measured ranks run on
    #: How long it was scheduled, on average over these nodes, in seconds.
    scheduled_s: float
    #: The messages that the tasks sent or waited for: for each task the larger of both
    #: numbers. None: the tasks do not count messages.
    exchanges: int | None
    #: How long its tasks waited while they were scheduled, as a sum, in seconds.
    idle_s: float
    slice_s: float  #: the slice of the nodes, in seconds
    #: How long it took alone, in seconds; None: it has not ended.
    response_s: float | None = None
    need_bytes: int = 0  #: the memory of its largest part on a node
    node_bytes: int = 0  #: the memory of the node with that part

    @property
    def grain_s(self) -> float | None:
        """How long a task is scheduled for each message; None without messages."""
        return self.scheduled_s * self.tasks / self.exchanges if self.exchanges else None

    @property
    def idle_share(self) -> float:
        """The part of its scheduled time in which a task waited."""
        total = self.scheduled_s * self.tasks
        return min(1.0, max(0.0, self.idle_s / total)) if total else 0.0

    @property
    def loss(self) -> float:
        """The part of its time that each job on its CPUs costs it under the kernel
        alone."""
        return KERNEL_SLICE_S / 2 / self.grain_s if self.grain_s else 0.0


@dataclass(frozen=True, slots=True)
class Advice:
    """How a job should share CPUs."""

    choice: Choice  #: the advised way
    reason: str  #: why, a text for people


def advise(profile: Profile) -> Advice:
    """Returns the advice of the first rule that applies."""
    if profile.ranks == 1:
        return Advice(Choice.LEAVE_ALONE, "it has one task, which waits for no other")
    if profile.node_bytes and 2 * profile.need_bytes > profile.node_bytes:
        return Advice(
            Choice.BATCH,
            f"it needs {format_bytes(profile.need_bytes)} of a node's "
            f"{format_bytes(profile.node_bytes)}: two such jobs do not fit",
        )
    if profile.response_s is not None and (
        profile.response_s < SLICES_LEAST * profile.slice_s
    ):
        return Advice(
            Choice.BATCH,
            f"it is over in {profile.response_s:.1f} s, less than {SLICES_LEAST:g} slices "
            f"of {profile.slice_s:g} s",
        )
    if profile.exchanges is None:
        return Advice(
            Choice.UNKNOWN, "its messages are not counted: start it with --carrier shadow"
        )
    if profile.scheduled_s < SEEN_LEAST_S:
        return Advice(
            Choice.UNKNOWN,
            f"it has been scheduled for only {profile.scheduled_s:.1f} s; ask again",
        )
    return _by_grain(profile)


def _by_grain(profile: Profile) -> Advice:
    grain_s = profile.grain_s
    if grain_s is None:
        return Advice(
            Choice.LEAVE_ALONE,
            "its tasks exchange no messages: coscheduling cannot pay",
        )
    every = f"a message every {_span(grain_s)} a task"
    if profile.loss < LOSS_WORTH:
        return Advice(
            Choice.LEAVE_ALONE,
            f"{every}: the kernel alone costs it about {_percent(profile.loss)} for each "
            "job beside it, so coscheduling does not pay",
        )
    if profile.idle_share > IDLE_MOST:
        return Advice(
            Choice.LEAVE_ALONE,
            f"it idles for {_percent(profile.idle_share)} of its scheduled time though its "
            "peers are scheduled: others can use that; try --wait block --waits-only",
        )
    return Advice(
        Choice.COSCHEDULE,
        f"{every}: left to the kernel it would take about {1 + profile.loss:.2g} times as "
        "long for each job beside it",
    )


def _span(seconds: float) -> str:
    for scale, unit in ((1.0, "s"), (1e-3, "ms")):
        if seconds >= scale:
            return f"{seconds / scale:.3g} {unit}"
    return f"{seconds * 1e6:.3g} us"


def _percent(share: float) -> str:
    return f"{share:.0%}" if share < 10 else "many times"
