"""The scheduler daemon of one node, as a pure state machine.

Yoo and Jette, "A Coscheduling Technique for Symmetric Multiprocessor Clusters", section
2.2.3. ``NodeScheduler.handle`` is the paper's switch over five requests:

    CMDREG  TaskRegistered     an entry and a class for a new job, 1% at first; it is
                               scheduled if nothing competes with it. Once when the task
                               is launched, and once more when it comes to MPI
    CMDOUT  TaskExited         the job's last task ends the job; the next one follows
    CMDCSW  SliceEnded         the job with the least CPU time is scheduled
    CMDSCH  MessageTrapped     the asking job is scheduled if what runs has had its
                               guaranteed minimum execution time (GMET)
    CMDDWN  ShutdownRequested  classes go, everything runs freely

No node tells another what to do: jobs come to run on all their nodes at once because a
message from a scheduled peer pulls a switch here.

Where it goes beyond the paper
- Several jobs are scheduled at once where they fit side by side (``contention``).
- Nodes that disagree come to agree by the order of submission, which all of them know
  (``process_table.date``): equal jobs go in that order; of jobs that start together the
  first one runs, whichever registers first; who came in amid a slice keeps its CPUs longer
  from those submitted later (``pulls``).
- CPU times that differ by less than a quarter of a slice (or a turn that grows) are equal.
  So nodes whose accounts differ slightly still choose the same job.
- A newcomer starts with the CPU time of the job that has had most, but not more than a
  (least) slice behind the neediest: lest it keep the CPU until it has caught up with jobs
  that have run for hours, or short jobs that come one after the other keep a long one
  waiting.
- A pulled switch restarts the slice, so that free-running timers fall into step.
- A job that wants several CPUs takes them, when it has had the least CPU time and the slice
  of one is over, also from jobs amid their slices, but for GMET.
- A job that is ahead of another waiting one by ``pulls.LEAD_SLICES`` cannot pull a switch:
  two chatty jobs cannot keep a third from its turn.
- A job whose request was refused for lack of time may ask again when that is over, and one
  that was refused for another job's sake at the next switch: its epoch is raised then. (The
  paper discards the request; the task asks at each message.)
- ``align``: slices end at multiples of the slice in wall-clock time, and whose turn it is
  follows from the number of the slice, unless turns grow. Nodes with the same jobs and
  synchronised clocks choose alike without a message; arrivals correct what differs. A job
  that came to run between two boundaries is not cut short by the next one; amid a slice,
  when a job has ended, the job follows that has had the least CPU time in whole slices.
- ``slice=auto``: turns grow with the age of the jobs (``adapting``).
- A job's owner may suspend it, release it, or have it run alone (``modes``).

Invariants, after every event: the scheduled jobs fit side by side; no other job that takes
part would fit beside them; what an unscheduled job of a group gets is taken from each of
those that are scheduled; a job that does not take part is not scheduled.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from cosched.core.node.branches import Branch
from cosched.core.node.fairness import bound_accounts, restart_account, start_account
from cosched.core.node.messages import (
    AlarmRang,
    Cause,
    Command,
    CreateClass,
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
    SettingsChanged,
    ShutdownRequested,
    SliceEnded,
    Task,
    TaskExited,
    TaskRegistered,
    ThawClass,
    TurnGiven,
)
from cosched.core.node.modes import admit_task, cause_of, change_mode, is_barred
from cosched.core.node.pulls import Objection, guaranteed_until_ns, objection
from cosched.core.node.settings import Settings
from cosched.core.node.settling import give_way, settle, settle_after_turn
from cosched.core.node.slices.turns import (
    due,
    guaranteed_ns,
    in_order,
    turn_end_ns,
    turn_ns,
)
from cosched.core.node.snapshot import JobSnapshot, NodeSnapshot
from cosched.core.node.switching import switch, tell_contention
from cosched.core.node.table import JobState, ProcessTable, date


class NodeScheduler:
    """Decides which jobs of a node are scheduled. Deterministic; no clock of its own."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.counters: Counter[Branch] = Counter()
        self._table = ProcessTable()
        self._orders: OrderTimer | None = None
        self._alarm_ns: int | None = None

    @property
    def jobs(self) -> Mapping[Job, JobState]:
        """The jobs on this node, for reading."""
        return self._table.jobs

    @property
    def shares(self) -> Mapping[Job, int]:
        """Each job's percentage of its CPUs."""
        return dict(self._table.shares)

    def slice_ns(self, job: Job) -> int:
        """How long the job keeps its CPUs at a time while others wait, as things are."""
        state = self._table.jobs[job]
        if not state.mode.takes_part:
            return self.settings.slice_ns
        return turn_ns(self._table.group_of(state), self._table, self.settings)

    def remember(self, ended_ns: Iterable[int]) -> None:
        """For how long jobs were scheduled that ended before this machine began, the last
        one last. To be told before the first event."""
        self._table.ended_ns.extend(ended_ns)

    def snapshot(self) -> NodeSnapshot:
        """Everything this machine knows, for ``restored``."""
        return NodeSnapshot(
            self.settings,
            tuple(JobSnapshot.of(job) for job in self._table.jobs.values()),
            self._table.shares,
            self._orders,
            self._alarm_ns,
            dict(self.counters),
            tuple(self._table.ended_ns),
        )

    @classmethod
    def restored(cls, snapshot: NodeSnapshot) -> NodeScheduler:
        """A machine that goes on where the one of the snapshot was."""
        machine = cls(snapshot.settings)
        machine.counters.update(snapshot.counters)
        machine._table.jobs = {job.key: job.restored() for job in snapshot.jobs}
        machine._table.shares = snapshot.shares
        machine._orders = snapshot.orders
        machine._alarm_ns = snapshot.alarm_ns
        machine.remember(snapshot.ended_ns)
        machine._table.regroup()
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
            *tell_contention(self._table),
            *self._order_timer(event),
            *self._set_alarm(),
        )

    # -- CMDREG ---------------------------------------------------------------------

    def _register(self, event: TaskRegistered) -> list[Command]:
        job = self._table.jobs.get(event.job)
        if job is not None:
            for before in (event.task, event.replaces):
                if before in job.tasks:
                    return self._register_again(job, before, event)
        if job is None:
            self.counters[Branch.REG_NEW_JOB] += 1
            submitted_ns = event.submitted_ns
            if not event.adopted:
                submitted_ns = date(submitted_ns, event.wall_ns)
            job = JobState(event.job, submitted_ns, whole=not event.adopted)
            self._table.jobs[event.job] = job
            newcomer = True
        else:
            self.counters[Branch.REG_NEW_TASK] += 1
            newcomer = False
        job.tasks[event.task] = event.cpus
        self._table.fitting.forget()
        cpus_grew = not event.cpus <= job.cpus
        if cpus_grew:
            job.cpus |= event.cpus
            self._table.regroup()
            if job.mode.takes_part:
                self._table.shares = ()  # a percent is of all its CPUs: said again
        commands = admit_task(job, event.task, cpus_grew=cpus_grew)
        if newcomer:
            start_account(job, self._table, self.settings, event.now_ns)
            # Its tasks look at a status from the first moment on.
            commands.append(PublishStatus(job.key, job.epoch, False, Cause.FIRST))
        cause = Cause.FIRST if newcomer else Cause.FREED
        return commands + settle(self._table, self.settings, event, cause)

    def _register_again(
        self, job: JobState, before: Task, event: TaskRegistered
    ) -> list[Command]:
        """A task that was launched comes to MPI: perhaps as another process, and bound to
        other CPUs. To the job it is the same one."""
        commands: list[Command] = []
        if before != event.task and job.mode is not Mode.RELEASED:
            commands.append(RemoveTask(job.key, before))
        moved = job.tasks.pop(before) != event.cpus
        job.tasks[event.task] = event.cpus
        if moved:
            self.counters[Branch.REG_MOVED] += 1
            self._take_cpus_of_tasks(job)
        else:
            self.counters[Branch.REG_AGAIN] += 1
        # It may be elsewhere by now: a container's runtime moves its processes, too.
        commands += admit_task(job, event.task, cpus_grew=moved)
        if moved:
            commands += settle(self._table, self.settings, event, Cause.FREED)
        return commands

    def _take_cpus_of_tasks(self, job: JobState) -> None:
        job.cpus = frozenset().union(*job.tasks.values())
        self._table.regroup()
        self._table.shares = ()  # a percent is of all its CPUs: said again

    # -- CMDOUT ---------------------------------------------------------------------

    def _exit(self, event: TaskExited) -> list[Command]:
        job = self._table.jobs.get(event.job)
        if job is None or event.task not in job.tasks:
            self.counters[Branch.OUT_UNKNOWN] += 1
            return []
        left = job.tasks.pop(event.task)
        self._table.fitting.forget()
        has_class = job.mode is not Mode.RELEASED
        commands: list[Command] = []
        if has_class:
            commands.append(RemoveTask(job.key, event.task))
        if job.tasks:
            self.counters[Branch.OUT_TASK] += 1
            if not left <= frozenset().union(*job.tasks.values()):
                self._take_cpus_of_tasks(job)
                if has_class:
                    commands.append(CreateClass(job.key, job.cpus))
            return commands + settle(self._table, self.settings, event, Cause.FREED)
        self.counters[Branch.OUT_JOB] += 1
        del self._table.jobs[job.key]
        if job.whole:
            self._table.ended_ns.append(job.received_ns + job.ran_ns(event.now_ns))
        self._table.regroup()
        if has_class:
            commands.append(DestroyClass(job.key))
        return commands + settle_after_turn(self._table, self.settings, event)

    # -- CMDCSW ---------------------------------------------------------------------

    def _end_slice(self, event: SliceEnded) -> list[Command]:
        table = self._table
        ending = due(table, self.settings, event.now_ns)
        if not ending:
            self.counters[Branch.CSW_NOTHING_DUE] += 1
            return []
        kept = [
            job
            for job in table.scheduled()
            if job not in ending and not is_barred(job, table.raised)
        ]
        order = in_order(table, self.settings, event)
        if self.settings.slices_end_apart:
            ended = [group for group in table.groups if any(j in ending for j in group)]
            give_way(ended, table, kept, order, self.settings, event.now_ns)
        chosen = table.fitting.fill(kept, order)
        for job in ending:  # who stays begins another slice
            if job in chosen:
                job.account(event.now_ns)
                job.came_by = Cause.SLICE
        if {job.key for job in chosen} == {job.key for job in table.scheduled()}:
            self.counters[Branch.CSW_KEPT] += 1
            return []
        self.counters[Branch.CSW_SWITCHED] += 1
        return switch(table, chosen, event.now_ns, Cause.SLICE)

    # -- CMDSCH ---------------------------------------------------------------------

    def _trap(self, event: MessageTrapped) -> list[Command]:
        table = self._table
        job = table.jobs.get(event.job)
        if job is None or event.task not in job.tasks:
            self.counters[Branch.SCH_REFUSED_UNKNOWN] += 1
            return [RefuseRequest(event.job, event.task, Refusal.UNKNOWN)]
        group = table.group_of(job) if job.mode.takes_part else []
        against = objection(job, event.epoch, group, table, self.settings, event.now_ns)
        if against is not None:
            return self._refuse(job, event.task, against)
        self.counters[Branch.SCH_GRANTED] += 1
        job.granted += 1
        return self._bring_in(job, event, Cause.PULLED)

    def _refuse(self, job: JobState, task: Task, why: Objection) -> list[Command]:
        self.counters[Branch(f"sch_refused_{why.reason.value}")] += 1
        job.refused[why.reason] += 1
        job.awaits_gmet = job.awaits_gmet or why.passes
        job.awaits_switch = job.awaits_switch or why.holds_until_a_switch
        whom = why.other.key if why.other else None
        return [RefuseRequest(job.key, task, why.reason, why.by_ns, whom)]

    def _bring_in(self, job: JobState, event: Event, cause: Cause) -> list[Command]:
        """Schedules the job in the place of its whole group."""
        group = self._table.group_of(job)
        kept = [other for other in self._table.scheduled() if other not in group]
        order = in_order(self._table, self.settings, event)
        chosen = self._table.fitting.fill([*kept, job], order)
        return switch(self._table, chosen, event.now_ns, cause)

    # -- a turn given from outside ----------------------------------------------------

    def _give_turn(self, event: TurnGiven) -> list[Command]:
        job = self._table.jobs.get(event.job)
        if job is None:
            self.counters[Branch.TURN_UNKNOWN] += 1
            return []
        if job.scheduled:
            self.counters[Branch.TURN_HELD] += 1
            job.account(event.now_ns)  # the slice starts anew
            job.came_by = Cause.GIVEN
            return []
        if not job.mode.takes_part or is_barred(job, self._table.raised):
            self.counters[Branch.TURN_BARRED] += 1
            return []
        self.counters[Branch.TURN_GIVEN] += 1
        return self._bring_in(job, event, Cause.GIVEN)

    # -- what the owner wants ---------------------------------------------------------

    def _choose_mode(self, event: ModeChosen) -> list[Command]:
        job = self._table.jobs.get(event.job)
        if job is None:
            self.counters[Branch.MODE_UNKNOWN] += 1
            return []
        if job.mode is event.mode:
            self.counters[Branch.MODE_KEPT] += 1
            return []
        self.counters[Branch.MODE_CHANGED] += 1
        before = job.mode
        if not event.mode.takes_part:
            job.account(event.now_ns)
            job.scheduled = job.awaits_gmet = job.awaits_switch = False
        commands = change_mode(job, event.mode)
        job.whole = job.whole and event.mode is not Mode.RELEASED
        self._table.regroup()
        if event.mode is Mode.COSCHEDULED or event.mode.takes_part > before.takes_part:
            restart_account(job, before, self._table, self.settings, event.now_ns)
        if not event.mode.takes_part:
            return commands + settle_after_turn(self._table, self.settings, event)
        return commands + settle(self._table, self.settings, event, cause_of(event.mode))

    # -- the alarm: GMET is over for those who were refused for it -------------------

    def _rearm(self, event: AlarmRang) -> list[Command]:
        self._alarm_ns = None
        commands: list[Command] = []
        for job in self._table.by_key():
            if job.awaits_gmet and event.now_ns >= self._gmet_end_ns(job):
                job.awaits_gmet = False
                job.epoch += 1
                commands.append(PublishStatus(job.key, job.epoch, False, Cause.REARMED))
        rearmed = Branch.ALARM_REARMED if commands else Branch.ALARM_EARLY
        self.counters[rearmed] += 1
        return commands

    def _gmet_end_ns(self, job: JobState) -> int:
        group = self._table.group_of(job)
        gmet_ns = guaranteed_ns(group, self._table, self.settings)
        ends = [guaranteed_until_ns(o, job, gmet_ns) for o in group if o.scheduled]
        return max(ends, default=0)

    def _set_alarm(self) -> list[Command]:
        ends = [self._gmet_end_ns(job) for job in self.jobs.values() if job.awaits_gmet]
        next_ns = min(ends, default=None)
        if next_ns is None or next_ns == self._alarm_ns:
            return []
        self._alarm_ns = next_ns
        return [SetAlarm(next_ns)]

    # -- settings, CMDDWN -----------------------------------------------------------

    def _change_settings(self, event: SettingsChanged) -> list[Command]:
        self.counters[Branch.SETTINGS_CHANGED] += 1
        self.settings = event.settings
        if event.settings.slice_auto:  # turns went by the number of the slice before
            bound_accounts(self._table, self.settings, event.now_ns)
        return []

    def _shut_down(self) -> tuple[Command, ...]:
        self.counters[Branch.DOWN] += 1
        commands: list[Command] = []
        for job in self._table.by_key():
            if job.mode is Mode.SUSPENDED:
                commands.append(ThawClass(job.key))
            # Nobody will wake a sleeping waiter any more, nor say that the CPUs are its
            # own again: let them all run.
            if job.contended:
                commands.append(PublishContention(job.key, False))
            commands.append(PublishStatus(job.key, job.epoch + 1, True, Cause.SHUTDOWN))
            if job.mode is not Mode.RELEASED:
                commands.append(DestroyClass(job.key))
        self._table.jobs.clear()
        self._table.regroup()
        self._table.shares = ()
        return tuple(commands)

    # -- the timer ------------------------------------------------------------------

    def _order_timer(self, event: Event) -> list[Command]:
        contended = self._table.contended()
        settings = self.settings
        deadline_ns = 0
        if contended and not settings.align:
            ends = [turn_end_ns(group, self._table, settings) for group in contended]
            deadline_ns = max(event.now_ns, min(ends))
        orders = OrderTimer(not contended, settings.align, settings.slice_ns, deadline_ns)
        if orders == self._orders:
            return []
        self._orders = orders
        return [orders]
