"""Declares the tables of ``cosched.toml``.

A new key needs a line here. Its environment variable is ``COSCHED_TABLE_KEY``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from cosched.core.config.kinds import (
    CAPACITY,
    LISTEN,
    OFF,
    STORAGE,
    SWITCH,
    Kind,
    decimal,
    duration,
    member_of,
    one_of,
    or_word,
    some_of,
    stripped,
    timed,
    whole,
)
from cosched.core.config.suggestions import suggest
from cosched.core.config.tables import Key, key, keys_of, table
from cosched.core.config.words import CARRIERS, CLASS_SCHEDULERS, MODES, WAITS, Move
from cosched.core.decoding import parse_number
from cosched.core.errors import CoschedError
from cosched.core.node.settings import (
    FAIRNESS,
    GMET,
    KINDS,
    LEAST_SHARE,
    ORDER,
    SLICE,
    USUAL,
    Fairness,
    LeastShare,
    Order,
    Settings,
    Span,
)
from cosched.core.symbiosis.watch import WatchSettings
from cosched.core.units import NS_PER_S, parse_duration

TRACE_BYTES = 16 * 1024 * 1024
_TIMED_WAITS = ("block", "auto")


def _parse_wait(raw: Any) -> str:
    text = stripped(raw, "a way to wait")
    word, colon, time = text.partition(":")
    if word not in WAITS:
        raise CoschedError(f"'{text}' is none of {', '.join(WAITS)}{suggest(word, WAITS)}")
    if colon and word not in _TIMED_WAITS:
        raise CoschedError(f"'{text}': only {' and '.join(_TIMED_WAITS)} take a time")
    if colon:
        timed(parse_duration)(time)
    return text


WAIT = Kind('"spin" | "yield" | "block[:TIME]" | "auto[:TIME]" | "busy"', _parse_wait, str)
#: ``HOST:PORT``, or ``off``.
LISTEN_OR_OFF = or_word(OFF, LISTEN, OFF)


def _parse_looks(raw: Any) -> float:
    text = stripped(raw, 'a percentage; write it like "1%"')
    if text == OFF:
        return 0.0
    percent = parse_number(text.removesuffix("%"), "", 0, LOOKS_MOST_PERCENT)
    if not text.endswith("%"):
        raise CoschedError(f"'{text}' has no unit; write it like \"{text}%\"")
    return percent


def _write_looks(percent: float) -> str:
    return f"{percent:g}%" if percent else OFF


#: A job rests at most this part of its time for looks at others.
LOOKS_MOST_PERCENT = 10
LOOKS = Kind('"PERCENT%" | "off"', _parse_looks, _write_looks)
#: The least limit: a slowdown nearer to 1 is not seen in a few looks.
SLOWED_LEAST = 1.02
SLOWED_MOST = 10.0
SLOWED = or_word(
    OFF,
    decimal(
        f"a number from {SLOWED_LEAST:g} to {SLOWED_MOST:g}",
        lambda value: SLOWED_LEAST <= value <= SLOWED_MOST,
    ),
    0.0,
)


@dataclass(frozen=True, slots=True)
class NodeConfig:
    """[node]: how the node's daemons schedule."""

    slice: Span = key(SLICE, USUAL.slice, "How long a job keeps the CPUs.", live=True)
    gmet: Span = key(
        GMET,
        USUAL.gmet,
        "Guaranteed minimum: no message takes the CPUs before.",
        live=True,
    )
    align: bool = key(
        SWITCH, USUAL.align, "Slices start at multiples of the slice.", live=True
    )
    order: Order = key(
        ORDER, USUAL.order, "Which job comes first if slice=auto.", live=True
    )
    least_share: LeastShare = key(
        LEAST_SHARE,
        USUAL.least_share,
        "The part of its fair share that each job gets in each such time.",
        live=True,
    )
    fairness: Fairness = key(
        FAIRNESS, USUAL.fairness, "Between which parties the time is shared.", live=True
    )
    looks_percent: float = key(
        LOOKS,
        WatchSettings().percent,
        "How much of its time a job rests, so that those beside it are seen alone.",
        name="looks",
    )
    slowed_most: float = key(
        SLOWED,
        WatchSettings().limit,
        "How much a job may be slowed before another one gives way.",
    )
    class_scheduler: str = key(
        one_of("auto", *CLASS_SCHEDULERS), "auto", "What enforces the shares."
    )
    mode: str = key(
        one_of(*MODES), MODES[0], "Whether time left unused goes to others, or is lost."
    )
    #: None: as much as the node has; 0: no limit.
    memory_bytes: int | None = key(
        CAPACITY, None, "What jobs may have; unset: what there is."
    )
    memory_wait_ns: int = key(duration(), 600 * NS_PER_S, "Longest wait for memory.")
    allow_raise: bool | None = key(
        SWITCH, None, "Whether a job may run alone; unset: with private daemons."
    )
    trace_bytes: int = key(STORAGE, TRACE_BYTES, "What the trace may take on disk.")
    #: None: as long as there is room.
    history_age_ns: int | None = key(
        duration(1), None, "How long a record of an ended job is kept."
    )

    @property
    def watch(self) -> WatchSettings:
        """How jobs that share the node are watched."""
        return WatchSettings(self.looks_percent, self.slowed_most)

    def settings(self) -> Settings:
        """Returns the scheduler's first settings; CoschedError if they are impossible."""
        return USUAL.with_values({name: getattr(self, name) for name in KINDS})


