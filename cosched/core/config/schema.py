"""Lists every key: its section, its kind and its default.

A new key needs a line here and a field in ``values``. Its environment variable is
``COSCHED_SECTION_KEY``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from cosched.core.config.kinds import (
    ADDRESS,
    CAPACITY,
    COUNT,
    DURATION,
    FAIRNESS,
    GMET,
    LEAST_SHARE,
    MOVE,
    OFF,
    ORDER,
    SLICE,
    STORAGE,
    SWITCH,
    WAIT,
    WAITS,
    Kind,
    Move,
    one_of,
    some_of,
)
from cosched.core.node.settings import USUAL
from cosched.core.units import NS_PER_S

TRACE_BYTES = 16 * 1024 * 1024
CARRIERS = ("none", "prefix", "shadow")


@dataclass(frozen=True, slots=True)
class Key:
    """One key of the configuration.

    live: running daemons accept a new value at once; jobs go on.
    operator: only the operator's file may set it, because it binds users.
    """

    section: str
    name: str
    kind: Kind
    default: Any
    about: str
    live: bool = False
    operator: bool = False

    @property
    def path(self) -> str:
        """``section.name``."""
        return f"{self.section}.{self.name}"

    @property
    def variable(self) -> str:
        """Its environment variable."""
        return f"COSCHED_{self.section}_{self.name}".upper()

    def shown(self, value: Any) -> Any:
        """Returns the value as a TOML value; None if it is not set."""
        return None if value is None else self.kind.write(value)


KEYS = (
    Key(
        "node",
        "slice",
        SLICE,
        USUAL.slice,
        "How long a job keeps the CPUs.",
        True,
    ),
    Key(
        "node",
        "gmet",
        GMET,
        USUAL.gmet,
        "Guaranteed minimum: no message takes the CPUs before.",
        True,
    ),
    Key("node", "align", SWITCH, True, "Slices start at multiples of the slice.", True),
    Key("node", "order", ORDER, USUAL.order, "Which job comes first if slice=auto.", True),
    Key(
        "node",
        "least_share",
        LEAST_SHARE,
        USUAL.least_share,
        "The part of its fair share that each job gets in each such time.",
        True,
    ),
    Key(
        "node",
        "fairness",
        FAIRNESS,
        USUAL.fairness,
        "Between which parties the time is shared.",
        True,
    ),
    Key(
        "node",
        "class_scheduler",
        one_of("auto", "cgroup2", "cgroup1", "dutycycle"),
        "auto",
        "What enforces the shares.",
    ),
    Key(
        "node",
        "mode",
        one_of("proportional", "strict"),
        "proportional",
        "Whether time left unused goes to others, or is lost.",
    ),
    Key("node", "memory", CAPACITY, None, "What jobs may have; unset: what there is."),
    Key("node", "memory_wait", DURATION, 600 * NS_PER_S, "Longest wait for memory."),
    Key(
        "node",
        "allow_raise",
        SWITCH,
        None,
        "Whether a job may run alone; unset: with private daemons.",
    ),
    Key("node", "trace", STORAGE, TRACE_BYTES, "What the trace may take on disk."),
    Key("metrics", "listen", ADDRESS, OFF, "Where Prometheus may ask."),
    Key("run", "wait", WAIT, "spin", "How ranks wait while they may run."),
    Key(
        "run",
        "status",
        one_of("auto", "shadow", "prefix", "none"),
        "auto",
        "How the sender's status travels.",
    ),
    Key(
        "run",
        "require",
        one_of("any", "all"),
        "any",
        "Which nodes of a job must have a daemon.",
    ),
    Key("limits", "slice_min", DURATION, None, "Shortest slice.", operator=True),
    Key("limits", "slice_max", DURATION, None, "Longest slice.", operator=True),
    Key("limits", "gmet_max", DURATION, None, "Longest guaranteed time.", operator=True),
    Key(
        "limits",
        "carriers",
        some_of(*CARRIERS),
        CARRIERS,
        "Carriers of the status that jobs may use.",
        operator=True,
    ),
    Key(
        "limits",
        "waits",
        some_of(*WAITS),
        WAITS,
        "Ways to wait that cosched-run accepts.",
        operator=True,
    ),
    Key("limits", "jobs_per_user", COUNT, None, "Jobs of a user on a node.", operator=True),
    Key(
        "limits",
        "move",
        MOVE,
        Move.FREE,
        "Whether tasks may be moved to other control groups.",
        operator=True,
    ),
    Key(
        "limits",
        "private_daemons",
        SWITCH,
        True,
        "Whether users may start daemons of their own.",
        operator=True,
    ),
)

BY_PATH = {key.path: key for key in KEYS}
SECTIONS = tuple(dict.fromkeys(key.section for key in KEYS))
#: The keys that ``cosched config set slice=1s`` accepts without their section.
LIVE = {key.name: key for key in KEYS if key.live}
