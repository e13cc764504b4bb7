"""Finds values that are each right and contradict each other.

Such values in a file are an error: a setting would have no effect, or another effect than
it seems to have. In an option or a variable they are a warning, because users try things
there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from cosched.core.config.merged_config import Config, Origin, Source
from cosched.core.config.mistakes import Problem
from cosched.core.named_tuples import NamedTuple
from cosched.core.node.periods import DUTY_CYCLE_NS, QUOTA_PERIOD_NS, SETTLED_NS
from cosched.core.node.settings import LEAST_SHARE, USUAL
from cosched.core.units import format_duration


class Clash(NamedTuple):
    """Keys whose values contradict each other."""

    keys: tuple[str, ...]  #: the ``table.key`` of each
    message: str  #: why they contradict each other


def judge(config: Config) -> tuple[list[Problem], list[Problem]]:
    """Returns the errors and the warnings of a merged configuration."""
    errors: list[Problem] = []
    warnings: list[Problem] = []
    for clash in clashes(config):
        # The source that was read last is the one to correct.
        last = max((config.origin(key) for key in clash.keys), key=_rank)
        typed = last.source in (Source.ENVIRONMENT, Source.OPTION)
        (warnings if typed else errors).append(Problem(str(last), clash.message))
    return errors, warnings


def _rank(origin: Origin) -> int:
    return list(Source).index(origin.source)


def clashes(config: Config) -> list[Clash]:
    """Returns all contradictions; the most important ones come first."""
    return [clash for rule in _RULES for clash in rule(config)]


def _gmet_reaches_slice(config: Config) -> Iterable[Clash]:
    node = config.node
    if not node.gmet.auto and node.gmet.ns >= node.slice.ns:
        which = "the least slice" if node.slice.auto else "slice"
        yield Clash(
            ("node.gmet", "node.slice"),
            f"gmet {format_duration(node.gmet.ns)} is not below {which} "
            f"{format_duration(node.slice.ns)}: no message would ever pull a switch there",
        )


def _slice_too_short(config: Config) -> Iterable[Clash]:
    node = config.node
    slice_text = format_duration(node.slice.ns)
    if node.slice.ns < SETTLED_NS:
        why = (
            "aligned slices would end before the kernel has carried out the switch"
            if node.align
            else "timers would switch before a message is trapped"
        )
        yield Clash(
            ("node.slice", "node.align"),
            f"slice {slice_text} is below {format_duration(SETTLED_NS)}: {why}",
        )
    if (
        node.mode == "strict"
        and node.class_scheduler != "dutycycle"
        and node.slice.ns < QUOTA_PERIOD_NS
    ):
        yield Clash(
            ("node.slice", "node.mode"),
            f"slice {slice_text} with mode strict: quotas count over "
            f"{format_duration(QUOTA_PERIOD_NS)}, so they would not hold in a slice",
        )
    if node.class_scheduler == "dutycycle" and node.slice.ns <= DUTY_CYCLE_NS:
        yield Clash(
            ("node.slice", "node.class_scheduler"),
            f"slice {slice_text} with dutycycle: an unscheduled job looks at its "
            f"messages every {format_duration(DUTY_CYCLE_NS)}, never within a slice",
        )


def _order_without_effect(config: Config) -> Iterable[Clash]:
    settings = config.node.settings()
    texts, usual = settings.texts(), USUAL.texts()
    for name, reason in settings.without_effect.items():
        if texts[name] != usual[name]:
            yield Clash(
                (f"node.{name}", f"node.{reason}"),
                f"{name} {texts[name]} has no effect with {reason} {texts[reason]}: "
                "jobs take turns there",
            )


def _period_too_short(config: Config) -> Iterable[Clash]:
    node = config.node
    counts = "least_share" not in node.settings().without_effect
    short = node.least_share.period_ns < 2 * node.slice.ns
    if counts and short and node.least_share != USUAL.least_share:
        yield Clash(
            ("node.least_share", "node.slice"),
            f"least_share {LEAST_SHARE.write(node.least_share)} is for less than two "
            f"slices of {format_duration(node.slice.ns)}: jobs would only take turns",
        )


def _limits_contradict(config: Config) -> Iterable[Clash]:
    limits, node = config.limits, config.node
    low, high = limits.slice_min_ns, limits.slice_max_ns
    if low is not None and high is not None and low > high:
        yield Clash(
            ("limits.slice_min", "limits.slice_max"),
            f"slice_min {format_duration(low)} is above slice_max "
            f"{format_duration(high)}: no slice is allowed",
        )
    # An adaptive slice begins at the limit or above: see ``limits.bounded``.
    if low is not None and not node.slice.auto and node.slice.ns < low:
        yield _outside("slice", node.slice.ns, "slice_min", low)
    if high is not None and node.slice.ns > high:
        yield _outside("slice", node.slice.ns, "slice_max", high)
    most_ns = limits.gmet_max_ns
    if most_ns is not None and not node.gmet.auto and node.gmet.ns > most_ns:
        yield _outside("gmet", node.gmet.ns, "gmet_max", most_ns)


def _outside(name: str, ns: int, limit: str, bound_ns: int) -> Clash:
    side = "below" if limit.endswith("_min") else "above"
    return Clash(
        (f"node.{name}", f"limits.{limit}"),
        f"{name} {format_duration(ns)} is {side} the limit {limit} "
        f"{format_duration(bound_ns)}",
    )


def _run_defaults_forbidden(config: Config) -> Iterable[Clash]:
    limits, run = config.limits, config.run
    wait = run.wait.partition(":")[0]
    if wait not in limits.waits:
        yield _forbidden("wait", wait, "waits", limits.waits)
    if run.status != "auto" and run.status not in limits.carriers:
        yield _forbidden("status", run.status, "carriers", limits.carriers)


def _forbidden(name: str, word: str, limit: str, allowed: tuple[str, ...]) -> Clash:
    return Clash(
        (f"run.{name}", f"limits.{limit}"),
        f"{name} '{word}' is not allowed here; {limit} has {', '.join(allowed)}",
    )


_RULES: tuple[Callable[[Config], Iterable[Clash]], ...] = (
    _gmet_reaches_slice,
    _slice_too_short,
    _order_without_effect,
    _period_too_short,
    _limits_contradict,
    _run_defaults_forbidden,
)
