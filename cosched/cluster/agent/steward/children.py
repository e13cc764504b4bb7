"""Handles the processes below a steward: signals to its tasks, and the ends of all."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable

from cosched.cluster.agent.steward.task_process import Task
from cosched.linux.prctl import adopt_orphans
from cosched.linux.processes.descendants import REAPED_AT_ONCE
from cosched.linux.processes.signals import Delivery, send, send_to_group
from cosched.service.loop import Watch


class Children:
    """The tasks of one node, and the processes that they leave to the steward.

    tasks: all tasks that were added. left: the number of tasks that have not ended.

    watch: calls the function of a descriptor that is ready; epoll returns ends and messages
    in the order in which they came. on_end: takes each task that has ended, with its wait
    status. on_change: called when children have ended, or were stopped or continued. warn:
    takes one line for the user.
    """

    def __init__(
        self,
        watch: Watch,
        on_end: Callable[[Task, int], None],
        on_change: Callable[[], None],
        warn: Callable[[str], None],
    ) -> None:
        self.tasks: list[Task] = []
        self.left = 0
        self._watch = watch
        self._on_end = on_end
        self._on_change = on_change
        self._warn = warn
        self._foreign: set[int] = set()  # ranks of programs that another user has by now
        self._changes, self._changes_write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)

    def adopt_all(self) -> None:
        """Makes this process the parent of all that the tasks will leave."""
        adopt_orphans()
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self._changes_write, warn_on_full_buffer=False)

    def add(self, task: Task) -> None:
        """Adds a task; ``watch_ends`` follows."""
        self.tasks.append(task)
        self.left += 1

    @property
    def alive(self) -> set[int]:
        """The processes of the tasks that have not ended."""
        return {task.pid for task in self.tasks if task.status is None}

    def watch_ends(self) -> None:
        """Handles ends from now on."""
        self._watch.watch(self._changes, self._note_change)
        for task in self.tasks:
            self._watch_end(task)

    def signal_all(self, number: int) -> None:
        """Sends a signal to all tasks that have not ended, and to their process groups."""
        for task in self.tasks:
            if task.status is not None:
                continue
            delivery = send_to_group(task.pid, number)
            if delivery is Delivery.ENDED:  # the task has not made its group yet
                delivery = send(task.pid, number)
            if delivery is Delivery.FOREIGN and task.rank not in self._foreign:
                self._foreign.add(task.rank)
                self._warn(f"rank {task.rank} does not take signals of this user")

    def _watch_end(self, task: Task) -> None:
        process = os.pidfd_open(task.pid)

        def ended() -> None:
            pid, status = os.waitpid(task.pid, os.WNOHANG)
            if pid == 0:
                return  # a debugger has it
            self._watch.unwatch(process)
            os.close(process)
            task.status = status
            self.left -= 1
            self._on_end(task, status)
            self._note_change()

        self._watch.watch(process, ended)

    def _note_change(self) -> None:
        """Handles SIGCHLD."""
        with contextlib.suppress(BlockingIOError):
            os.read(self._changes, 4096)
        self._on_change()
        self._reap_orphans()

    def _reap_orphans(self) -> None:
        """Reaps descendants that have ended, up to the first task, whose turn comes."""
        alive = self.alive
        peek = os.WEXITED | os.WNOHANG | os.WNOWAIT
        with contextlib.suppress(ChildProcessError):
            for _ in range(REAPED_AT_ONCE):
                found = os.waitid(os.P_ALL, 0, peek)
                if found is None or found.si_pid in alive:
                    break
                os.waitpid(found.si_pid, 0)
            else:  # processes that only fork may not keep the steward from its work
                os.write(self._changes_write, b"\0")
