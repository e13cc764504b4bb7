"""Ends one world of a job on one node: its tasks, its steward and then its subtree.

A failure goes up the tree to the job's root, which ends the whole tree. Each node
reports the end of its subtree once the tasks and the stewards there are gone. If the tree
is broken, the controller orders the end directly, and the agent reports for this node.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from cosched.cluster.agent.frames import EndTasks
from cosched.cluster.agent.route import Route
from cosched.cluster.agent.stewards import Steward
from cosched.cluster.agent.worlds.worlds import Worlds
from cosched.cluster.message_kinds import Message
from cosched.cluster.messages import End, Failure, SubtreeEnded, TaskFailed
from cosched.core.cluster.startup.ends import Awaited, Check, EndLimit
from cosched.core.cluster.startup.tree import Position
from cosched.core.names import CONTROLLER

#: The exit status of a job that never began.
NOT_STARTED = 125


class Ending:
    """The end of one world. worlds: at the job's root, the worlds that it has spawned.

    steward_gone: whether this node has no steward any more.

    send: sends a message of this world to a member. later: calls a function after a time
    in seconds. forget: removes the world from its node.
    """

    def __init__(
        self,
        route: Route,
        worlds: Worlds,
        send: Callable[[str, Message], None],
        later: Callable[[float, Callable[[], None]], None],
        forget: Callable[[], None],
    ) -> None:
        self.steward_gone = False
        self._ended_ns = 0  # the time of the report of the subtree's end; 0: none yet
        self._route = route
        self._start = route.job, route.start
        self._here = route.hosts[route.place]
        self._worlds = worlds
        self._send = send
        self._later = later
        self._forget = forget
        self._children: set[Position] = set(route.children)  # their subtrees have not ended
        self._steward: Steward | None = None
        self._grace_s = 0.0
        self._tasks_gone = False
        self._steward_closed = False  # it has nothing to do any more
        self._direct = False  # the tree is broken: the agent reports to the controller
        self._left = False  # the job goes on without the tasks of this world
        self._fails = False  # a failure was passed on
        self._failure: Failure | None = None
        self._output_lost: Failure | None = None
        self._limit = EndLimit()
        self._overdue = ""  # why this node's steward was killed

    @property
    def reported(self) -> bool:
        """Whether the end of the subtree was reported."""
        return self._ended_ns > 0

    # --- what has happened ----------------------------------------------------------------

    def take_steward(self, steward: Steward, grace_s: float) -> None:
        """Stores the steward, which has to end with the job. grace_s: between SIGTERM and
        SIGKILL for its tasks."""
        self._steward = steward
        self._grace_s = grace_s

    def note_nothing_began(self) -> None:
        """Records that this node has neither tasks nor a steward."""
        self._tasks_gone = self.steward_gone = True

    def note_tasks_ended(self) -> None:
        """Records that this node's tasks are gone."""
        self._tasks_gone = True

    def note_steward_ended(self) -> None:
        """Records that this node's steward is gone."""
        self.steward_gone = True

    def note_failure(self, failure: Failure | None) -> None:
        """Stores why the job ends. The first failure counts."""
        self._failure = self._failure or failure

    def note_output_lost(self, reason: str) -> None:
        """Marks the output as incomplete: the job goes on, and has failed at its end."""
        self._output_lost = Failure(1, reason)

    def note_not_started(self, reason: str) -> None:
        """Stores why the job never begins."""
        self.note_failure(Failure(NOT_STARTED, reason))

    def child_ended(self, child: Position, failure: Failure | None) -> None:
        """Handles the end of a child's subtree. failure: its reason, if any."""
        self._children.discard(child)
        if not self._left:
            self.note_failure(failure)
        self.check()

    # --- orders ---------------------------------------------------------------------------

    def leave(self, reason: str) -> None:
        """Ends the tasks of world 0 on all nodes (only at the root). The job goes on with
        its other worlds: how these tasks end does not count. The root's steward gets no
        limit, since it still writes the output of the job."""
        self._left = True
        self._pass_down(End(*self._start, reason, direct=False))
        if self._steward is not None and not self.steward_gone:
            self._steward.send(EndTasks(reason))

    def task_failed(self, failure: Failure) -> None:
        """Handles the failure of a task of this world."""
        if not self._left:
            self.fail(failure)

    def fail(self, failure: Failure) -> None:
        """Passes a failure to the root, which ends the job. The first one is enough: all
        tasks of a large job may fail at the same moment."""
        self.note_failure(failure)
        if self._fails:
            return
        self._fails = True
        if self._route.heads_job:
            self._pass_down(End(*self._start, failure.reason, direct=False))
            self._worlds.end(failure.reason)
            self._end_own_tasks(failure.reason)
        else:
            self._send(self._route.parent, TaskFailed(*self._start, failure))

    def discard(self, reason: str) -> None:
        """Ends this node's tasks, which have not begun. reason: may be empty."""
        self.note_not_started(reason or "the start was given up")
        self._end_own_tasks(reason)
        self.check()

    def order(self, message: End) -> None:
        """Ends the subtree, or this node alone if the order is direct."""
        if message.direct and self.reported:  # its end is stored
            self._forget()
            return
        self.note_failure(Failure(128 + 15, message.reason))
        if message.direct:
            self._direct = True
            self._children.clear()
            self._worlds.close()
        else:
            self._pass_down(message)
            self._worlds.end(message.reason)
        # The root itself writes what its own tasks write, so that needs no credit.
        self._end_own_tasks(message.reason, message.direct and not self._route.heads_job)
        if self._steward is None:
            self.note_nothing_began()
        self.check()

    def _pass_down(self, message: End) -> None:
        for child in self._route.children:
            self._send(self._route.hosts[child], message)

    def _end_own_tasks(self, reason: str, direct: bool = False) -> None:
        if self._steward is not None and not self.steward_gone:
            self._steward.send(EndTasks(reason, direct))
            self._await_end(self._steward, self._limit.order(self._grace_s))

    def _await_end(self, steward: Steward, check: Check | None) -> None:
        """Kills the steward if it does not end in time. It may not read: its user may stop
        it, and a pipe without a reader blocks its output."""
        if check is None:
            return
        reason = check.describe(self._here)

        def enforce() -> None:
            if not self._has_ended(check.awaited):
                self._overdue = reason
                steward.kill(reason)

        self._later(check.after_s, enforce)

    def _has_ended(self, awaited: Awaited) -> bool:
        return self.steward_gone or (awaited is Awaited.TASKS and self._tasks_gone)

    # --- the report -----------------------------------------------------------------------

    def check(self) -> None:
        """Reports the end once the subtree's tasks, and this node's steward, are gone."""
        if self.steward_gone and not self._may_have_ended:
            self._tasks_gone = True
            killed = f"the steward of the job on {self._here} was killed"
            self.fail(Failure(1, self._overdue or killed))
        if not self._tasks_gone or self.reported:
            return
        if self._route.heads_job and not self._children:
            self._worlds.first_ended()
        others = bool(self._children) or not self._worlds.empty
        if others and self._route.heads_job and not self._direct:
            return  # the root's steward still writes output of the others
        self._worlds.close()
        if not self.steward_gone:
            assert self._steward is not None
            self._steward_closed = True
            self._steward.close()
            self._await_end(self._steward, self._limit.close())
            return
        if self._children:
            return
        self._ended_ns = time.time_ns()
        if not self._direct:
            self._report(self._route.parent)
        if not self._route.heads_job or self._direct:
            self._forget()

    @property
    def _may_have_ended(self) -> bool:
        """Whether the end of this node's steward leaves the job as it is. The root's one
        writes output of the others until they have ended."""
        writes = self._route.heads_job and not self._steward_closed
        return self._tasks_gone and not (writes and self._failure is None)

    @property
    def _cause(self) -> Failure | None:
        return self._failure or self._output_lost

    def report_again(self) -> None:
        """Sends the end to a controller that may not have it (only at the root)."""
        if self.reported:
            self._report(CONTROLLER)

    def _report(self, to: str) -> None:
        self._send(to, SubtreeEnded(*self._start, self._cause, self._ended_ns))
