"""Holds a process as a debugger does: it does not run, and its parent does not see that.

SIGSTOP would not do: the parent of a steward continues it.
"""

import ctypes
import os
import threading

_SEIZE, _INTERRUPT = 0x4206, 0x4207
_WAIT_ALL = 0x40000000
_libc = ctypes.CDLL(None, use_errno=True)
_libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]


def _ptrace(request, pid):
    if _libc.ptrace(request, pid, None, None) != 0:
        raise OSError(ctypes.get_errno(), "ptrace")


def hold(pid):
    """Holds a process until it is killed. A debugger has to take its end, in a thread."""
    held, problems = threading.Event(), []

    def debug():
        try:
            _ptrace(_SEIZE, pid)
            _ptrace(_INTERRUPT, pid)
            os.waitpid(pid, _WAIT_ALL)
        except OSError as error:
            problems.append(error)
        finally:
            held.set()
        status = None
        while not problems and (status is None or os.WIFSTOPPED(status)):
            _, status = os.waitpid(pid, _WAIT_ALL)

    threading.Thread(target=debug, daemon=True).start()
    held.wait()
    if problems:
        raise problems[0]
