"""Delays jobs whose memory does not fit on the node.

``core.node.admission`` decides. This module delays the answer to the
registration of a job's tasks. They sleep in MPI_Init meanwhile and hold little memory. A
task that registers at its launch gets an answer at once. Each waiting task gets a message
twice a second. If the daemon ends, it registers with the next one; if none comes within two
seconds, or the daemon hangs, it runs without coscheduling.
"""

from __future__ import annotations

import errno
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec import Struct, field

from cosched.core.node.admission import (
    Candidate,
    Decision,
    MemoryNeed,
    Verdict,
    free_bytes,
    judge,
)
from cosched.core.units import NS_PER_MS, NS_PER_S
from cosched.node.memory_meter import MemoryMeter
from cosched.node.records.user_lines import by
from cosched.node.sockets.registration import Applicant, Register, RegistrationRefused
from cosched.node.tasks.job_table import JobTable
from cosched.node.tasks.live_job import LiveJob
from cosched.rundir.paths import job_key
from cosched.service.loop import Loop
from cosched.shm.region_values import Phase

log = logging.getLogger(__name__)

LOOK_NS = 500 * NS_PER_MS
#: A refused job that registers again after this time is another run: its user gets the
#: refusal again.
REFUSAL_NS = 10 * NS_PER_S


class _Line(Struct):
    """A waiting job and its tasks."""

    key: str
    name: str
    uid: int
    since_ns: int
    declared_bytes: int = 0
    reason: str = ""
    applicants: list[Applicant] = field(default_factory=list)

    def join(self, applicant: Applicant) -> None:
        self.declared_bytes = max(self.declared_bytes, applicant.hello.memory_bytes)
        self.applicants.append(applicant)

    @property
    def pids(self) -> set[int]:
        return {applicant.peer.pid for applicant in self.applicants}


