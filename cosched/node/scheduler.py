"""The scheduler daemon: drives ``core.node`` with what happens on a live node.

It waits in one place for everything: registrations, control requests, the jobs' bells,
the timer daemon's bell, a pidfd for each task, signals. Each becomes an event; the
commands that come back are carried out at once.
"""

from __future__ import annotations

import errno
import logging
import os
import signal
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from cosched.core.config.kinds import OFF
from cosched.core.config.limits import limits_for, refuse_settings, refuse_task
from cosched.core.config.schema import TRACE_BYTES
from cosched.core.config.values import Limits
from cosched.core.errors import CoschedError
from cosched.core.messages import (
    AlarmRang,
    Event,
    MessageTrapped,
    Mode,
    ModeChosen,
    SettingsChanged,
    ShutdownRequested,
    SliceEnded,
    TaskExited,
    TaskRegistered,
    TurnGiven,
)
from cosched.core.node import NodeScheduler
from cosched.core.settings import Settings
from cosched.core.units import NS_PER_MS, NS_PER_S
from cosched.linux.classes import ClassScheduler
from cosched.linux.kick import Kicker
from cosched.node.books import Books
from cosched.node.bounded_file import Place
from cosched.node.complaints import Complaints
from cosched.node.control import ControlSocket
from cosched.node.effects import Effects, silence
from cosched.node.explain import explain
from cosched.node.jobs import JobTable, LiveJob
from cosched.node.listener import Peer
from cosched.node.loop import Loop
from cosched.node.memory import MemoryGate, MemoryTerms
from cosched.node.metrics_process import MetricsProcess
from cosched.node.owners import Owners
from cosched.node.recorder import Recorder
from cosched.node.registration import (
    Hello,
    RegistrationRefused,
    RegistrationSocket,
    Welcome,
)
from cosched.node.status import CARRIERS, node_status
from cosched.node.timer_process import TimerProcess
from cosched.shm._native import lib
from cosched.shm.paths import NodePaths
from cosched.shm.region import NodeRegion, Request

log = logging.getLogger(__name__)

BEAT_NS = 200 * NS_PER_MS
#: How long private daemons wait for their first job before they give up.
PRIVATE_GRACE_NS = 15 * NS_PER_S
#: How long they stay after the last one, so that a second job need not start them again.
PRIVATE_LINGER_NS = NS_PER_S


@dataclass(frozen=True, slots=True)
class DaemonOptions:
    """How this daemon was started.

    private: for one user's jobs; ends by itself when there are none.
    chosen: why this class scheduler, for people.
    priority: what priority the daemon got, for people.
    limits: what the operator leaves to users.
    metrics: where Prometheus may ask, ``HOST:PORT`` or ``off``.
    trace_bytes: what the trace's files may take together; 0: no trace.
    memory: how much of it jobs may have, and how long one waits for it.
    allow_raise: whether owners may have a job run alone; None: if these are private.
    history: where jobs that have ended are written down, if anywhere.
    """

    private: bool
    chosen: str
    priority: str
    limits: Limits = field(default_factory=Limits)
    metrics: str = OFF
    trace_bytes: int = TRACE_BYTES
    memory: MemoryTerms = field(default_factory=MemoryTerms)
    allow_raise: bool | None = None
    history: Place | None = None


