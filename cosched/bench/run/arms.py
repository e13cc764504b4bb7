"""Defines the arms of a bench: the ways to run one workload that are compared.

The arms differ in nothing else than this table:

    batch         one job after the other, in the order of submission, each with all
                  nodes to itself
    kernel        every job at its submission; the operating system alone shares the CPUs
    yield         the same, but ranks that wait offer their CPU to others
    block         the same, but ranks that wait sleep after some microseconds
    gang          every job at its submission; one driver switches all nodes at
                  once (gang.py)
    slurm-gang    time-sliced by a Slurm on the lab's nodes (scripts/slurm-lab)
    messages      coscheduled by messages alone, as Yoo and Jette decide: ``order=paper``,
                  and ranks that spin while they wait for a turn
    paper         the same, with all else as in the paper: strict mode, the status in front
                  of each message, and ranks that register in MPI_Init
    strict        coscheduled, by daemons in strict mode: time a job leaves unused is lost
    proportional  coscheduled, by daemons in proportional mode
    cosched       coscheduled, by the daemons as they are

Two arms are never run. They are calculated from the runs of batch (simulate/ideal.py):

    srpt          the job with the least rest runs first
    las           the jobs that have run least share the machine

The last one is no way to run the jobs, but what none can beat. It is calculated
(simulate/bound.py) from runs of each program alone, with ranks that sleep while they wait:

    bound         the work that no schedule can avoid
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

from cosched.core.errors import CoschedError


class Arm(Enum):
    """One way to run a workload."""

    BATCH = "batch"
    KERNEL = "kernel"
    YIELD = "yield"
    BLOCK = "block"
    GANG = "gang"
    SLURM_GANG = "slurm-gang"
    MESSAGES = "messages"
    PAPER = "paper"
    STRICT = "strict"
    PROPORTIONAL = "proportional"
    COSCHED = "cosched"
    SRPT = "srpt"
    LAS = "las"
    BOUND = "bound"

    @property
    def calculated(self) -> bool:
        """Whether its figures are calculated, with the help of the runs of batch."""
        return self in (Arm.SRPT, Arm.LAS, Arm.BOUND)

    @property
    def runs_alone(self) -> bool:
        """Whether each program runs alone once, in the place of the workload."""
        return self is Arm.BOUND

    @property
    def coscheduled(self) -> bool:
        """Whether the jobs' tasks register with the daemons."""
        return self in (
            Arm.GANG,
            Arm.MESSAGES,
            Arm.PAPER,
            Arm.STRICT,
            Arm.PROPORTIONAL,
            Arm.COSCHED,
            Arm.BOUND,
        )

    @property
    def mode(self) -> str | None:
        """The mode that the daemons must have; None: any."""
        if self is Arm.PAPER:
            return Arm.STRICT.value
        return self.value if self in (Arm.STRICT, Arm.PROPORTIONAL) else None

    @property
    def options(self) -> tuple[str, ...]:
        """The options of cosched-run."""
        if self in (Arm.YIELD, Arm.BLOCK):
            return ("--waits-only", "--wait", self.value)
        if self is Arm.GANG:
            return ("--carrier", "none")
        if self is Arm.BOUND:
            return ("--wait", "block")
        if self is Arm.MESSAGES:
            return ("--wait", "busy")
        if self is Arm.PAPER:
            return ("--wait", "busy", "--carrier", "prefix", "--register", "init")
        return () if self.coscheduled else ("--no-shim",)

    @property
    def settings(self) -> Mapping[str, str]:
        """The nodes' settings during its runs."""
        if self is Arm.GANG:  # the daemons' own timers do not switch
            return {"align": "off", "slice": "3600s"}
        return {"order": "paper"} if self in (Arm.MESSAGES, Arm.PAPER) else {}


#: The arms that run the workload.
MEASURED = tuple(arm for arm in Arm if not arm.calculated)


@dataclass(frozen=True, slots=True)
class Setup:
    """One way to run a workload: an arm and further changes."""

    arm: Arm  #: the way to run the jobs
    #: As for ``cosched config set``, on top of those of the whole bench.
    settings: Mapping[str, str] = field(default_factory=dict)
    #: The number of jobs that run at a time; the others wait, first come, first served.
    #: None: all run.
    dom: int | None = None

    @property
    def name(self) -> str:
        """Unique among the setups of one workload: ``cosched slice=1s dom=3``."""
        words = [self.arm.value]
        words += [f"{name}={text}" for name, text in sorted(self.settings.items())]
        words += [f"dom={self.dom}"] if self.dom is not None else []
        return " ".join(words)

    @property
    def jobs_at_a_time(self) -> int | None:
        """The number of jobs that run at a time; None: all."""
        one_by_one = self.arm is Arm.BATCH or self.arm.runs_alone
        return 1 if one_by_one else self.dom


def parse_arms(text: str, known: Sequence[Arm] = MEASURED) -> tuple[Arm, ...]:
    """Returns the arms in a list like ``batch,kernel,cosched``; each must be known."""
    names = [name.strip() for name in text.split(",")]
    valid = [arm.value for arm in known]
    for name in names:
        if name not in valid:
            raise CoschedError(
                f"--arms: '{name}' is not an arm; the arms are {', '.join(valid)}"
            )
        if names.count(name) > 1:
            raise CoschedError(f"--arms: '{name}' is given twice; name each arm once")
        if Arm(name).calculated and Arm.BATCH.value not in names:
            raise CoschedError(
                f"--arms: '{name}' is calculated from the runs of batch; add batch"
            )
    return tuple(Arm(name) for name in names)
