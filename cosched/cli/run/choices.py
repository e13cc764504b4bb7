"""Declares the options of cosched-run that say how ranks take part in coscheduling. Fills
them from the configuration and checks the operator's limits."""

from __future__ import annotations

import os
from dataclasses import dataclass

import click

from cosched.cli.declared import flag, option
from cosched.config.cosched_toml import load
from cosched.core.config.limits import limits_for, refuse_wait
from cosched.core.config.schema import CARRIERS
from cosched.core.errors import CoschedError
from cosched.jobs.choices import Choices
from cosched.launch.environment import wait_policy

#: Ranks read it, too.
REQUIRE = "COSCHED_REQUIRE"


@dataclass(frozen=True)
class Asked:
    """The options; None: as configured."""

    carrier: str | None = option(
        type=click.Choice(["auto", *CARRIERS]),
        help="How the sender's status travels: shadow, in messages of its own; prefix, one"
        " byte in front of each message; none, not at all. auto: shadow, but none"
        " without a shim.  [default: the configuration's, auto]",
    )
    wait: str | None = option(
        metavar="HOW",
        help="How ranks of a scheduled job wait: spin (as the MPI does), yield,"
        " block[:TIME], which spins for TIME (20us) and then sleeps, or auto[:TIME], which"
        " blocks where the CPUs are shared now. busy: ranks spin also while the job waits"
        " for its turn.  [default: the configuration's, spin]",
    )
    require_all: bool = flag(
        help="End the job in MPI_Init unless a daemon coschedules it on each of its nodes."
    )
    waits_only: bool = flag(help="Apply --wait, but do not coschedule.")
    no_shim: bool = flag(help="Start the job without cosched.")

    @property
    def coschedules(self) -> bool:
        """Whether the job takes part."""
        return not (self.no_shim or self.waits_only)

    def choices(self) -> Choices:
        """Takes each choice from the options, otherwise from the configuration.

        Raises UsageError where options contradict each other, CoschedError at a limit.
        """
        config, _ = load(os.environ)
        policy = wait_policy(self.wait) if self.wait is not None else ""
        if self.no_shim and (self.waits_only or policy not in ("", "spin")):
            raise click.UsageError("--no-shim cannot be combined with --wait.")
        if not policy:
            policy = "spin" if self.no_shim else wait_policy(config.run.wait)
        if self.require_all and not self.coschedules:
            raise click.UsageError("--require-all needs coscheduling.")
        if self.waits_only and policy in ("spin", "busy"):
            raise click.UsageError("--waits-only needs --wait yield, block or auto.")
        limits = limits_for(config.limits, os.geteuid())
        refusal = None if self.no_shim else refuse_wait(limits, policy)
        if refusal is not None:
            raise CoschedError(refusal)
        needs_all = self.require_all or "all" in (
            config.run.require,
            os.environ.get(REQUIRE),
        )
        return Choices(policy, self.carrier or config.run.status, limits, needs_all)
