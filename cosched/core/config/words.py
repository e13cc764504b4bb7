"""Lists the words that keys of ``cosched.toml`` take.

Daemons use them without the keys, which take long to import.
"""

from __future__ import annotations

from enum import Enum

#: The carriers of a sender's status; ``auto`` chooses one of them.
CARRIERS = ("shadow", "prefix", "none")
CLASS_SCHEDULERS = ("cgroup2", "cgroup1", "dutycycle")
MODES = ("proportional", "strict")
WAITS = ("spin", "yield", "block", "auto", "busy")


class Move(str, Enum):
    """Whether tasks may be moved into groups of cosched's own."""

    FREE = "free"
    """Those of ordinary users only if they leave no limit."""
    NEVER = "never"
