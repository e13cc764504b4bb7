"""Defines the options of cosched-run that say how ranks take part in coscheduling. Fills
them from the configuration and checks the operator's limits."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from typing import Any

import click

from cosched.cli.options import add_options
from cosched.config.places import load
from cosched.core.config.limits import limits_for, refuse_wait
from cosched.core.config.schema import CARRIERS
from cosched.core.errors import CoschedError
from cosched.core.node.settings import LENGTH_MAX_NS
from cosched.core.units import parse_run_time
from cosched.jobs.choices import Choices
from cosched.launch.environment import wait_policy

#: Ranks read it, too.
REQUIRE = "COSCHED_REQUIRE"


_OPTIONS = (
    click.option(
        "--carrier",
        type=click.Choice(["auto", *CARRIERS]),
        help="How the sender's status travels: shadow, in messages of its own; prefix, one"
        " byte in front of each message; none, not at all. auto: shadow, but none"
        " without a shim.  [default: the configuration's, auto]",
    ),
    click.option(
        "--wait",
        metavar="HOW",
        help="How ranks of a scheduled job wait: spin (as the MPI does), yield,"
        " block[:TIME], which spins for TIME (20us) and then sleeps, or auto[:TIME], which"
        " blocks where the CPUs are shared now. busy: ranks spin also while the job waits"
        " for its turn.  [default: the configuration's, spin]",
    ),
    click.option(
        "--require-all",
        is_flag=True,
        help="End the job in MPI_Init unless a daemon coschedules it on each of its nodes.",
    ),
    click.option("--waits-only", is_flag=True, help="Apply --wait, but do not coschedule."),
    click.option("--no-shim", is_flag=True, help="Start the job without cosched."),
)


def choice_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Gives a command these options, and their values as ``Choices`` named ``choices``."""

    @functools.wraps(function)
    def with_choices(
        *,
        carrier: str | None,
        wait: str | None,
        require_all: bool,
        waits_only: bool,
        no_shim: bool,
        **others: Any,
    ) -> Any:
        choices = choose(
            click.get_current_context(),
            wait=wait,
            carrier=carrier,
            waits_only=waits_only,
            no_shim=no_shim,
            require_all=require_all,
        )
        return function(choices=choices, waits_only=waits_only, no_shim=no_shim, **others)

    return add_options(_OPTIONS, with_choices)


def run_time(ctx: click.Context, param: click.Parameter, text: str | None) -> int | None:
    """Returns how long the job runs, in nanoseconds; BadParameter if that is no time."""
    if text is None:
        return None
    try:
        time_ns = parse_run_time(text)
    except CoschedError as error:
        raise click.BadParameter(f"{error}.", ctx, param) from None
    if not 0 < time_ns <= LENGTH_MAX_NS:
        message = f"'{text:.40}' is not more than 0 and at most a year."
        raise click.BadParameter(message, ctx, param)
    return time_ns


def choose(
    ctx: click.Context,
    *,
    wait: str | None,
    carrier: str | None,
    waits_only: bool,
    no_shim: bool,
    require_all: bool,
) -> Choices:
    """Takes each choice from the options, otherwise from the configuration.

    Raises UsageError where options contradict each other, CoschedError at a limit.
    """
    config, _ = load(os.environ)
    policy = wait_policy(wait) if wait is not None else ""
    if no_shim and (waits_only or policy not in ("", "spin")):
        raise click.UsageError("--no-shim cannot be combined with --wait.", ctx)
    if not policy:
        policy = "spin" if no_shim else wait_policy(config.run.wait)
    if require_all and (no_shim or waits_only):
        raise click.UsageError("--require-all needs coscheduling.", ctx)
    if waits_only and policy in ("spin", "busy"):
        raise click.UsageError("--waits-only needs --wait yield, block or auto.", ctx)
    limits = limits_for(config.limits, os.geteuid())
    refusal = None if no_shim else refuse_wait(limits, policy)
    if refusal is not None:
        raise CoschedError(refusal)
    needs_all = require_all or "all" in (config.run.require, os.environ.get(REQUIRE))
    return Choices(policy, carrier or config.run.status, limits, needs_all)
