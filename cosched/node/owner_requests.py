"""Handles the requests of a job's owner: suspend, resume, raise, release.

The kernel names the user (SO_PEERCRED). Only the job's owner and root may change a job. To
raise a job delays other jobs, so the operator must allow it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from cosched.core.errors import CoschedError
from cosched.core.node.messages import Mode, ModeChosen, RestChosen
from cosched.node.driver import Driver, clocks
from cosched.node.records.user_lines import by
from cosched.node.tasks.job_table import JobTable
from cosched.node.tasks.live_job import LiveJob

log = logging.getLogger(__name__)

ROOT_UID = 0

#: The mode that each request gives the job.
MODES = {
    "suspend": Mode.SUSPENDED,
    "resume": Mode.COSCHEDULED,
    "raise": Mode.RAISED,
    "release": Mode.RELEASED,
}


class Owners:
    """Answers the requests in ``MODES`` for one node's daemon."""

    def __init__(self, driver: Driver, jobs: JobTable, *, raising: bool) -> None:
        self._driver = driver
        self._jobs = jobs
        self._raising = raising

    def handlers(
        self,
    ) -> dict[str, Callable[[Mapping[str, Any], int], Mapping[str, Any]]]:
        """Returns the handlers for the control socket; each takes a request and a uid."""
        return {op: partial(self._change, op) for op in MODES}

    def _change(self, op: str, request: Mapping[str, Any], uid: int) -> Mapping[str, Any]:
        job = self._find(op, str(request.get("job")), uid)
        mode = MODES[op]
        if mode is Mode.RAISED and not self.may_raise(uid):
            raise CoschedError(
                f"job '{job.name}' may not run alone here; the operator has to allow it: "
                "allow_raise = true in [node]"
            )
        before = self._driver.machine.jobs[job.key].mode
        self._choose(job, mode)
        log.info("job %s: %s, by uid %d", job.key, mode.value, uid, extra=by(uid))
        return {"job": job.key, "before": before.value, "mode": mode.value}

    def _choose(self, job: LiveJob, mode: Mode) -> None:
        self._driver.feed(ModeChosen(**clocks(), job=job.key, mode=mode))

    def may_raise(self, uid: int) -> bool:
        """Returns whether this user's jobs may run alone on their CPUs."""
        return self._raising or uid == ROOT_UID

    def _find(self, op: str, name: str, uid: int) -> LiveJob:
        named = [job for job in self._jobs if name in (job.name, job.key)]
        own = [job for job in named if uid in (job.uid, ROOT_UID)]
        if not named:
            raise CoschedError(f"no job '{name}' runs here; see: cosched status")
        if not own:
            # By number: a directory service may be slow, and all jobs would wait.
            raise CoschedError(
                f"job '{name}' belongs to uid {named[0].uid}; only its owner and root may "
                f"{op} it"
            )
        # The name of one job may be the key of another job.
        own = [job for job in own if job.key == name] or own
        if len(own) > 1:
            keys = " or ".join(sorted(job.key for job in own))
            raise CoschedError(f"several users have a job '{name}'; name one: {keys}")
        return own[0]

    def take_over(self, job: LiveJob) -> None:
        """Restores the mode that the owner chose under an earlier daemon."""
        mode = job.region.mode
        if mode is Mode.RAISED and not self.may_raise(job.uid):
            mode = Mode.COSCHEDULED
        if mode is Mode.RESTING:  # that daemon's rest: its processes are still stopped
            for resting in ((job.key,), ()):
                now = clocks()
                self._driver.feed(RestChosen(**now, jobs=resting, until_ns=now["now_ns"]))
        elif mode is not Mode.COSCHEDULED:
            self._choose(job, mode)
