"""Starts a node's daemons from another process."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass

from cosched.core.config.kinds import OFF, SWITCH
from cosched.core.config.schema import NodeConfig
from cosched.core.errors import CoschedError, NoDaemon
from cosched.core.node.settings import Settings
from cosched.node.lifetime.handover import (
    UP_ALREADY,
    Patience,
)
from cosched.node.lifetime.spawn import Start, spawn, start_or_join
from cosched.node.lifetime.stop import hand_over
from cosched.node.sockets.client import request
from cosched.rundir.lock import lock_holder
from cosched.rundir.paths import NodePaths

_USUAL = NodeConfig()


@dataclass(frozen=True, slots=True)
class NodeOptions:
    """The start options of a scheduler daemon. None: the configuration decides."""

    settings: Settings  #: slice, GMET and the other settings of the schedule
    #: The name of the class scheduler, or ``auto``.
    class_scheduler: str = _USUAL.class_scheduler
    mode: str = _USUAL.mode  #: one of ``MODES``: whether others get unused time
    #: The daemon serves only this user's jobs, and ends after the last one.
    private: bool = False
    verbose: bool = False  #: the daemon logs each switch and refusal
    metrics: str = OFF  #: the address for Prometheus, ``HOST:PORT`` or ``off``
    #: The memory for all jobs together, as the user writes a size.
    memory: str | None = None
    #: The longest wait for memory, as the user writes a time.
    memory_wait: str | None = None
    allow_raise: bool | None = None  #: whether owners may run a job alone
    #: The disk space for the trace, as the user writes a size, or ``off``.
    trace: str | None = None
    #: How much of its time a job rests for looks at others, as the user writes it.
    looks: str | None = None
    #: How much a job may be slowed, as the user writes it.
    slowed_most: str | None = None
    #: How long records of ended jobs are kept, as the user writes it.
    history_age: str | None = None

    def arguments(self) -> list[str]:
        """Returns the options as command-line arguments of ``coschedd``."""
        raises = None if self.allow_raise is None else SWITCH.text(self.allow_raise)
        texts = {
            **self.settings.texts(),
            "class-scheduler": self.class_scheduler,
            "mode": self.mode,
            "metrics": self.metrics,
            "memory": self.memory,
            "trace": self.trace,
            "memory-wait": self.memory_wait,
            "allow-boost": raises,
            "looks": self.looks,
            "slowed-most": self.slowed_most,
            "history-age": self.history_age,
        }
        words: list[str] = []
        for name, text in texts.items():
            words += [] if text is None else [f"--{name.replace('_', '-')}", text]
        words += ["--private"] if self.private else []
        words += ["--verbose"] if self.verbose else []
        return words


def restart_node(paths: NodePaths, options: NodeOptions, start: Start = spawn) -> str:
    """Ends the daemons that are up, if any, and starts others, which take their jobs over;
    returns the greeting of the new ones."""
    hand_over(paths)
    return start_node(paths, options, start)


def start_node(paths: NodePaths, options: NodeOptions, start: Start = spawn) -> str:
    """Starts the daemons, detached; returns their one-line greeting when they are ready.

    Raises CoschedError with the daemon's message if it cannot start. If several private
    pairs start at once, one of them comes up and serves all. A private pair without jobs
    ends when daemons that are not private start.
    """
    paths.check_length()
    if options.private:
        return start_or_join(paths, options.arguments(), start)
    _wait_for_room(paths)
    return start(paths, options.arguments())


def _wait_for_room(paths: NodePaths) -> None:
    """Ends unused private daemons and waits for ending ones; CoschedError if daemons are
    up."""
    patience = Patience(paths)
    while lock_holder(paths.scheduler_lock) is not None:
        with contextlib.suppress(NoDaemon):
            answer = request(paths, "retire")
            if not answer["retired"]:
                raise CoschedError(
                    f"node {paths.node}: {UP_ALREADY} (pid {answer['pid']}); "
                    "stop them first: cosched down; others take their place with: "
                    "cosched up --restart"
                )
        patience.await_change()
