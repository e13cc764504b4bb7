"""Defines the settings of the Slurm engine."""

from __future__ import annotations

from dataclasses import dataclass

from cosched.core.errors import CoschedError

THEN = ("start", "yield")
CANNOT_YIELD = ("refuse", "hold")
_LONGEST_S = 30 * 86400
_AHEAD_S = 10.0


@dataclass(frozen=True, slots=True)
class SlurmSettings:
    """Times are seconds.

    conf: the cluster's ``slurm.conf``; empty: Slurm's own default. user: SlurmUser, as whom
    gates run.

    poll_s: how often ``squeue`` runs. command_s: how long a command of Slurm may take.
    try_s: how long a job may take from the order to start now until it has nodes.

    lease_s: a job that holds for so long yields, even if the controller does not answer.
    One that cannot yield starts.
    retry_s: how long the controller may be away; then a job with mates starts without them
    or yields (``then``).

    cannot_yield: srun and salloc jobs, and those with --no-requeue, cannot wait in the
    queue again. Such a job with mates is refused, or it only holds.
    """

    conf: str = ""
    user: str = "slurm"
    poll_s: float = 2.0
    command_s: float = 10.0
    try_s: float = 5.0
    lease_s: float = 3600.0
    retry_s: float = 60.0
    then: str = "start"
    cannot_yield: str = "refuse"

    @property
    def ahead_s(self) -> float:
        """How long before the end of a lease the controller starts a job that cannot
        yield."""
        return min(self.lease_s / 2, _AHEAD_S)

    def __post_init__(self) -> None:
        for name, least in (
            ("poll_s", 0.05),
            ("command_s", 0.5),
            ("try_s", 0.5),
            ("lease_s", 1.0),
            ("retry_s", 0.0),
        ):
            value = getattr(self, name)
            if not least <= value <= _LONGEST_S:
                raise CoschedError(
                    f"slurm.{name.removesuffix('_s')} = {value:g}s: "
                    f"want {least:g}s to {_LONGEST_S // 86400} days"
                )
        for name, known in (("then", THEN), ("cannot_yield", CANNOT_YIELD)):
            if getattr(self, name) not in known:
                raise CoschedError(
                    f"slurm.{name} = '{getattr(self, name)}': want {' or '.join(known)}"
                )
