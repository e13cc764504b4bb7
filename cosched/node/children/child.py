"""A process that a daemon starts to help it, whose standard input ends with the daemon."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Child:
    """``pipe`` is the daemon's end of its input; ``pidfd`` is readable at its end."""

    process: subprocess.Popen[bytes]
    pipe: int
    pidfd: int

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
    """Runs a module of ours as a process; with OSError nothing is left of it."""
    with contextlib.ExitStack() as undo:
        read_end, pipe = os.pipe2(os.O_CLOEXEC)
        undo.callback(os.close, pipe)
        os.set_blocking(pipe, False)
        try:
            process = subprocess.Popen(
                [sys.executable, "-m", module, *arguments],
                stdin=read_end,
                stdout=stdout,
                pass_fds=pass_fds,
                # No module of the directory that we were started in may shadow one of ours.
                cwd="/",
            )
        finally:
            os.close(read_end)
        undo.enter_context(process)  # closes its output, and waits
        undo.callback(process.kill)
        pidfd = os.pidfd_open(process.pid)
        undo.pop_all()
    return Child(process, pipe, pidfd)
