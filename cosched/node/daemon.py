"""Runs the scheduler daemon: feeds the events of a live node to ``core.node``.

One loop waits for everything: registrations, control requests, the bells of the jobs and
of the timer daemon, a pidfd for each task, signals. Each becomes an event. The daemon
carries out the returned commands at once.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from cosched.core.complaints import Complaints
from cosched.core.config.kinds import OFF
from cosched.core.errors import CoschedError
from cosched.core.node.machine import NodeScheduler
from cosched.core.node.messages import (
    AlarmRang,
    ShutdownRequested,
    SliceEnded,
)
from cosched.core.node.settings import Settings
from cosched.core.units import NS_PER_S
from cosched.linux.classes import ClassScheduler
from cosched.linux.native.kick import Kicker
from cosched.node.admission import MemoryAdmission
from cosched.node.answers import JobAnswers
from cosched.node.bell import make_bell, open_bell, silence
from cosched.node.children.metrics_process import MetricsProcess
from cosched.node.children.timer_process import TimerProcess
from cosched.node.companions import Companions
from cosched.node.daemon_options import DaemonOptions
from cosched.node.driver import Driver, clocks
from cosched.node.effects import Effects
from cosched.node.heartbeat import Heartbeat
from cosched.node.lifetime.handover import end_orphans
from cosched.node.lifetime.idleness import Idleness
from cosched.node.lifetime.presence import Presence
from cosched.node.lifetime.remains import remove_remains
from cosched.node.live_settings import LiveSettings
from cosched.node.memory_meter import MemoryMeter
from cosched.node.owner_requests import Owners
from cosched.node.records.history_writer import HistoryWriter
from cosched.node.records.recorder import Recorder
from cosched.node.sockets.control import ControlSocket
from cosched.node.sockets.registration import RegistrationSocket, TaskHello, Welcome
from cosched.node.status import NodeView, node_status
from cosched.node.tasks.job_table import JobTable
from cosched.node.tasks.killed_tasks import KilledTasks
from cosched.node.tasks.life import TaskLife
from cosched.node.tasks.live_job import LiveJob
from cosched.node.tasks.registrar import Registrar, Terms
from cosched.node.tasks.spending_reader import SpendingReader
from cosched.node.tasks.tending import Launchers
from cosched.node.tasks.use_reader import CpuTimes, UseReader
from cosched.rundir.lock import DaemonLock
from cosched.rundir.paths import NodePaths
from cosched.service.listener import Peer, UnixListener
from cosched.service.loop import Loop
from cosched.service.pacing import Pacer
from cosched.shm._native import lib
from cosched.shm.region import NodeRegion

log = logging.getLogger(__name__)

#: The time between two looks for records that are too old.
FORGET_NS = 3600 * NS_PER_S


class SchedulerDaemon:
    """One node's scheduler daemon, from its sockets to its end."""

    def __init__(
        self,
        paths: NodePaths,
        settings: Settings,
        classes: ClassScheduler,
        options: DaemonOptions,
        lock: DaemonLock,
    ) -> None:
        self.paths = paths
        self._lock = lock
        self.options = options
        self.classes = classes
        self.machine = NodeScheduler(settings)
        self.jobs = JobTable(paths)
        cpu_times = CpuTimes(classes.cpu_ns)
        self.recorder = Recorder(paths.node, self.machine, self.jobs, cpu_times)
        self.history = HistoryWriter(paths.node, self.recorder, self.jobs, classes.cpu_ns)
        self.started_ns = time.monotonic_ns()
        self._loop = Loop()
        self._complaints = Complaints(log.warning, time.monotonic_ns)
        self._pacer = Pacer(self._loop, exempt=(0, os.geteuid()))
        self._alarm_ns = 0
        self._pulsing = False
        self._keeps_jobs = False  # at its end, for the next daemon
        self._idleness = Idleness(self._is_needed)
        self._heartbeat = Heartbeat(self._loop, self._beat, self._inspect, self._is_quiet)
        self._metrics: list[MetricsProcess] = []  # one or none
        if options.metrics != OFF:
            self._metrics.append(MetricsProcess(self._loop, paths, options.metrics))
        self.region = _make_region(paths.node_region)
        self._bell = self._open_bell()
        self.timer = self._make_timer()
        self._kicker = Kicker(classes.mode)
        self.driver = Driver(self.machine, self._make_effects(), self.recorder)
        self._uses = UseReader(self.driver, self.jobs, self.history, cpu_times)
        self.settings = LiveSettings(self.driver, options.limits, settings)
        self._companions = Companions(
            self.driver,
            self.jobs,
            self.history,
            options.watch,
            classes.cpu_ns,
            self._loop.call_at,
        )
        self._spending = SpendingReader(self.machine, self.jobs, self.history, classes)
        self._answers = JobAnswers(self.driver, self.jobs, self.history)
        self._members = TaskLife(
            self.driver,
            self.jobs,
            self._loop,
            self._pacer,
            self.history,
            self._idleness.note_activity,
        )
        self._killed = KilledTasks(self.machine, self.jobs, classes)
        self._launchers = Launchers(self.machine, self.jobs, self._members, classes.cpu_ns)
        self.admission = self._make_admission()
        allow = options.private if options.allow_raise is None else options.allow_raise
        self._owners = Owners(self.driver, self.jobs, raising=allow)

    # -- parts ----------------------------------------------------------------------

    def _make_timer(self) -> TimerProcess:
        arguments = (
            *("--run-dir", str(self.paths.run_dir), "--node", self.paths.node),
            *("--class-scheduler", self.classes.name, "--mode", self.classes.mode),
        )
        return TimerProcess(self._loop, arguments)

    def _make_effects(self) -> Effects:
        return Effects(
            self.classes,
            self.jobs,
            self.region,
            kick=self._kicker.kick,
            ring_timer=self.timer.ring,
            set_alarm=self._set_alarm,
        )

    def _make_admission(self) -> MemoryAdmission:
        terms = Terms(self.options.private, self.options.limits)
        self._registrar = Registrar(self.machine, self.jobs, self._members, terms)
        meter = MemoryMeter(self.options.memory)
        return MemoryAdmission(
            self.paths.node, self.jobs, self._loop, self._register, meter
        )

    # -- life -----------------------------------------------------------------------

    def run(self, ready: Callable[[], None]) -> None:
        """Takes over the jobs of a dead daemon, opens the sockets, calls ``ready()``.

        Returns after CMDDWN or a signal. After SIGUSR1 the next daemon has the jobs."""
        ending = (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1)
        self._loop.stop_on(ending, self._note_signal)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        self._loop.watch(self._bell, self._read_timer)
        if self.options.history is not None:
            self.history.open(self.options.history, self.options.history_age_ns)
            self.machine.remember(self.history.ended())
            self._forget_later()
        # Only now, because the trace begins with the whole state of the machine.
        self.recorder.open(self.paths.directory, self.options.trace_bytes)
        # Requests that come from here on wait. So a client that changes a region, and then
        # finds no socket, knows that this daemon will read the change.
        listeners = self._listen()
        if not self.options.private:
            self.timer.report_ready_to(ready)
        # Before the takeover: it becomes the guardian if this process dies meanwhile.
        self.timer.start()
        self._members.adopt(self._take_over)
        if not self.jobs:
            self.classes.close()  # removes classes of jobs that ended without a daemon
        self._presence = Presence(self._lock, listeners)
        self._heartbeat.start()
        for server in self._metrics:
            server.start()
        if self.options.private:  # a user waits, and the first job has no slices
            ready()
        self._loop.run()
        registrations, requests = listeners
        registrations.close()
        self.admission.close()
        requests.close()
        if self._presence.replaced:
            self._leave()
        elif self._keeps_jobs and len(self.jobs):
            self._end_for_the_next()
        else:
            self._shut_down()

    def _listen(self) -> tuple[UnixListener, UnixListener]:
        """Opens the sockets for registrations and for control requests."""
        mode = 0o600 if self.options.private else 0o666
        registration = RegistrationSocket(
            self.paths.register_socket,
            self._loop,
            self.admission.admit,
            mode=mode,
            complaints=self._complaints,
            pacer=self._pacer,
        )
        self._control = ControlSocket(
            self.paths.control_socket,
            self._loop,
            mode=mode,
            readers={"status": self._status, "shared": self._companions.shared},
            writers={
                "set": self.settings.set,
                "relearn": self._answers.relearn,
                "turn": self._answers.give_turn,
                "down": self._down,
                "retire": self._retire,
            },
            owners={
                "why": self._answers.why,
                "history": self.history.answer,
                "length": self._answers.length,
                **self._owners.handlers(),
            },
            held={"borrow": self.settings.borrow, "forget": self._answers.forget},
            on_lease_end=self._idleness.note_activity,
            complaints=self._complaints,
            pacer=self._pacer,
        )
        return registration.listener, self._control.listener

    def _take_over(self, job: LiveJob) -> None:
        self.admission.take_over(job)
        self._owners.take_over(job)

    def _leave(self) -> None:
        """Ends beside another daemon, which has this one's lock, jobs and files."""
        for server in self._metrics:
            server.stop()
        self.timer.stop()
        self._kicker.close()
        self._loop.close()

    def _note_signal(self, number: int) -> None:
        if number == signal.SIGUSR1:
            self._keeps_jobs = True

    def _end_for_the_next(self) -> None:
        """Ends as if killed, but with all records written: the timer daemon gives the jobs
        normal shares when this process has ended, and the next daemon takes them over."""
        log.info("%d jobs are left to the next daemon", len(self.jobs))
        steps: tuple[Callable[[], object], ...] = (
            self.recorder.close,
            self.history.close,
            *(server.stop for server in self._metrics),
            self._kicker.close,
        )
        with contextlib.ExitStack() as left:  # a failed step must not skip the others
            for step in reversed(steps):
                left.callback(step)

    def _shut_down(self) -> None:
        for job in self.jobs:
            self.history.daemon_leaves(job)
        # If this fails, the timer daemon still restores the node.
        self.driver.feed(ShutdownRequested(**clocks()))
        steps: tuple[Callable[[], object], ...] = (
            *(partial(self._members.end, job) for job in self.jobs),
            self.recorder.close,
            self.history.close,
            self.timer.stop,
            *(server.stop for server in self._metrics),
            partial(end_orphans, self.paths),
            self._kicker.close,
            self.classes.close,
            self.region.close,
            partial(remove_remains, self.paths),
            self._loop.close,
        )
        # No other process does these steps, so a failed step must not skip the others.
        with contextlib.ExitStack() as left:
            for step in reversed(steps):
                left.callback(step)

    def _open_bell(self) -> int:
        path = self.paths.bell("@timer")  # no job key starts with @
        make_bell(path, os.geteuid(), os.getegid())
        return open_bell(path)

    # -- events and times -----------------------------------------------------------

    def _read_timer(self) -> None:
        silence(self._bell)
        for request in self.region.take_requests():
            if request.code == lib.COSCHED_CMDCSW:
                self._look("the use of CPUs", self._uses.read)
                self.driver.feed(SliceEnded(**clocks()))

    def _beat(self) -> None:
        self.region.beat()
        for job in self.jobs:
            job.region.beat()
        self._launchers.tend()
        self._companions.tend()
        if not self._pulsing and self.classes.pulse_period_ns is not None:
            self._pulse()
        if self.options.private and self._idleness.is_over():
            self._loop.stop()

    def _is_quiet(self) -> bool:
        return not (self.options.private or len(self.jobs))

    def _register(self, peer: Peer, hello: TaskHello, pidfd: int) -> Welcome:
        """Registers a process. A job must not wait for the heartbeat of a quiet node."""
        welcome = self._registrar.register(peer, hello, pidfd)
        self._heartbeat.hurry()
        return welcome

    def _inspect(self) -> None:
        """Looks at what users and other programs did with regions, names and classes, and
        brings the accounts up to date."""
        for job in self.jobs:
            if job.region.torn:
                self._members.give_up(job)
        if not self._presence.keep():
            self._loop.stop()
        self._look("killed tasks", self._killed.release)
        self._look("the use of CPUs", self._uses.read)
        self._look("the spent time", self._spending.read)
        self.recorder.flush()
        self._look("the classes", self.classes.inspect)

    def _look(self, at: str, look: Callable[[], None]) -> None:
        """Calls ``look``, which comes again and again. An error is a line in the log: there
        may be no free descriptor for now."""
        try:
            look()
        except (CoschedError, OSError) as error:
            self._complaints.about(None, f"cannot look at {at} for now", str(error))

    def _forget_later(self) -> None:
        if self.options.history_age_ns is not None:
            self._loop.call_at(time.monotonic_ns() + FORGET_NS, self._forget)

    def _forget(self) -> None:
        self.history.forget_old()
        self._forget_later()

    def _pulse(self) -> None:
        self.classes.pulse()
        period_ns = self.classes.pulse_period_ns
        self._pulsing = period_ns is not None
        if period_ns is not None:
            self._loop.call_at(time.monotonic_ns() + period_ns, self._pulse)

    def _set_alarm(self, at_ns: int) -> None:
        self._alarm_ns = at_ns
        self._loop.call_at(at_ns, self._ring_alarm)

    def _ring_alarm(self) -> None:
        # Replaced alarms still ring here; only the last one counts.
        if time.monotonic_ns() >= self._alarm_ns > 0:
            self._alarm_ns = 0
            self.driver.feed(AlarmRang(**clocks()))

    def _is_needed(self) -> bool:
        return bool(self._control.leases or len(self.jobs) or len(self.admission))

    # -- control --------------------------------------------------------------------

    def _status(self, request: Mapping[str, Any]) -> Mapping[str, Any]:
        since_wall_ns = request.get("since_wall_ns")
        view = NodeView(
            node=self.paths.node,
            started_ns=self.started_ns,
            private=self.options.private,
            priority=self.options.priority,
            chosen=self.options.chosen,
            classes=self.classes,
            machine=self.machine,
            jobs=self.jobs,
            region=self.region,
            timer=self.timer,
            admission=self.admission,
            recorder=self.recorder,
            history=self.history,
            companions=self._companions,
            lent=self.settings.lent,
        )
        return node_status(
            view,
            since_wall_ns if type(since_wall_ns) is int else None,
            memory=request.get("memory") is not False,
        )

    def _retire(self, _request: Mapping[str, Any]) -> Mapping[str, Any]:
        """Ends private daemons without jobs."""
        retired = self.options.private and not self._is_needed()
        if retired:
            self._loop.stop()
        return {"retired": retired, "pid": os.getpid()}

    def _down(self, request: Mapping[str, Any]) -> Mapping[str, Any]:
        self._keeps_jobs = request.get("keep_jobs") is True
        self._loop.stop()
        return {"ok": True, "pid": os.getpid()}


def _make_region(name: str) -> Any:
    """Returns the node's region. Raises CoschedError if /dev/shm takes none."""
    try:
        return NodeRegion.create(name)
    except OSError as error:
        reason = error.strerror or str(error)
        raise CoschedError(
            f"/dev/shm: {reason}; mount it for writing, with room for some MiB"
        ) from None
