"""Reads the environment of this process.

``cosched/shm/environment.c`` does the work, for the C interposer as well, so both read each
value alike. ``include/cosched/environment.h`` lists the variables.
"""

from __future__ import annotations

from typing import Any

from cosched.shm._native import ffi, lib


class Environment:
    """The COSCHED_* variables as they were when this object was made.

    ``data``: the ``struct cosched_environment``.
    """

    def __init__(self) -> None:
        self.data: Any = ffi.new("struct cosched_environment *")
        lib.cosched_environment_read(self.data)

    @property
    def takes_part(self) -> bool:
        """Whether the wrapper has anything to do: a job, or a wait other than spin."""
        return bool(lib.cosched_environment_takes_part(self.data))

    @property
    def has_job(self) -> bool:
        """Whether the task is to be coscheduled; otherwise only its waits change."""
        return bool(self.data.task.job != ffi.NULL)

    @property
    def nonblocking_collectives(self) -> bool:
        """Whether collective calls wait in the wrapper (COSCHED_COLLECTIVES)."""
        return bool(self.data.nonblocking_collectives)

    @property
    def warnings(self) -> list[str]:
        """One line for each variable whose value is not allowed."""
        lines = self.data.warnings[0 : self.data.warning_count]
        return [text(line) for line in lines]


def text(string: Any) -> str:
    """Returns a C string for people to read; it may have any bytes."""
    return bytes(ffi.string(string)).decode(errors="replace")
