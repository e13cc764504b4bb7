"""Answers requests of the control socket about the jobs of a node and what it learned."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cosched.core.errors import CoschedError
from cosched.core.node.knowledge import REMEMBERED
from cosched.core.node.messages import KnowledgeReplaced, TurnGiven
from cosched.node.driver import Driver, clocks
from cosched.node.records.explain import explain
from cosched.node.records.history_writer import HistoryWriter
from cosched.node.sockets.control import Held
from cosched.node.tasks.job_table import JobTable
from cosched.rundir.paths import job_key


class JobAnswers:
    """The answers. driver: gets the events that requests order."""

    def __init__(self, driver: Driver, jobs: JobTable, history: HistoryWriter) -> None:
        self._driver = driver
        self._jobs = jobs
        self._history = history

    def why(self, request: Mapping[str, Any], uid: int) -> Mapping[str, Any]:
        """Returns why a job of this user was scheduled or not; see ``explain``."""
        return explain(self._driver.recorder, request, uid)

    def length(self, request: Mapping[str, Any], uid: int) -> Mapping[str, Any]:
        """Returns how long a job of this user was scheduled, once it has left; less work
        than the whole history."""
        name, since_wall_ns = request.get("job"), request.get("since_wall_ns", 0)
        if not isinstance(name, str) or type(since_wall_ns) is not int:
            raise CoschedError("length: needs a job and since_wall_ns")
        key = job_key(uid, name)
        if self._jobs.get(key) is not None:
            return {"running": True, "length_ns": None}
        length_ns = self._history.length_ns(uid, key, since_wall_ns)
        return {"running": False, "length_ns": length_ns}

    def relearn(self, request: Mapping[str, Any]) -> Mapping[str, Any]:
        """Replaces what the node learned by the jobs that ended in a time."""
        since_wall_ns = request.get("since_wall_ns", 0)
        until_wall_ns = request.get("until_wall_ns")
        for name, time_ns in (("since", since_wall_ns), ("until", until_wall_ns or 0)):
            if type(time_ns) is not int:
                raise CoschedError(f"{name}_wall_ns: must be a whole number of nanoseconds")
        ended = tuple(self._history.ended(since_wall_ns, until_wall_ns)[-REMEMBERED:])
        self._driver.feed(KnowledgeReplaced(**clocks(), ended=ended))
        return {"ended": len(ended)}

    def forget(self, request: Mapping[str, Any], _pid: int) -> Held:
        """Does as ``relearn``; all that was learned returns with the holder's end."""
        return Held(self.relearn(request), self._remember)

    def _remember(self) -> None:
        self.relearn({})

    def give_turn(self, request: Mapping[str, Any]) -> Mapping[str, Any]:
        """Gives a job the next turn now; returns whether it is scheduled."""
        job = str(request.get("job"))
        self._driver.feed(TurnGiven(**clocks(), job=job))
        state = self._driver.machine.jobs.get(job)
        return {"given": state is not None and state.scheduled}
