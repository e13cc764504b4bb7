"""Gives this process the I/O class of any other.

glibc has no function for this system call. psutil has one for each machine. But a daemon
that starts would wait for its import, longer than for all else before its program.
"""

from __future__ import annotations

import ctypes
import os
import sys

#: The number of ioprio_set on machines where most daemons run.
_IOPRIO_SET = {"x86_64": 251, "aarch64": 30}
_WHO_PROCESS, _SELF, _CLASS_NONE = 1, 0, 0
_libc = ctypes.CDLL(None, use_errno=True)


def use_usual_io_class() -> None:
    """Sets the class that follows from the nice value. OSError passes."""
    number = _IOPRIO_SET.get(os.uname().machine)
    if number is None or sys.maxsize < 1 << 32:
        _use_by_psutil()
    elif _libc.syscall(ctypes.c_long(number), _WHO_PROCESS, _SELF, _CLASS_NONE) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))


def _use_by_psutil() -> None:
    import psutil

    try:
        psutil.Process().ionice(psutil.IOPRIO_CLASS_NONE)
    except psutil.Error as error:
        raise OSError(str(error)) from None