class MemoryAdmission:
    """Registers the tasks of a job when the job's memory fits."""

    def __init__(
        self,
        node: str,
        jobs: JobTable,
        loop: Loop,
        register: Register,
        meter: MemoryMeter,
        now_ns: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self._node = node
        self._jobs = jobs
        self._loop = loop
        self._register = register
        self._meter = meter
        self._now_ns = now_ns
        self._lines: dict[str, _Line] = {}
        self._refused_ns: dict[str, int] = {}  # when a refused job last asked
        self._looking = False
        self._blind = False

    def __len__(self) -> int:
        """Returns the number of waiting jobs."""
        return len(self._lines)

    def admit(self, applicant: Applicant) -> None:
        """Answers the task, now or when its job fits."""
        hello = applicant.hello
        key = job_key(applicant.peer.uid, hello.job)
        if not self._meter.limited or self._jobs.get(key) is not None:
            applicant.answer(self._register)
            return
        if hello.phase is not Phase.TASK:
            self._admit_launched(applicant, key)
            return
        line = self._lines.get(key)
        if line is None:
            line = self._lines[key] = self._line(key, applicant)
        else:
            line.join(applicant)
        applicant.await_answer(lambda: self._left(line, applicant))
        self._look()
        if key in self._lines:
            # Only the first task shows the reason to the user.
            applicant.ask_to_wait(line.reason if line.applicants[0] is applicant else "")
            self._keep_looking()

    def _admit_launched(self, applicant: Applicant, key: str) -> None:
        """Answers a task at its launch at once; if its job must wait, MPI_Init waits."""
        line = self._line(key, applicant)
        if not self._lines and self._fits(line):  # it overtakes no waiting job
            self._begin(line)
        else:
            applicant.refuse(RegistrationRefused(errno.EAGAIN, ""))

    def _fits(self, line: _Line) -> bool:
        try:
            (decision,) = self._judge([line])
        except OSError:  # as in _look
            return False
        return decision.verdict not in (Verdict.WAITS, Verdict.REFUSED)

    def _line(self, key: str, first: Applicant) -> _Line:
        line = _Line(key, first.hello.job, first.peer.uid, self._now_ns())
        line.join(first)
        return line

    def take_over(self, job: LiveJob) -> None:
        """Reads the memory that the job declared to a dead daemon.

        Its user can change the region, so the value is limited to the machine's memory."""
        job.declared_bytes = min(job.region.memory_bytes, self._meter.node(0).total_bytes)

    def close(self) -> None:
        """Closes all waiting connections; these tasks register with the next daemon."""
        for line in self._lines.values():
            for applicant in line.applicants:
                applicant.leave()
        self._lines.clear()

    # -- looking ----------------------------------------------------------------------

    def _keep_looking(self) -> None:
        if not self._looking:
            self._looking = True
            self._loop.call_at(self._now_ns() + LOOK_NS, self._look_again)

    def _look_again(self) -> None:
        self._looking = False
        self._look()
        for line in self._lines.values():
            for number, applicant in enumerate(list(line.applicants)):
                applicant.ask_to_wait("" if number else line.reason)
        if self._lines:
            self._keep_looking()

    def _look(self) -> None:
        lines = list(self._lines.values())
        try:
            decisions = self._judge(lines)
        except OSError as error:  # out of descriptors: the jobs are judged again later
            if not self._blind:
                log.warning("memory cannot be measured for now: %s", error)
            self._blind = True
            return
        self._blind = False
        for line, decision in zip(lines, decisions, strict=True):
            if decision.verdict is Verdict.WAITS:
                line.reason = (
                    f"job {line.name} waits on node {self._node}: {decision.reason}"
                )
            else:
                self._open(line, decision)

    def _judge(self, lines: Sequence[_Line]) -> tuple[Decision, ...]:
        candidates = [
            Candidate(line.name, self._need(line), line.since_ns) for line in lines
        ]
        waiting_bytes = sum(c.need.measured_bytes for c in candidates)
        admitted = [self._need_of(job) for job in self._jobs]
        node = self._meter.node(sum(n.measured_bytes for n in admitted) + waiting_bytes)
        return judge(node, admitted, candidates, self._now_ns())

    def _need_of(self, job: LiveJob) -> MemoryNeed:
        return self._meter.need(job.declared_bytes, job.tasks)

    def _need(self, line: _Line) -> MemoryNeed:
        return self._meter.need(line.declared_bytes, line.pids)

    def _open(self, line: _Line, decision: Decision) -> None:
        del self._lines[line.key]
        if decision.verdict is Verdict.REFUSED:
            what = "job %s is not coscheduled: %s"
            log.warning(what, line.key, decision.reason, extra=by(line.uid))
            self._refuse(line, decision)
            return
        if decision.verdict is Verdict.OVERDUE:
            log.warning("job %s begins: %s", line.key, decision.reason, extra=by(line.uid))
        self._begin(line)

    def _begin(self, line: _Line) -> None:
        for applicant in line.applicants:
            applicant.answer(self._register)
        job = self._jobs.get(line.key)
        if job is not None:
            job.declared_bytes = line.declared_bytes
            job.region.declare_memory(line.declared_bytes)

    def _refuse(self, line: _Line, decision: Decision) -> None:
        reason = (
            f"job {line.name} is not coscheduled on node {self._node}: {decision.reason}"
        )
        now_ns = self._now_ns()
        self._refused_ns = {
            key: asked_ns
            for key, asked_ns in self._refused_ns.items()
            if now_ns - asked_ns < REFUSAL_NS
        }
        for applicant in line.applicants:
            # Its tasks register one by one: only the first gets the reason.
            first = line.key not in self._refused_ns
            self._refused_ns[line.key] = now_ns
            applicant.refuse(RegistrationRefused(errno.ENOMEM, reason if first else ""))

    def _left(self, line: _Line, applicant: Applicant) -> None:
        line.applicants.remove(applicant)
        if not line.applicants:
            self._lines.pop(line.key, None)
        self._look()

    # -- for people -------------------------------------------------------------------

    def needs(self) -> dict[str, MemoryNeed]:
        """Returns the memory need of each job; it reads /proc for every task."""
        return {job.key: self._need_of(job) for job in self._jobs}

    def memory_status(self, needs: Mapping[str, MemoryNeed]) -> dict[str, Any]:
        """Returns the part ``memory`` of the node's status from the needs of its jobs."""
        waiting = sum(self._need(line).measured_bytes for line in self._lines.values())
        held = sum(need.measured_bytes for need in needs.values())
        node = self._meter.node(held + waiting)
        return {
            "guarded": self._meter.limited,
            "total_bytes": node.total_bytes,
            "usable_bytes": node.usable_bytes,
            "free_bytes": free_bytes(node, list(needs.values())),
            "pressure_percent": node.pressure_percent,
        }

    def waiting_status(self) -> list[dict[str, Any]]:
        """Returns the part ``waiting`` of the node's status."""
        now_ns = self._now_ns()
        return [
            {
                "name": line.name,
                "uid": line.uid,
                "key": line.key,
                "tasks": len(line.applicants),
                "need_bytes": self._need(line).bytes,
                "waited_s": (now_ns - line.since_ns) / NS_PER_S,
                "reason": line.reason,
            }
            for line in self._lines.values()
        ]

    @staticmethod
    def job_status(need: MemoryNeed) -> dict[str, int]:
        """Returns the part ``memory`` of a job's status."""
        return {
            "declared_bytes": need.declared_bytes,
            "measured_bytes": need.measured_bytes,
        }
