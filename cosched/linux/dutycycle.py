"""Shares CPUs without control groups, for ordinary users: stops and continues jobs.

Without rights to control groups, nothing gives a task a small share that can be taken back
(a nice value can only be raised). So this module uses the paper's other way (section
2.2.2): an unscheduled job is stopped, and runs now and then for a very short time, so that
it can trap messages. A job is unscheduled if its share is low and another job has more.
All other jobs run freely under the kernel.

    proportional   in each pulse one unscheduled job runs beside the scheduled job and gets
                   half of the CPU, or all of it while the scheduled job waits
    strict         the scheduled job is stopped during the pulse, so the pulsed job has its
                   CPUs alone: "100% for a very short time"

Each unscheduled job gets one pulse in ``DUTY_CYCLE_NS``, about 1% in both modes. The pulses
are spread evenly over the cycle. A switch ends a running pulse. A frozen job is stopped and
gets no pulse until it is thawed.

Invariants. A signal goes through a pidfd, so it can reach only the process that was added.
A job is stopped before another job is continued. ``remove``, ``destroy``, ``restore`` and
``close`` continue the processes that they remove, so none stays stopped.

Limits. Unused time of a scheduled job is lost in both modes. Only added processes are
stopped, not their children. A job that its user stopped by hand continues at its turn.
Some system calls return EINTR after SIGCONT even with SA_RESTART (epoll_wait, semop, see
signal(7)). If this process is killed, another process must call ``restore`` with the pids.
"""

from __future__ import annotations

import logging
import os
import signal
from collections.abc import Mapping

from msgspec import Struct, field

from cosched.core.errors import CoschedError
from cosched.core.node.groups import is_waiting_share
from cosched.core.node.periods import DUTY_CYCLE_NS
from cosched.linux import pidfd, proc
from cosched.linux.classes import ClassLocation, Way, check_key, check_mode, unknown_class
from cosched.linux.processes.signals import Delivery, send_by_pidfd

log = logging.getLogger(__name__)

# Strict: the job is alone on the CPU and runs at once. Proportional: a shorter pulse than a
# tick of 4 ms (250 Hz) might give a competing task no CPU time.
PULSE_NS = {"strict": 2_000_000, "proportional": 4_000_000}


class _Job(Struct):
    cpus: frozenset[int]
    pidfds: dict[int, int] = field(default_factory=dict)
    cpu_ns: dict[int, int] = field(default_factory=dict)
    """The last CPU time of each process, also of ended processes."""
    stopped: bool = False
    frozen: bool = False
    """Whether the job is stopped, without pulses, until it is thawed."""

    def signal(self, signum: int) -> None:
        for pid in list(self.pidfds):
            self.signal_one(pid, signum)

    def signal_one(self, pid: int, signum: int) -> None:
        """Signals a process; drops it if it has ended or if signals are forbidden."""
        delivery = send_by_pidfd(self.pidfds[pid], signum)
        if delivery is Delivery.SENT:
            return
        if delivery is Delivery.FOREIGN:
            log.warning("process %d now belongs to another user: not coscheduled", pid)
        self.drop(pid)

    def continue_one(self, pid: int) -> None:
        """Continues a process that is stopped. Others get no SIGCONT: the launcher of
        Open MPI 4 prints a line about it."""
        if self.stopped or proc.state(pid) == "T":
            self.signal_one(pid, signal.SIGCONT)

    def drop(self, pid: int) -> None:
        """Drops a process. The caller makes sure that it is not left stopped."""
        fd = self.pidfds.pop(pid, None)
        if fd is not None:
            os.close(fd)

    def read_cpu_ns(self) -> int:
        for pid, fd in self.pidfds.items():
            now = proc.process_cpu_ns(pid)
            if now is not None and not pidfd.exited(fd):
                self.cpu_ns[pid] = now
        return sum(self.cpu_ns.values())


