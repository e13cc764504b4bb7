"""The scheduler daemon of one node, as a pure state machine.

Yoo and Jette, "A Coscheduling Technique for Symmetric Multiprocessor Clusters", section
2.2.3. ``NodeScheduler.handle`` is the paper's switch over five requests:

    CMDREG  TaskRegistered     an entry and a class for a new job, 1% at first; it is
                               scheduled if nothing competes with it
    CMDOUT  TaskExited         the job's last task ends the job; the next one follows
    CMDCSW  SliceEnded         the job with the least CPU time is scheduled
    CMDSCH  MessageTrapped     the asking job is scheduled if what runs has had its
                               guaranteed minimum execution time (GMET)
    CMDDWN  ShutdownRequested  classes go, everything runs freely

No node tells another what to do: jobs come to run on all their nodes at once because a
message from a scheduled peer pulls a switch here.

Where it goes beyond the paper
- Several jobs are scheduled at once where they fit side by side (``contention``).
- A newcomer starts with the CPU time of the neediest job it competes with, lest it keep
  the CPU until it has caught up with jobs that have run for hours.
- CPU times that differ by less than a quarter of a slice are equal, and equal jobs go by
  key. So nodes whose accounts differ slightly still choose the same job.
- A pulled switch restarts the slice, so that free-running timers fall into step.
- A job that wants several CPUs takes them, when it has had the least CPU time and the slice
  of one is over, also from jobs amid their slices, but for GMET.
- Of two jobs that messages pull in, the one with the lesser key stays until its slice is
  over. Else many nodes that disagree pull each other's jobs in, at the same moments, for
  ever.
- A job that is ahead of another waiting one by ``LEAD_SLICES`` cannot pull a switch: two
  chatty jobs cannot keep a third from its turn.
- A job whose request was refused for GMET may ask again when GMET is over: its epoch is
  raised then. (The paper discards the request, and the task asks at every message.)
- ``align``: slices end at multiples of the slice in wall-clock time, and whose turn it is
  follows from the number of the slice. Nodes with the same jobs and synchronised clocks
  choose alike without a message; arrivals correct what differs. A job that came to run
  between two boundaries is not cut short by the next one.
- A job's owner may suspend it, release it, or have it run alone (``modes``).

Invariants, after every event: the scheduled jobs fit side by side; no other job that takes
part would fit beside them; each group's shares add up to 100; a job that does not take part
is not scheduled.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from cosched.core.contention import Fitting, groups, shares
from cosched.core.messages import (
    AlarmRang,
    Cause,
    Command,
    DestroyClass,
    Event,
    Job,
    MessageTrapped,
    Mode,
    ModeChosen,
    OrderTimer,
    PublishContention,
    PublishStatus,
    Refusal,
    RefuseRequest,
    RemoveTask,
    SetAlarm,
    SetShares,
    SettingsChanged,
    ShutdownRequested,
    SliceEnded,
    TaskExited,
    TaskRegistered,
    ThawClass,
    TurnGiven,
)
from cosched.core.modes import admit_task, cause_of, change_mode, is_barred
from cosched.core.process_table import Branch, JobState
from cosched.core.settings import Settings
from cosched.core.snapshot import JobSnapshot, NodeSnapshot

#: How far ahead of the neediest waiting job a job may be and still pull a switch.
LEAD_SLICES = 2


class NodeScheduler:
    """Decides which jobs of a node are scheduled. Deterministic; no clock of its own."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.counters: Counter[Branch] = Counter()
        self._jobs: dict[Job, JobState] = {}
        self._groups: list[list[JobState]] = []  # of the jobs, sorted by key
        self._raised: list[JobState] = []
        self._fitting = Fitting()
        self._shares: tuple[tuple[Job, int], ...] = ()
        self._orders: OrderTimer | None = None
        self._alarm_ns: int | None = None

    @property
    def jobs(self) -> Mapping[Job, JobState]:
        """The jobs on this node, for reading."""
        return self._jobs

    @property
    def shares(self) -> Mapping[Job, int]:
        """Each job's percentage of its CPUs."""
        return dict(self._shares)

    def snapshot(self) -> NodeSnapshot:
        """Everything this machine knows, for ``restored``."""
        return NodeSnapshot(
            self.settings,
            tuple(JobSnapshot.of(job) for job in self._jobs.values()),
            self._shares,
            self._orders,
            self._alarm_ns,
            dict(self.counters),
        )

    @classmethod
    def restored(cls, snapshot: NodeSnapshot) -> NodeScheduler:
        """A machine that goes on where the one of the snapshot was."""
        machine = cls(snapshot.settings)
        machine.counters.update(snapshot.counters)
        machine._jobs = {job.key: job.restored() for job in snapshot.jobs}
        machine._shares = snapshot.shares
        machine._orders = snapshot.orders
        machine._alarm_ns = snapshot.alarm_ns
        machine._regroup()
        return machine

    def handle(self, event: Event) -> tuple[Command, ...]:
        """Takes one event; returns what is to be done, in order."""
        match event:
            case TaskRegistered():
                commands = self._register(event)
            case TaskExited():
                commands = self._exit(event)
            case SliceEnded():
                commands = self._end_slice(event)
            case MessageTrapped():
                commands = self._trap(event)
            case TurnGiven():
                commands = self._give_turn(event)
            case ModeChosen():
                commands = self._choose_mode(event)
            case AlarmRang():
                commands = self._rearm(event)
            case SettingsChanged():
                commands = self._change_settings(event)
            case ShutdownRequested():
                return self._shut_down()
            case _:
                raise TypeError(f"not an event of a node: {event!r}")
        return (
            *commands,
            *self._tell_contention(),
            *self._order_timer(event),
            *self._set_alarm(),
        )

    # -- CMDREG ---------------------------------------------------------------------

    def _register(self, event: TaskRegistered) -> list[Command]:
        job = self._jobs.get(event.job)
        if job is not None and event.task in job.tasks:
            self.counters[Branch.REG_AGAIN] += 1
            return []
        if job is None:
            self.counters[Branch.REG_NEW_JOB] += 1
            job = self._jobs[event.job] = JobState(event.job)
            newcomer = True
        else:
            self.counters[Branch.REG_NEW_TASK] += 1
            newcomer = False
        job.tasks[event.task] = event.cpus
        self._fitting.forget()
        cpus_grew = not event.cpus <= job.cpus
        if cpus_grew:
            job.cpus |= event.cpus
            self._regroup()
        commands = admit_task(job, event.task, cpus_grew=cpus_grew)
        if newcomer:
            self._start_account(job, event.now_ns)
            # Its tasks look at a status from the first moment on.
            commands.append(PublishStatus(job.key, job.epoch, False, Cause.FIRST))
        return commands + self._settle(event, Cause.FIRST if newcomer else Cause.FREED)

    def _start_account(self, newcomer: JobState, now_ns: int) -> None:
        others = [job for job in self._group_of(newcomer) if job is not newcomer]
        if others:
            newcomer.credit_ns = min(job.used_ns(now_ns) for job in others)

    # -- CMDOUT ---------------------------------------------------------------------

    def _exit(self, event: TaskExited) -> list[Command]:
        job = self._jobs.get(event.job)
        if job is None or event.task not in job.tasks:
            self.counters[Branch.OUT_UNKNOWN] += 1
            return []
        del job.tasks[event.task]
        self._fitting.forget()
        has_class = job.mode is not Mode.RELEASED
        commands: list[Command] = []
        if has_class:
            commands.append(RemoveTask(job.key, event.task))
        if job.tasks:
            self.counters[Branch.OUT_TASK] += 1
        else:
            self.counters[Branch.OUT_JOB] += 1
            del self._jobs[job.key]
            self._regroup()
            if has_class:
                commands.append(DestroyClass(job.key))
        return commands + self._settle(event, Cause.FREED)

    # -- CMDCSW ---------------------------------------------------------------------

    def _end_slice(self, event: SliceEnded) -> list[Command]:
        due = [
            job
            for job in self._contended()
            if job.ran_ns(event.now_ns) >= self._due_after_ns()
        ]
        if not due:
            self.counters[Branch.CSW_NOTHING_DUE] += 1
            return []
        kept = [
            job
            for job in self._scheduled()
            if job not in due and not is_barred(job, self._raised)
        ]
        if not self.settings.align:
            for job in self._in_the_way(due, kept, event):
                kept.remove(job)
        chosen = self._fitting.fill(kept, self._order(event))
        if {job.key for job in chosen} == {job.key for job in self._scheduled()}:
            self.counters[Branch.CSW_KEPT] += 1
            for job in due:  # the slice starts anew
                self._account(job, event.now_ns)
            return []
        self.counters[Branch.CSW_SWITCHED] += 1
        for job in due:
            if job in chosen:
                self._account(job, event.now_ns)
        return self._switch(chosen, event, Cause.SLICE)

    def _in_the_way(
        self, due: Sequence[JobState], kept: Sequence[JobState], event: SliceEnded
    ) -> list[JobState]:
        """Of ``kept``, those amid a slice that a job with the right to the next one wants
        CPUs of: they give way once they have had GMET, for a job that wants many CPUs
        would never find all of them free at once. Aligned slices end at once anyhow."""
        order = self._order(event)
        found: list[JobState] = []
        for group in self._groups:
            first = next(job for job in order if job in group)
            held_up = not first.scheduled and not self._fitting.fits([*kept, first])
            if held_up and any(job in due for job in group):
                found += [
                    job
                    for job in group
                    if job in kept and job.ran_ns(event.now_ns) >= self.settings.gmet_ns
                ]
        return found

    def _due_after_ns(self) -> int:
        """How long a job has run when its slice is over.

        An aligned slice ends at a boundary, which comes sooner or later by as much as the
        clocks were set and the switch was late: hence the tolerance.
        """
        slice_ns = self.settings.slice_ns
        return slice_ns - slice_ns // 8 if self.settings.align else slice_ns

    # -- CMDSCH ---------------------------------------------------------------------

    def _trap(self, event: MessageTrapped) -> list[Command]:
        job = self._jobs.get(event.job)
        if job is None or event.task not in job.tasks:
            self.counters[Branch.SCH_REFUSED_UNKNOWN] += 1
            return [RefuseRequest(event.job, event.task, Refusal.UNKNOWN)]
        if job.mode is Mode.SUSPENDED:
            return self._refuse(job, event, Refusal.SUSPENDED)
        if job.scheduled or job.mode is Mode.RELEASED:
            return self._refuse(job, event, Refusal.SCHEDULED)
        if (job.epoch ^ event.epoch) & 0xFFFFFFFF:
            return self._refuse(job, event, Refusal.STALE)
        group = self._group_of(job)
        if is_barred(job, self._raised):
            return self._refuse(job, event, Refusal.BARRED)
        displaced = [other for other in group if other.scheduled]
        newest = min(displaced, key=lambda j: j.ran_ns(event.now_ns), default=job)
        left_ns = self.settings.gmet_ns - newest.ran_ns(event.now_ns)
        if displaced and left_ns > 0:
            job.awaits_gmet = True
            return self._refuse(job, event, Refusal.GMET, left_ns, newest)
        first = next((j for j in displaced if j.pulled and j.key < job.key), None)
        if first is not None:
            return self._refuse(job, event, Refusal.PRECEDED, 0, first)
        neediest = min(
            (j for j in group if not j.scheduled and not is_barred(j, self._raised)),
            key=lambda j: (j.used_ns(event.now_ns), j.key),
        )
        ahead_ns = job.used_ns(event.now_ns) - neediest.used_ns(event.now_ns)
        if ahead_ns > LEAD_SLICES * self.settings.slice_ns:
            return self._refuse(job, event, Refusal.AHEAD, ahead_ns, neediest)
        self.counters[Branch.SCH_GRANTED] += 1
        job.granted += 1
        kept = [other for other in self._scheduled() if other not in displaced]
        chosen = self._fitting.fill([*kept, job], self._order(event))
        return self._switch(chosen, event, Cause.PULLED)

    def _refuse(
        self,
        job: JobState,
        event: MessageTrapped,
        reason: Refusal,
        by_ns: int = 0,
        other: JobState | None = None,
    ) -> list[Command]:
        self.counters[Branch(f"sch_refused_{reason.value}")] += 1
        job.refused[reason] += 1
        whom = other.key if other else None
        return [RefuseRequest(job.key, event.task, reason, by_ns, whom)]

    # -- a turn given from outside ----------------------------------------------------

    def _give_turn(self, event: TurnGiven) -> list[Command]:
        job = self._jobs.get(event.job)
        if job is None:
            self.counters[Branch.TURN_UNKNOWN] += 1
            return []
        if job.scheduled:
            self.counters[Branch.TURN_HELD] += 1
            self._account(job, event.now_ns)  # the slice starts anew
            return []
        if not job.mode.takes_part or is_barred(job, self._raised):
            self.counters[Branch.TURN_BARRED] += 1
            return []
        self.counters[Branch.TURN_GIVEN] += 1
        group = self._group_of(job)
        kept = [other for other in self._scheduled() if other not in group]
        chosen = self._fitting.fill([*kept, job], self._order(event))
        return self._switch(chosen, event, Cause.GIVEN)

    # -- what the owner wants ---------------------------------------------------------

    def _choose_mode(self, event: ModeChosen) -> list[Command]:
        job = self._jobs.get(event.job)
        if job is None:
            self.counters[Branch.MODE_UNKNOWN] += 1
            return []
        if job.mode is event.mode:
            self.counters[Branch.MODE_KEPT] += 1
            return []
        self.counters[Branch.MODE_CHANGED] += 1
        before = job.mode
        if not event.mode.takes_part:
            self._account(job, event.now_ns)
            job.scheduled = job.awaits_gmet = False
        commands = change_mode(job, event.mode)
        self._fitting.forget()
        self._regroup()
        if event.mode is Mode.COSCHEDULED or event.mode.takes_part > before.takes_part:
            self._restart_account(job, event.now_ns, before)
        cause = cause_of(event.mode) if event.mode.takes_part else Cause.FREED
        return commands + self._settle(event, cause)

    def _restart_account(self, job: JobState, now_ns: int, before: Mode) -> None:
        """A job that comes back has saved nothing up meanwhile; nor does it pay for the
        time in which it was raised."""
        self._account(job, now_ns)
        own_ns = job.credit_ns
        self._start_account(job, now_ns)
        if before is not Mode.RAISED:
            job.credit_ns = max(job.credit_ns, own_ns)

    # -- the alarm: GMET is over for those who were refused for it -------------------

    def _rearm(self, event: AlarmRang) -> list[Command]:
        self._alarm_ns = None
        commands: list[Command] = []
        for job in sorted(self._jobs.values(), key=lambda j: j.key):
            if job.awaits_gmet and event.now_ns >= self._gmet_end_ns(job):
                job.awaits_gmet = False
                job.epoch += 1
                commands.append(PublishStatus(job.key, job.epoch, False, Cause.REARMED))
        rearmed = Branch.ALARM_REARMED if commands else Branch.ALARM_EARLY
        self.counters[rearmed] += 1
        return commands

    def _gmet_end_ns(self, job: JobState) -> int:
        ends = [
            other.since_ns + self.settings.gmet_ns
            for other in self._group_of(job)
            if other.scheduled
        ]
        return max(ends, default=0)

    def _set_alarm(self) -> list[Command]:
        ends = [self._gmet_end_ns(job) for job in self._jobs.values() if job.awaits_gmet]
        next_ns = min(ends, default=None)
        if next_ns is None or next_ns == self._alarm_ns:
            return []
        self._alarm_ns = next_ns
        return [SetAlarm(next_ns)]

    # -- settings, CMDDWN -----------------------------------------------------------

    def _change_settings(self, event: SettingsChanged) -> list[Command]:
        self.counters[Branch.SETTINGS_CHANGED] += 1
        self.settings = event.settings
        return []

    def _shut_down(self) -> tuple[Command, ...]:
        self.counters[Branch.DOWN] += 1
        commands: list[Command] = []
        for job in sorted(self._jobs.values(), key=lambda j: j.key):
            if job.mode is Mode.SUSPENDED:
                commands.append(ThawClass(job.key))
            # Nobody will wake a sleeping waiter any more: let them all run.
            commands.append(PublishStatus(job.key, job.epoch + 1, True, Cause.SHUTDOWN))
            if job.mode is not Mode.RELEASED:
                commands.append(DestroyClass(job.key))
        self._jobs.clear()
        self._groups.clear()
        self._raised.clear()
        self._shares = ()
        return tuple(commands)

    # -- who runs -------------------------------------------------------------------

    def _scheduled(self) -> list[JobState]:
        return [job for job in self._jobs.values() if job.scheduled]

    def _regroup(self) -> None:
        """Who competes with whom changes only when jobs or CPUs do."""
        self._groups = groups(
            sorted(
                (job for job in self._jobs.values() if job.mode.takes_part),
                key=lambda j: j.key,
            )
        )
        for group in self._groups:
            group.sort(key=lambda j: j.key)
        self._raised = [job for job in self._jobs.values() if job.alone]

    def _group_of(self, job: JobState) -> list[JobState]:
        return next(group for group in self._groups if job in group)

    def _waited_for(self) -> list[list[JobState]]:
        """Groups in which somebody waits."""
        return [g for g in self._groups if not all(job.scheduled for job in g)]

    def _contended(self) -> list[JobState]:
        """Scheduled jobs in whose group somebody waits."""
        return [job for group in self._waited_for() for job in group if job.scheduled]

    def _order(self, event: Event) -> list[JobState]:
        """All jobs that take part: the raised ones, then those whose turn it is."""
        ordered: list[JobState] = []
        if self.settings.align:
            turn = event.wall_ns // self.settings.slice_ns
            for group in self._groups:
                first = turn % len(group)
                ordered += group[first:] + group[:first]
        else:
            grain_ns = max(1, self.settings.slice_ns // 4)
            ordered = sorted(
                (job for group in self._groups for job in group),
                key=lambda job: (round(job.used_ns(event.now_ns) / grain_ns), job.key),
            )
        if self._raised:
            ordered.sort(key=lambda job: not job.alone)
        return ordered

    def _settle(self, event: Event, cause: Cause) -> list[Command]:
        """Restores the invariants after jobs or tasks came or went."""
        kept: list[JobState] = []
        # Those that have waited longest for the end of their time keep it; what no
        # longer fits beside them steps back.
        for job in sorted(self._scheduled(), key=lambda j: (j.since_ns, j.key)):
            barred = is_barred(job, self._raised)
            if not barred and self._fitting.fits([*kept, job]):
                kept.append(job)
        return self._switch(self._fitting.fill(kept, self._order(event)), event, cause)

    def _account(self, job: JobState, now_ns: int) -> None:
        """Books the time since ``since_ns`` and starts counting anew."""
        ran_ns = job.ran_ns(now_ns)
        job.received_ns += ran_ns
        job.credit_ns += ran_ns
        job.since_ns = now_ns
        job.pulled = False

    def _switch(
        self, chosen: Sequence[JobState], event: Event, cause: Cause
    ) -> list[Command]:
        """Schedules exactly the chosen jobs: who leaves hears of it first, then the
        shares move, then who comes is woken."""
        leaving = [job for job in self._scheduled() if job not in chosen]
        coming = [job for job in chosen if not job.scheduled]
        out = Cause.CROWDED if cause in (Cause.FIRST, Cause.FREED) else Cause.DISPLACED
        commands: list[Command] = []
        for job in sorted(leaving, key=lambda j: j.key):
            self._account(job, event.now_ns)
            job.scheduled = False
            job.epoch += 1
            commands.append(
                PublishStatus(
                    job.key,
                    job.epoch,
                    False,
                    Cause.SLICE if cause is Cause.SLICE else out,
                )
            )
        for job in coming:
            job.scheduled = True
            job.awaits_gmet = False
            job.pulled = cause is Cause.PULLED
            job.since_ns = event.now_ns
            job.epoch += 1
            job.switches += 1
        percents = shares(self._groups, frozenset(job.key for job in self._scheduled()))
        if percents != self._shares:
            self._shares = percents
            if percents:
                commands.append(SetShares(percents))
        commands.extend(
            PublishStatus(job.key, job.epoch, True, cause)
            for job in sorted(coming, key=lambda j: j.key)
        )
        return commands

    def _tell_contention(self) -> list[Command]:
        commands: list[Command] = []
        for group in self._groups:
            contended = not all(job.scheduled for job in group)
            for job in group:
                if job.contended != contended:
                    job.contended = contended
                    commands.append(PublishContention(job.key, contended))
        return commands

    def _order_timer(self, event: Event) -> list[Command]:
        contended = self._contended()
        settings = self.settings
        deadline_ns = 0
        if contended and not settings.align:
            deadline_ns = max(
                event.now_ns,
                min(job.since_ns for job in contended) + settings.slice_ns,
            )
        orders = OrderTimer(not contended, settings.align, settings.slice_ns, deadline_ns)
        if orders == self._orders:
            return []
        self._orders = orders
        return [orders]