class SchedulerDaemon:
    """One node's scheduler daemon, from its sockets to its end."""

    def __init__(
        self,
        paths: NodePaths,
        settings: Settings,
        classes: ClassScheduler,
        options: DaemonOptions,
    ) -> None:
        self.paths = paths
        self.options = options
        self.classes = classes
        self.machine = NodeScheduler(settings)
        self.jobs = JobTable(paths)
        self.recorder = Recorder(paths.node, self.machine, self.jobs)
        self._books = Books(paths.node, self.recorder, classes.cpu_ns)
        self.started_ns = time.monotonic_ns()
        self._loop = Loop()
        self._alarm_ns = 0
        self._idle_since_ns = self.started_ns + PRIVATE_GRACE_NS - PRIVATE_LINGER_NS
        self._metrics = None
        if options.metrics != OFF:
            self._metrics = MetricsProcess(self._loop, paths, options.metrics)
        self.region = NodeRegion.create(paths.node_region)
        self._bell = self._open_bell()
        self.timer = TimerProcess(
            self._loop,
            [
                "--run-dir",
                str(paths.run_dir),
                "--node",
                paths.node,
                "--class-scheduler",
                classes.name,
                "--mode",
                classes.mode,
            ],
        )
        self._kicker = Kicker(classes.mode)
        self._effects = Effects(
            classes,
            self.jobs,
            self.region,
            kick=self._kicker.kick,
            ring_timer=self.timer.ring,
            set_alarm=self._set_alarm,
        )

        self.gate = MemoryGate(
            paths.node, self.jobs, self._loop, self._register, options.memory
        )
        allow = options.private if options.allow_raise is None else options.allow_raise
        self._owners = Owners(self.machine, self.jobs, self._choose_mode, raising=allow)

    # -- life -----------------------------------------------------------------------

    def run(self, ready: Callable[[], None]) -> None:
        """Takes over what a dead daemon left, opens for business, calls ``ready()``,
        and returns after CMDDWN or a signal to end."""
        self._watch_signals()
        self._loop.watch(self._bell, self._hear_timer)
        self.recorder.open(self.paths.directory, self.options.trace_bytes)
        if self.options.history is not None:
            self._books.open(self.options.history)
        self._adopt()
        mode = 0o600 if self.options.private else 0o666
        complaints = Complaints()
        registration = RegistrationSocket(
            self.paths.register_socket,
            self._loop,
            self.gate.admit,
            mode=mode,
            complaints=complaints,
        )
        control = ControlSocket(
            self.paths.control_socket,
            self._loop,
            mode=mode,
            readers={"status": self._status},
            writers={
                "set": self._set,
                "turn": self._give_turn,
                "down": self._down,
                "retire": self._retire,
            },
            owners={
                "why": self._why,
                "history": self._books.tell,
                **self._owners.handlers(),
            },
            on_lease_end=self._note_activity,
            complaints=complaints,
        )
        self._control = control
        self._beat()
        if self.classes.pulse_period_ns:
            self._pulse()
        if self._metrics is not None:
            self._metrics.start()
        self.timer.start(on_ready=ready)
        self._loop.run()
        registration.close()
        self.gate.close()
        control.close()
        self._shut_down()

    def _shut_down(self) -> None:
        for job in self.jobs:
            self._books.daemon_leaves(job)
        self.feed(ShutdownRequested(**self._clocks()))
        for job in self.jobs:
            self._books.job_ended(job)
            self._forget_job(job)
        self.recorder.close()
        self._books.close()
        self.timer.stop()
        if self._metrics is not None:
            self._metrics.stop()
        self._kicker.close()
        self.classes.close()
        self.region.close()
        self.region.unlink()
        self.paths.bell("@timer").unlink(missing_ok=True)
        self._loop.close()

    def _watch_signals(self) -> None:
        self._loop.stop_on([signal.SIGTERM, signal.SIGINT])
        signal.signal(signal.SIGHUP, signal.SIG_IGN)

    def _open_bell(self) -> int:
        path = self.paths.bell("@timer")  # no job key starts with @
        path.unlink(missing_ok=True)
        os.mkfifo(path, 0o600)
        return os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)

    # -- events in, commands out ----------------------------------------------------

    def feed(self, event: Event) -> None:
        """One event through the machine and out into the node."""
        try:
            commands = self.machine.handle(event)
        except Exception:
            self.recorder.record(event, ())  # what to tell a machine to see it fail again
            self.recorder.close()
            raise
        self._effects.carry_out(commands)
        self.recorder.record(event, commands)

    @staticmethod
    def _clocks() -> dict[str, int]:
        return {"now_ns": time.monotonic_ns(), "wall_ns": time.time_ns()}

    def _register(self, peer: Peer, hello: Hello, pidfd: int) -> Welcome:
        before = self.jobs.job_of(peer.pid)
        if before is not None:  # it initialises MPI again, or became another program
            self._task_left(before, peer.pid)
        if self.options.private and peer.uid != os.geteuid():
            raise RegistrationRefused(errno.EACCES, "these daemons are another user's")
        self._check_limits(peer, hello)
        job = self._find_or_create(peer, hello)
        try:
            cpus = frozenset(os.sched_getaffinity(peer.pid))
            task = self.jobs.add_task(
                job,
                peer.pid,
                pidfd,
                rank=hello.rank,
                world=hello.world,
                carrier=hello.carrier,
            )
        except (CoschedError, OSError) as error:
            self._forget_if_empty(job)
            raise RegistrationRefused(errno.ENOSPC, str(error)) from None
        self._loop.watch(task.pidfd, lambda: self._task_left(job, peer.pid))
        self.recorder.introduce(job, task)
        self._introduce(job, peer.pid, cpus)
        return Welcome(task.slot, job.region.size(), job.region.fd, job.bell)

    def _check_limits(self, peer: Peer, hello: Hello) -> None:
        limits = limits_for(self.options.limits, peer.uid)
        others = [j for j in self.jobs if j.uid == peer.uid and j.name != hello.job]
        refusal = refuse_task(limits, CARRIERS[hello.carrier], len(others))
        if refusal is not None:
            raise RegistrationRefused(errno.EPERM, refusal)

    def _find_or_create(self, peer: Peer, hello: Hello) -> LiveJob:
        job = self.jobs.get(f"{peer.uid}.{hello.job}")
        if job is not None:
            return job
        try:
            job = self.jobs.create(hello.job, peer.uid, peer.gid)
        except OSError as error:
            raise RegistrationRefused(
                error.errno or errno.EIO, f"no shared memory for the job: {error}"
            ) from None
        job.region.record_submission(hello.submitted_ns)
        self._watch_job(job)
        return job

    def _introduce(self, job: LiveJob, pid: int, cpus: frozenset[int]) -> None:
        self.feed(
            TaskRegistered(
                **self._clocks(),
                job=job.key,
                task=pid,
                cpus=cpus,
                submitted_ns=job.region.submitted_ns,
            )
        )

    def _watch_job(self, job: LiveJob) -> None:
        self._loop.watch(job.bell, lambda: self._hear_job(job))

    def _hear_job(self, job: LiveJob) -> None:
        silence(job.bell)
        for request in job.region.take_requests():
            self._take_request(job, request)

    def _take_request(self, job: LiveJob, request: Request) -> None:
        task = job.task_in_slot(request.slot)
        if task is None:
            return
        if request.code == lib.COSCHED_CMDSCH:
            self.feed(
                MessageTrapped(
                    **self._clocks(), job=job.key, task=task.pid, epoch=request.epoch
                )
            )
        elif request.code == lib.COSCHED_CMDOUT:
            self._task_left(job, task.pid)

    def _hear_timer(self) -> None:
        silence(self._bell)
        for request in self.region.take_requests():
            if request.code == lib.COSCHED_CMDCSW:
                self.feed(SliceEnded(**self._clocks()))

    def _task_left(self, job: LiveJob, pid: int) -> None:
        task = job.tasks[pid]
        self._loop.unwatch(task.pidfd)
        self._books.task_leaves(job, task)
        self.jobs.remove_task(job, pid)
        self.feed(TaskExited(**self._clocks(), job=job.key, task=pid))
        self._forget_if_empty(job)

    def _forget_if_empty(self, job: LiveJob) -> None:
        if not job.tasks:
            self._books.job_ended(job)
            self._forget_job(job)
            self._note_activity()

    def _forget_job(self, job: LiveJob) -> None:
        for task in job.tasks.values():
            self._loop.unwatch(task.pidfd)
        self._loop.unwatch(job.bell)
        self.jobs.destroy(job)

    def _give_up(self, job: LiveJob) -> None:
        """Lets a job run freely whose region cannot be used any more."""
        log.error("job %s: its owner truncated its region; it runs on its own", job.key)
        for pid in list(job.tasks):
            self._task_left(job, pid)

    def _adopt(self) -> None:
        """Replays the registrations of tasks that a dead daemon left running."""
        for problem in self.jobs.adopt():
            log.warning("not taken over: %s", problem)
        for job in self.jobs:
            self._books.adopt(job)
            self._watch_job(job)
            for pid, task in list(job.tasks.items()):
                self._loop.watch(task.pidfd, lambda j=job, p=pid: self._task_left(j, p))  # type: ignore[misc]
                self.recorder.introduce(job, task)
                try:
                    cpus = frozenset(os.sched_getaffinity(pid))
                except OSError:
                    continue  # it just ended; its pidfd says so
                self._introduce(job, pid, cpus)
            if job.key in self.machine.jobs:
                self._owners.take_over(job)
            log.info("took over job %s with %d tasks", job.key, len(job.tasks))
        if not self.jobs:
            self.classes.close()  # of jobs that ended while no daemon was up

    # -- times ----------------------------------------------------------------------

    def _beat(self) -> None:
        self.region.beat()
        for job in self.jobs:
            job.region.beat()
            if job.region.torn:
                self._give_up(job)
        self.recorder.beat()
        if self.options.private and self._is_unused():
            self._loop.stop()
        self._loop.call_at(time.monotonic_ns() + BEAT_NS, self._beat)

    def _pulse(self) -> None:
        assert self.classes.pulse_period_ns is not None
        self.classes.pulse()
        self._loop.call_at(time.monotonic_ns() + self.classes.pulse_period_ns, self._pulse)

    def _set_alarm(self, at_ns: int) -> None:
        self._alarm_ns = at_ns
        self._loop.call_at(at_ns, self._ring_alarm)

    def _ring_alarm(self) -> None:
        # Alarms that were replaced still ring here; only the last one counts.
        if time.monotonic_ns() >= self._alarm_ns > 0:
            self._alarm_ns = 0
            self.feed(AlarmRang(**self._clocks()))

    def _note_activity(self) -> None:
        # Somebody came: the grace for those who have not come yet is over.
        self._idle_since_ns = time.monotonic_ns()

    def _is_needed(self) -> bool:
        return bool(self._control.leases or len(self.jobs) or len(self.gate))

    def _is_unused(self) -> bool:
        if self._is_needed():
            self._idle_since_ns = time.monotonic_ns()
        return time.monotonic_ns() - self._idle_since_ns > PRIVATE_LINGER_NS

    # -- control --------------------------------------------------------------------

    def _status(self, request: Mapping[str, Any]) -> Mapping[str, Any]:
        since_wall_ns = request.get("since_wall_ns")
        return node_status(
            self,
            since_wall_ns if type(since_wall_ns) is int else None,
            memory=request.get("memory") is not False,
        )

    def _why(self, request: Mapping[str, Any], uid: int) -> Mapping[str, Any]:
        return explain(self.recorder, request, uid)

    def _set(self, request: Mapping[str, Any]) -> Mapping[str, Any]:
        assignments = request.get("settings")
        if not isinstance(assignments, dict) or not assignments:
            raise CoschedError("nothing to set; give settings such as slice=0.5s")
        settings = self.machine.settings.changed(
            {str(name): str(value) for name, value in assignments.items()}
        )
        limits = limits_for(self.options.limits, os.geteuid())
        refusal = refuse_settings(limits, settings)
        if refusal is not None:
            raise CoschedError(refusal)
        self.feed(SettingsChanged(**self._clocks(), settings=settings))
        return {"settings": asdict(settings), "warnings": settings.warnings()}

    def _choose_mode(self, job: str, mode: Mode) -> None:
        self.feed(ModeChosen(**self._clocks(), job=job, mode=mode))

    def _give_turn(self, request: Mapping[str, Any]) -> Mapping[str, Any]:
        job = str(request.get("job"))
        self.feed(TurnGiven(**self._clocks(), job=job))
        state = self.machine.jobs.get(job)
        return {"given": state is not None and state.scheduled}

    def _retire(self, _request: Mapping[str, Any]) -> Mapping[str, Any]:
        """Ends private daemons that nobody needs any more."""
        retired = self.options.private and not self._is_needed()
        if retired:
            self._loop.stop()
        return {"retired": retired, "pid": os.getpid()}

    def _down(self, _request: Mapping[str, Any]) -> Mapping[str, Any]:
        self._loop.stop()
        return {"ok": True, "pid": os.getpid()}
