"""Describes in one sentence why a job runs or waits, where the order of the jobs decides.
Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cosched.core.node.messages import Cause, Mode
from cosched.core.node.prospect import Prospect, Reason
from cosched.core.node.settings import LEAST_SHARE
from cosched.core.units import NS_PER_S
from cosched.observe.why.positions import in_words, span
from cosched.observe.why.rivals import names, s_of

Status = Mapping[str, Any]
Job = Mapping[str, Any]

#: Why a job runs although another one comes first.
_KEPT = {
    Cause.PULLED.value: "a message of a peer that runs pulled it in",
    Cause.GIVEN.value: "an outside command gave it its turn",
}
_TOO_CLOSE = ", too little more to stop it"
_UNTIL_CHECKED = "it keeps the CPUs until the order is checked again"


@dataclass(frozen=True, slots=True)
class InOrder:
    """A job and the jobs to compare it with."""

    status: Status  #: the status of the node
    job: Job  #: the job in the status
    others: Sequence[Job]  #: the jobs that wait while it runs, or that run while it waits

    @property
    def decides(self) -> bool:
        """Whether the node orders its jobs, so that they take no turns."""
        return any("order" in job for job in (self.job, *self.others))

    def runs(self) -> str:
        """Returns why the job runs, and why the first of the others waits."""
        first, *more = sorted(self.others, key=_number)
        also = f"; {names(more)} wait{s_of(more)} too" if more else ""
        own, waits = self._reason(self.job), self._reason(first)
        if _number(self.job) < _number(first):
            return f"{own}; {first['name']} waits: {waits}{also}"
        before = self._before(first)
        if before:
            crowded = f"it does not fit beside {names(before)}"
            return f"{own}; {first['name']} waits: {crowded}{also}"
        return f"{_kept(self.job)}; {first['name']} is next: {waits}{also}"

    def waits(self) -> str:
        """Returns why the job waits, and why the first of the others runs."""
        first, *more = sorted(self.others, key=_number)
        also = f"; {names(more)} run{s_of(more)} too" if more else ""
        own = self._reason(self.job)
        if _number(self.job) < _number(first):
            return f"it is next: {own}; {first['name']} runs: {_kept(first)}{also}"
        close = _TOO_CLOSE if _is_close(self.job, first) else ""
        return f"{own}; {first['name']} runs: {self._reason(first)}{close}{also}"

    def _before(self, job: Job) -> list[Job]:
        """Returns the jobs that come before a waiting job and have CPUs of it."""
        return [
            other
            for other in self.status["jobs"]
            if other["scheduled"]
            and not set(other["cpus"]).isdisjoint(job["cpus"])
            and _number(other) < _number(job)
        ]

    def _reason(self, job: Job) -> str:
        place = place_of(job)
        if place is None:
            return "its owner boosted it"
        least = LEAST_SHARE.parse(self.status["settings"]["least_share"])
        part = f"({least.percent}% of its share in {span(least.period_ns)})"
        return in_words(place, round(job["scheduled_s"] * NS_PER_S), part)


def place_of(job: Job) -> Prospect | None:
    """Returns the job's place in the order; None if the order does not decide."""
    order = job.get("order")
    if order is None:
        return None
    return Prospect(
        order["place"],
        Reason(order["reason"]),
        cost_ns=_ns(order["cost_s"]),
        age_ns=_ns(order["age_s"]),
        expected_ns=_ns(order["expected_s"]),
        left_ns=_ns(order["left_s"]),
        lengths=order["lengths"],
    )


def _ns(seconds: float | None) -> int:
    return round((seconds or 0) * NS_PER_S)


def _number(job: Job) -> int:
    """Returns the job's place as a number; raised jobs come before all others."""
    return -1 if job["mode"] == Mode.RAISED.value else int(job["order"]["place"])


def _kept(job: Job) -> str:
    """Returns why a job runs although another one comes first."""
    return _KEPT.get(job["came_by"], _UNTIL_CHECKED)


def _is_close(job: Job, running: Job) -> bool:
    """Returns whether a job waits only because small differences cause no switch."""
    own, other = place_of(job), place_of(running)
    if own is None or other is None or other.reason in (Reason.ENDING, Reason.DUE):
        return False
    return own.cost_ns <= other.cost_ns