class DutyCycle:
    """The class scheduler by SIGSTOP and SIGCONT."""

    name = "dutycycle"

    def __init__(self, mode: str) -> None:
        self.mode = check_mode(mode)
        self.pulse_period_ns: int | None = DUTY_CYCLE_NS
        self._jobs: dict[str, _Job] = {}
        self._percents: dict[str, int] = {}
        self._waiting: list[str] = []
        """The unscheduled jobs; the first one gets the next pulse."""
        self._pulsed: str | None = None

    # -- classes and members ----------------------------------------------------------

    def create(self, job: str, cpus: frozenset[int]) -> None:
        known = self._jobs.get(check_key(job))
        if known is None:
            self._jobs[job] = _Job(cpus)
        else:
            known.cpus = cpus

    def add(self, job: str, pid: int, start_ticks: int | None = None) -> None:
        known = self._jobs.get(job)
        if known is None:
            raise unknown_class(job)
        if pid in known.pidfds:
            return
        fd = _open(pid, start_ticks)
        if fd is None:
            return
        # Checked with signal 0, because SIGCONT is allowed for the whole session.
        delivery = send_by_pidfd(fd, 0)
        if delivery is not Delivery.SENT:
            os.close(fd)
        if delivery is Delivery.FOREIGN:
            raise CoschedError(
                f"class {job}: process {pid} belongs to another user; "
                "only your own can be stopped and continued"
            )
        if delivery is Delivery.ENDED:
            return
        known.pidfds[pid] = fd
        if known.stopped:
            known.signal_one(pid, signal.SIGSTOP)
        else:  # a killed scheduler daemon may have left it stopped
            known.continue_one(pid)
        if len(known.pidfds) == 1 and job in self._percents:
            self._choose()

    def remove(self, job: str, pid: int) -> None:
        known = self._jobs.get(job)
        if known is None or pid not in known.pidfds:
            return
        known.read_cpu_ns()
        known.continue_one(pid)
        known.drop(pid)

    def destroy(self, job: str) -> None:
        for pid in list(self._jobs[job].pidfds) if job in self._jobs else ():
            self.remove(job, pid)
        self._jobs.pop(job, None)
        self._percents.pop(job, None)
        if self._pulsed == job:
            self._pulsed = None
        self._choose()

    # -- suspension -------------------------------------------------------------------

    def freeze(self, job: str) -> None:
        if job not in self._jobs:
            raise unknown_class(job)
        self._set_frozen(job, frozen=True)

    def thaw(self, job: str) -> None:
        if job in self._jobs:
            self._set_frozen(job, frozen=False)

    def _set_frozen(self, job: str, *, frozen: bool) -> None:
        self._jobs[job].frozen = frozen
        self._percents.pop(job, None)
        if self._pulsed == job:
            self._pulsed = None
        self._choose()

    # -- shares -----------------------------------------------------------------------

    def set_shares(self, percents: Mapping[str, int]) -> frozenset[int]:
        self._percents |= {job: p for job, p in percents.items() if job in self._jobs}
        self._pulsed = None
        if self._waiting or any(known.pidfds for known in self._jobs.values()):
            self._choose()
        return frozenset()  # signals need no kick

    def _choose(self) -> None:
        """Finds the unscheduled jobs, and stops and continues processes accordingly."""
        any_scheduled = any(not is_waiting_share(p) for p in self._percents.values())
        waiting = {
            job
            for job, percent in self._percents.items()
            if any_scheduled
            and is_waiting_share(percent)
            # The processes of other jobs are steered in another way.
            and self._jobs[job].pidfds
        }
        # Jobs that were unscheduled before keep their order.
        kept = [job for job in self._waiting if job in waiting]
        self._waiting = kept + sorted(waiting.difference(kept))
        self._apply()

    def _apply(self) -> None:
        may_run = {job for job in self._jobs if self._may_run(job)}
        for job, known in self._jobs.items():
            if job not in may_run and not known.stopped:
                known.signal(signal.SIGSTOP)
                known.stopped = True
        for job, known in self._jobs.items():
            if job in may_run and known.stopped:
                known.signal(signal.SIGCONT)
                known.stopped = False
        if self._pulsed is not None:
            self.pulse_period_ns = PULSE_NS[self.mode]
        else:
            turns = max(1, len(self._waiting))
            gap = DUTY_CYCLE_NS // turns - PULSE_NS[self.mode]
            self.pulse_period_ns = max(gap, PULSE_NS[self.mode])

    def _may_run(self, job: str) -> bool:
        if self._jobs[job].frozen:
            return False
        if job in self._waiting:
            return job == self._pulsed
        if self._pulsed is None or self.mode != "strict":
            return True
        return self._jobs[job].cpus.isdisjoint(self._jobs[self._pulsed].cpus)

    def pulse(self) -> None:
        if self._pulsed is not None:
            self._pulsed = None
        elif self._waiting:
            self._pulsed = self._waiting.pop(0)
            self._waiting.append(self._pulsed)
        else:
            return
        self._apply()

    # -- accounts ---------------------------------------------------------------------

    def cpu_ns(self, job: str) -> int | None:
        known = self._jobs.get(job)
        return known.read_cpu_ns() if known is not None else None

    def place(self, job: str) -> ClassLocation:
        return ClassLocation((Way.DUTY_CYCLE,), ())

    def inspect(self) -> None:
        """Does nothing: processes cannot leave."""

    # -- the way back -----------------------------------------------------------------

    def restore(self, pids: Mapping[str, Mapping[int, int]]) -> None:
        self._percents.clear()
        self._waiting.clear()
        self._pulsed = None
        for known in self._jobs.values():
            known.signal(signal.SIGCONT)
            known.stopped = known.frozen = False
        self._apply()
        for pid, start_ticks in {
            known for several in pids.values() for known in several.items()
        }:
            fd = pidfd.open_identified(pid, start_ticks)
            if fd is not None:
                send_by_pidfd(fd, signal.SIGCONT)
                os.close(fd)

    def vacate(self) -> None:
        """Does nothing: there are no groups."""

    def close(self) -> None:
        for job in list(self._jobs):
            self.destroy(job)


def _open(pid: int, start_ticks: int | None) -> int | None:
    if start_ticks is None:
        return pidfd.open_pidfd(pid)
    return pidfd.open_identified(pid, start_ticks)
