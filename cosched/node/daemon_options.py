"""Defines what the operator chose for a scheduler daemon when it was started."""

from __future__ import annotations

from msgspec import Struct, field

from cosched.core.config.kinds import OFF
from cosched.core.config.schema import TRACE_BYTES, Limits
from cosched.core.symbiosis.watch import WatchSettings
from cosched.node.memory_meter import MemoryTerms
from cosched.node.records.bounded_file import FilePair


class DaemonOptions(Struct, frozen=True):
    """The options of a scheduler daemon."""

    private: bool  #: the daemon serves one user's jobs and ends when there are none
    chosen: str  #: the reason for this class scheduler, for display
    priority: str  #: the priority of the daemon, for display
    limits: Limits = field(default_factory=Limits)  #: the operator's limits for users
    metrics: str = OFF  #: the address for Prometheus, ``HOST:PORT`` or ``off``
    #: The most bytes of the trace's files together; 0: no trace.
    trace_bytes: int = TRACE_BYTES
    #: The memory for jobs, and how long a job waits for it.
    memory: MemoryTerms = field(default_factory=MemoryTerms)
    #: Whether owners may run a job alone; None: only with private daemons.
    allow_raise: bool | None = None
    history: FilePair | None = None  #: the file of ended jobs; None: not kept
    history_age_ns: int | None = None  #: how long a record is kept; None: no limit
    #: How jobs that share the node are watched.
    watch: WatchSettings = field(default_factory=WatchSettings)
