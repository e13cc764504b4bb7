"""Fills the options of cosched-run from the configuration and checks the operator's
limits."""

from __future__ import annotations

import os

import click

from cosched.core.config.limits import limits_for, refuse_wait
from cosched.core.errors import CoschedError
from cosched.core.node.settings import LENGTH_MAX_NS
from cosched.core.units import parse_run_time
from cosched.jobs.choices import Choices
from cosched.launch.environment import wait_policy
from cosched.node.configuration import load

#: Ranks read it, too.
REQUIRE = "COSCHED_REQUIRE"


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
