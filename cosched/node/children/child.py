"""Starts a daemon's child process, whose standard input ends with the daemon."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Sequence
from typing import NamedTuple

from cosched.start.own_command import own_command


class Child(NamedTuple):
    """A child process of a daemon."""

    process: subprocess.Popen[bytes]  #: the running child
    pipe: int  #: the daemon's end of the child's input, a descriptor
    pidfd: int  #: a descriptor that is readable when the child ends

    def close(self) -> None:
        """Closes both descriptors."""
        os.close(self.pidfd)
        os.close(self.pipe)


def start_child(
    module: str,
    arguments: Sequence[str],
    *,
    stdout: int | None = None,
    pass_fds: Sequence[int] = (),
) -> Child:
    """Runs a module of cosched as a process; an OSError leaves nothing behind."""
    with contextlib.ExitStack() as undo:
        read_end, pipe = os.pipe2(os.O_CLOEXEC)
        undo.callback(os.close, pipe)
        os.set_blocking(pipe, False)
        try:
            process = subprocess.Popen(
                [*own_command(module), *arguments],
                stdin=read_end,
                stdout=stdout,
                pass_fds=pass_fds,
                cwd="/",
            )
        finally:
            os.close(read_end)
        undo.enter_context(process)  # closes its output, and waits
        undo.callback(process.kill)
        pidfd = os.pidfd_open(process.pid)
        undo.pop_all()
    return Child(process, pipe, pidfd)
