"""Whether coscheduling pays for a job: coschedule it, leave it alone, or run it in batch.

Two figures decide, both from the counters of the job's own tasks.

*Grain*: how long a task is scheduled for each message that it sends or waits for. Left to
the kernel, two jobs share a CPU in slices of about ``KERNEL_SLICE_S``. When a task needs a
message, its peer's job has the CPU on the other node half of the time: the message is late
by half a slice on average. So a job of grain g loses about ``KERNEL_SLICE_S / 2 / g`` of
its time for each other job that it shares with. Coscheduling spares it that; below
``LOSS_WORTH`` it is not worth the trouble.

*Idle share*: how much of the time in which it was scheduled a task waited for a message
nevertheless, its peers being scheduled too (imbalance, latency, input and output). What a
scheduled job leaves unused goes to others only in part. A job that idles more than
``IDLE_MOST`` is better mixed by the kernel, with waits that sleep.

Batch is for jobs that gain nothing from sharing a node at all: over within
``SLICES_LEAST`` slices, or so large that two of them do not fit into memory. It gives
them the whole node, one after the other.

The estimate is coarse, by intention: it says which of three things to try.
``cosched bench`` measures.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from cosched.core.units import format_bytes

#: What a task runs for at a time if another one wants its CPU: the least slice of CFS and
#: EEVDF on machines of several CPUs.
KERNEL_SLICE_S = 0.003
#: A job that loses less than this under the kernel is as well left alone.
LOSS_WORTH = 0.10
#: A job that idles more than this while it is scheduled wastes its turns.
IDLE_MOST = 0.50
#: A job of fewer slices is over before turns matter.
SLICES_LEAST = 2.0
#: Less time than this on the CPUs, and fewer messages, say nothing yet.
SEEN_LEAST_S = 1.0


class Choice(str, Enum):
    """What to do with a job."""

    COSCHEDULE = "coschedule"
    LEAVE_ALONE = "leave alone"
    BATCH = "batch"
    UNKNOWN = "not known yet"


@dataclass(frozen=True, slots=True)
class Profile:
    """What was seen of a job.

    ranks: how many it has; tasks: those that were seen, on ``nodes`` nodes.
    scheduled_s: how long it was scheduled, on average over these nodes.
    exchanges: how often these tasks sent a message or waited for one, whichever is more
        for each; None if they do not count.
    idle_s: what its tasks waited while they were scheduled, added up.
    response_s: how long it took alone; None if it is not over.
    need_bytes, node_bytes: of its largest part on a node, and of that node.
    """

    ranks: int
    tasks: int
    nodes: int
    scheduled_s: float
    exchanges: int | None
    idle_s: float
    slice_s: float
    response_s: float | None = None
    need_bytes: int = 0
    node_bytes: int = 0

    @property
    def grain_s(self) -> float | None:
        """How long a task is scheduled for each message; None without any."""
        return self.scheduled_s * self.tasks / self.exchanges if self.exchanges else None

    @property
    def idle_share(self) -> float:
        """The part of its scheduled time in which a task waited."""
        total = self.scheduled_s * self.tasks
        return min(1.0, max(0.0, self.idle_s / total)) if total else 0.0

    @property
    def loss(self) -> float:
        """What the kernel alone costs it for each job that it shares its CPUs with: 0.2 is
        a fifth more time."""
        return KERNEL_SLICE_S / 2 / self.grain_s if self.grain_s else 0.0


@dataclass(frozen=True, slots=True)
class Advice:
    """The choice, and why, for people."""

    choice: Choice
    reason: str


def advise(profile: Profile) -> Advice:
    """The first rule that applies."""
    if profile.ranks == 1:
        return Advice(Choice.LEAVE_ALONE, "its one task has nobody to wait for")
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
            Choice.UNKNOWN, "its messages are not counted: start it with --status shadow"
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
        f"{every}: left to the kernel it would lose about {_percent(profile.loss)} of its "
        "time for each job beside it",
    )


def _span(seconds: float) -> str:
    for scale, unit in ((1.0, "s"), (1e-3, "ms")):
        if seconds >= scale:
            return f"{seconds / scale:.3g} {unit}"
    return f"{seconds * 1e6:.3g} us"


def _percent(share: float) -> str:
    return f"{share:.0%}" if share < 10 else "many times"
