"""Runs a process one instruction at a time, and kills it at the one that a test names."""

from __future__ import annotations

import ctypes
import os
import signal
from collections.abc import Callable

_TRACEME, _SINGLESTEP = 0, 9
_libc = ctypes.CDLL(None, use_errno=True)
_libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]


def _ptrace(request: int, pid: int) -> None:
    if _libc.ptrace(request, pid, None, None) != 0:
        error = ctypes.get_errno()
        raise OSError(error, f"ptrace: {os.strerror(error)}")


def kill_when(is_due: Callable[[], bool], work: Callable[[], object]) -> int:
    """Does work in a child, and kills the child after the first instruction at which
    ``is_due`` returns true. Returns its pid. Raises AssertionError if the child ends
    first."""
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            _ptrace(_TRACEME, 0)
            os.kill(os.getpid(), signal.SIGSTOP)
            work()
            status = 0
        finally:
            os._exit(status)
    while True:
        _, status = os.waitpid(pid, 0)
        assert os.WIFSTOPPED(status), f"the child has ended with status {status}"
        if is_due():
            break
        _ptrace(_SINGLESTEP, pid)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return pid
