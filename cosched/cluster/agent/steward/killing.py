"""Kills what is left of a job's tasks on one node, and names what cannot be killed.

All processes of the tasks are in a control group where one can be made, so they die at
once.
Processes that are not there any more are killed as descendants of the steward.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

from cosched.linux.cgroups.killgroup import GroupLocation, KillGroup
from cosched.linux.processes.descendants import describe_foreign, kill_descendants

#: Where a steward makes the control group for its tasks, and the name of the group.
JobPlace = tuple[GroupLocation, str]


class Killer:
    """Kills the processes of one job on one node. It makes the job's control group, so it
    is made with the rights of the agent, which the steward gives up later.

    job: the job's name, for the agent's log. place: None if no group can be made. warn:
    takes one line for the job's user.
    """

    def __init__(
        self, job: str, place: JobPlace | None, warn: Callable[[str], None]
    ) -> None:
        self._job = job
        self._warn = warn
        self._left: set[int] = set()  # named
        self._group: KillGroup | None = None
        if place is not None:
            try:
                self._group = KillGroup(*place)
            except OSError as error:
                self._log(f"no control group: {error.filename}: {error.strerror}")

    def add(self, pid: int) -> None:
        """Adds a task that has no descendants yet."""
        if self._group is None:
            return
        try:
            self._group.add(pid)
        except OSError as error:  # before Linux 5.16 its maker's rights do not count
            self._log(f"no control group: {error.strerror}")
            self._group = None

    def kill_group(self) -> None:
        """Kills the processes of the control group, and waits for none."""
        if self._group is None:
            return
        try:
            self._group.kill()
        except OSError as error:
            self._log(f"cannot kill its control group: {error.strerror}")

    def kill_all(self, within_s: float) -> bool:
        """Kills and reaps all descendants of this process. Returns whether none is left
        after this time. Names those that cannot be killed, once."""
        self.kill_group()
        left = kill_descendants(within_s)
        for pid in left.foreign - self._left:
            line = f"{describe_foreign(pid)} is left: the job's user cannot kill it"
            self._log(line)
            self._warn(line)
        self._left |= left.foreign
        return not (left.foreign or left.ending)

    def _log(self, line: str) -> None:
        print(
            f"steward {os.getpid()}: job {self._job}: {line}", file=sys.stderr, flush=True
        )