@dataclass(frozen=True, slots=True)
class MetricsConfig:
    """[metrics]: ``HOST:PORT`` or ``off``."""

    listen: str = key(LISTEN_OR_OFF, OFF, "Where Prometheus may ask.")


@dataclass(frozen=True, slots=True)
class RunConfig:
    """[run]: the defaults of cosched-run's options."""

    wait: str = key(WAIT, "spin", "How ranks wait while they may run.")
    status: str = key(one_of("auto", *CARRIERS), "auto", "How the sender's status travels.")
    require: str = key(
        one_of("any", "all"), "any", "Which nodes of a job must have a daemon."
    )


@dataclass(frozen=True, slots=True)
class Limits:
    """[limits]: the operator's limits for users; only ``move`` binds root too."""

    slice_min_ns: int | None = key(duration(), None, "Shortest slice.", operator=True)
    slice_max_ns: int | None = key(duration(), None, "Longest slice.", operator=True)
    gmet_max_ns: int | None = key(
        duration(), None, "Longest guaranteed time.", operator=True
    )
    carriers: tuple[str, ...] = key(
        some_of(*CARRIERS),
        CARRIERS,
        "Carriers of the status that jobs may use.",
        operator=True,
    )
    waits: tuple[str, ...] = key(
        some_of(*WAITS), WAITS, "Ways to wait that cosched-run accepts.", operator=True
    )
    jobs_per_user: int | None = key(
        whole(1), None, "Jobs of a user on a node.", operator=True
    )
    move: Move = key(
        member_of(Move),
        Move.FREE,
        "Whether tasks may be moved to other control groups.",
        operator=True,
    )
    private_daemons: bool = key(
        SWITCH, True, "Whether users may start daemons of their own.", operator=True
    )


@dataclass(frozen=True, slots=True)
class Sections:
    """The tables of the file."""

    node: NodeConfig = table(NodeConfig)
    metrics: MetricsConfig = table(MetricsConfig)
    run: RunConfig = table(RunConfig)
    limits: Limits = table(Limits)


KEYS = keys_of(Sections)
BY_PATH = {each.path: each for each in KEYS}
#: The keys that ``cosched config set slice=1s`` accepts without their table.
LIVE = {each.name: each for each in KEYS if each.live}


#: The daemon's options by the key that they set.
OPTIONS = {
    each.path: {"node.allow_raise": "--allow-boost", "metrics.listen": "--metrics"}.get(
        each.path, f"--{each.name.replace('_', '-')}"
    )
    for each in KEYS
    if each.table in ("node", "metrics")
}


def given_options(texts: Mapping[str, str | None]) -> dict[str, tuple[str, str]]:
    """Returns the text and the name of each option that was given, by the key that it sets.
    texts: of all options, by their names in Python."""
    found = {}
    for path, option in OPTIONS.items():
        text = texts[option.removeprefix("--").replace("-", "_")]
        if text is not None:
            found[path] = text, option
    return found


def variable_of(each: Key) -> str:
    """Returns the name of a key's environment variable."""
    return f"COSCHED_{each.table}_{each.name}".upper()
