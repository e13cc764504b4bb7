"""Starts a node's daemons as forks of this process, which cost little (``commands.py``).

The timer daemon is a fork of its scheduler daemon. Tests of the start of these programs,
and of events while they start, use ``cosched.node.lifetime.spawn.spawn``.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys

import cosched_daemons.timer  # noqa: F401  (the scheduler daemon must have it)

from cosched.linux.processes.background import UMASK, forget_starter
from cosched.node.children import timer_process
from cosched.node.children.kept_child import Child
from cosched.node.lifetime.spawn import read_greeting
from tests.tools.commands import Daemon


class NodeForks:
    """Starts the daemons of a node, as ``spawn`` does."""

    def __init__(self):
        self._started = []

    def __call__(self, paths, words):
        ready, write = os.pipe()
        options = ("--run-dir", paths.run_dir, "--node", paths.node, "--ready-fd", write)
        with open(os.devnull, "wb") as log, contextlib.ExitStack() as undo:
            undo.callback(os.close, write)
            daemon = Daemon(
                "cosched_daemons.scheduler",
                *options,
                *words,
                log=log,
                cwd="/",
                kept=(write,),
                alter=_leave_the_test,
            )
        self._started.append(daemon)
        return read_greeting(paths, ready, daemon.kill)

    def close(self, within_s):
        """Waits for the ends of the scheduler daemons; TimeoutExpired if one lives on."""
        while self._started:
            daemon = self._started.pop()
            daemon.wait(within_s)
            daemon.stdout.close()


def _leave_the_test():
    """Gives the scheduler daemon the state that start_background gives it."""
    os.setsid()
    os.umask(UMASK)
    forget_starter()
    _handle_signals_as_new()
    timer_process.start_child = fork_child


def fork_child(module, arguments, *, stdout):
    """Starts a child of the daemon, as start_child does."""
    assert stdout == subprocess.PIPE  # a Daemon has no other output
    read_end, pipe = os.pipe2(os.O_CLOEXEC)
    os.set_blocking(pipe, False)
    process = Daemon(
        module,
        *arguments,
        log=sys.stderr,
        cwd="/",
        given=read_end,
        alter=_handle_signals_as_new,
    )
    os.close(read_end)
    return Child(process, pipe, os.pidfd_open(process.pid))


def _handle_signals_as_new():
    """Handles signals as a Python that starts; ignored ones stay ignored."""
    signal.set_wakeup_fd(-1)
    for number in signal.valid_signals():
        if callable(signal.getsignal(number)):
            signal.signal(number, signal.SIG_DFL)
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.default_int_handler)
