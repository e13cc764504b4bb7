"""Fills the options that say how ranks take part in coscheduling from the configuration.
Checks the operator's limits."""

from __future__ import annotations

import os

from cosched.core.named_tuples import NamedTuple
from cosched.jobs.choices import Choices, usual_choices
from cosched.launch.environment import wait_policy

#: Ranks read it, too.
REQUIRE = "COSCHED_REQUIRE"


class Asked(NamedTuple):
    """The options; None: as configured."""

    carrier: str | None = None  #: how the sender's status travels
    wait: str | None = None  #: how ranks of a scheduled job wait
    require_all: bool = False  #: the job ends unless all its nodes coschedule it
    waits_only: bool = False  #: only ``wait`` applies
    no_shim: bool = False  #: the job starts without cosched

    @property
    def coschedules(self) -> bool:
        """Whether the job takes part."""
        return not (self.no_shim or self.waits_only)

    def choices(self) -> Choices:
        """Takes each choice from the options, otherwise from the configuration.

        Raises UsageError where options contradict each other, CoschedError at a limit.
        """
        usual = usual_choices(os.environ, os.geteuid())
        policy = wait_policy(self.wait) if self.wait is not None else ""
        if self.no_shim and (self.waits_only or policy not in ("", "spin")):
            raise _misuse("--no-shim cannot be combined with --wait.")
        if not policy:
            policy = "spin" if self.no_shim else usual.policy
        if self.require_all and not self.coschedules:
            raise _misuse("--require-all needs coscheduling.")
        if self.waits_only and policy in ("spin", "busy"):
            raise _misuse("--waits-only needs --wait yield, block or auto.")
        needs_all = self.require_all or usual.needs_all or os.environ.get(REQUIRE) == "all"
        chosen = Choices(policy, self.carrier or usual.carrier, usual.limits, needs_all)
        if not self.no_shim:
            chosen.check_wait()
        return chosen


def _misuse(line: str) -> Exception:
    import click  # most starts make no mistake

    return click.UsageError(line)
