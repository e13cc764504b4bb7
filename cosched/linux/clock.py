"""Reads how exact the wall clock is, as its daemon (chrony, NTP) told the kernel."""

from __future__ import annotations

import ctypes

_TIME_ERROR = 5


class _NtpTime(ctypes.Structure):
    """``struct ntptimeval`` of sys/timex.h."""

    _fields_ = (
        ("seconds", ctypes.c_long),
        ("microseconds", ctypes.c_long),
        ("greatest_error_us", ctypes.c_long),
        ("estimated_error_us", ctypes.c_long),
        ("tai", ctypes.c_long),
        ("reserved", ctypes.c_long * 4),
    )


def clock_error_s() -> float | None:
    """Returns the greatest error of the wall clock; None if it is not synchronised."""
    libc = ctypes.CDLL(None, use_errno=True)
    found = _NtpTime()
    state = libc.ntp_gettimex(ctypes.byref(found))
    return None if state in (-1, _TIME_ERROR) else found.greatest_error_us / 1e6
