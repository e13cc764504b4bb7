"""Checks what users ask for against the operator's limits.

Each function returns None or the reason of the refusal. No limit binds root.
"""

from __future__ import annotations

from dataclasses import replace

from cosched.core.config.schema import Limits
from cosched.core.node.settings import Settings
from cosched.core.units import format_duration

ROOT_UID = 0


def limits_for(limits: Limits, uid: int) -> Limits:
    """Returns the limits that bind this user."""
    return Limits() if uid == ROOT_UID else limits


def refuse_settings(limits: Limits, settings: Settings) -> str | None:
    """Returns why a user's private daemons may not run with these settings."""
    low, high, gmet = limits.slice_min_ns, limits.slice_max_ns, limits.gmet_max_ns
    if low is not None and settings.slice_ns < low:
        return _beyond("slice", settings.slice_ns, "least", low)
    if high is not None and settings.slice_ns > high:
        return _beyond("slice", settings.slice_ns, "most", high)
    if gmet is not None and not settings.gmet_auto and settings.gmet_ns > gmet:
        return _beyond("gmet", settings.gmet_ns, "most", gmet)
    return None


def bounded(limits: Limits, settings: Settings) -> Settings:
    """Returns the settings with their adaptive lengths kept within the limits.

    This holds for all daemons, because it refuses nothing.
    """
    least_ns = settings.slice_ns
    if settings.slice_auto and limits.slice_min_ns is not None:
        least_ns = max(least_ns, limits.slice_min_ns)
    return replace(
        settings,
        slice_ns=least_ns,
        slice_most_ns=limits.slice_max_ns,
        gmet_most_ns=limits.gmet_max_ns,
    )


def refuse_task(limits: Limits, carrier: str, other_jobs: int) -> str | None:
    """Returns why a task may not register; its user has ``other_jobs`` more jobs here."""
    if carrier not in limits.carriers:
        return (
            f"carrier '{carrier}' is not allowed here: use {' or '.join(limits.carriers)}"
        )
    if limits.jobs_per_user is not None and other_jobs >= limits.jobs_per_user:
        return f"{other_jobs} jobs of yours run here; more are not allowed at once"
    return None


def refuse_wait(limits: Limits, wait: str) -> str | None:
    """Returns why ranks may not wait in this way."""
    if wait.partition(":")[0] in limits.waits:
        return None
    return f"wait '{wait}' is not allowed here: use {' or '.join(limits.waits)}"


def refuse_private(limits: Limits) -> str | None:
    """Returns why a user may not start private daemons."""
    if limits.private_daemons:
        return None
    return "users' own daemons are not allowed here: ask the operator for 'cosched up'"


def _beyond(name: str, ns: int, side: str, bound_ns: int) -> str:
    return (
        f"{name} {format_duration(ns)} is not allowed here: "
        f"the {side} is {format_duration(bound_ns)}"
    )
