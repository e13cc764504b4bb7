"""Decides which jobs of a node run: the scheduler daemon as a pure state machine.

Yoo and Jette, "A Coscheduling Technique for Symmetric Multiprocessor Clusters", section
2.2.3. ``NodeScheduler.handle`` is the paper's switch over five requests:

    CMDREG  TaskRegistered     creates an entry and a class for a new job, unscheduled;
                               schedules the job if no job competes with it. A task may
                               register twice: at its launch, and when it comes to MPI.
                               Launchers register, too, before the tasks that they start
    CMDOUT  TaskExited         removes the task; with the last task the job ends
    CMDCSW  SliceEnded         schedules the job that has received the least CPU time
    CMDSCH  MessageTrapped     schedules the asking job if the scheduled job has run for the
                               guaranteed minimum execution time (GMET)
    CMDDWN  ShutdownRequested  destroys the classes; every job runs at normal shares

No node commands another one. A job comes to run on all its nodes at once because a message
from a scheduled peer pulls a switch here.

``registration`` carries out the first two. ``switching.decisions`` has the table of all:
which jobs keep their CPUs, and in which order the others follow.

Additions to the paper, and the files that hold them:

    groups    several jobs are scheduled at once if they fit side by side
    slices    turns aligned by the wall clock, turns that follow the age of the jobs, and an
              order by what is left of them
    pulls     a job with much more CPU time than a waiting job pulls no switch. A job that
              was pulled in during a slice is protected longer from jobs that were submitted
              later
    switch    jobs that start together run in the order of their submission on all nodes. A
              job that needs many CPUs gets them from jobs in their slices
    fairness  bounds on the CPU time from which a newcomer's account starts
    cpu_need  a job that mostly waits comes before one that can compute in its waits
    modes     a job's owner may suspend, release or raise it
    steering  a driver of several nodes may give a job a turn
    rests     the driver may stop jobs for a moment, to see others on other CPUs alone
    launchers
              a job takes part before its first task and after its last one

The paper discards a refused request, and the task asks again with each message. Here a task
asks once an epoch; the job's epoch is raised when the reason of the refusal may be gone.

With ``order=paper`` only groups, modes and launchers have an effect. The epoch of a refused
job is then raised at once.

Invariants after every event:

- The scheduled jobs fit side by side.
- No other job that takes part would fit beside them.
- An unscheduled job's share is taken from the scheduled jobs of its group.
- A job that does not take part is not scheduled.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from cosched.core.node.chosen_mode import choose_mode
from cosched.core.node.fairness import bound_accounts
from cosched.core.node.given_turn import give_turn
from cosched.core.node.job import JobState
from cosched.core.node.knowledge import Ended
from cosched.core.node.launchers import keeps_launchers
from cosched.core.node.messages import (
    AlarmRang,
    Branch,
    Cause,
    Command,
    Event,
    Job,
    KnowledgeReplaced,
    MessageTrapped,
    ModeChosen,
    OrderTimer,
    PublishContention,
    PublishStatus,
    Refusal,
    RefuseRequest,
    RestChosen,
    SettingsChanged,
    ShutdownRequested,
    SliceEnded,
    Task,
    TaskExited,
    TaskRegistered,
    ThawClass,
    TurnGiven,
    UseRead,
)
from cosched.core.node.modes import destroy_class
from cosched.core.node.process_table import NodeSnapshot, ProcessTable
from cosched.core.node.prospect import Prospect
from cosched.core.node.registration import leave, register
from cosched.core.node.resting_jobs import choose_rests, end_rests
from cosched.core.node.settings import Settings
from cosched.core.node.slices.policy import ChoosePolicy, choose_policy
from cosched.core.node.switching.decisions import (
    bring_in,
    end_turns,
    jobs_to_end,
    settle,
)
from cosched.core.node.switching.pulls import GmetAlarm, Objection, objection
from cosched.core.node.switching.switch import discard, publish_contention, set_shares


class NodeScheduler:
    """Decides which jobs of a node are scheduled. Deterministic; it has no clock.

    choose: returns the slice policy for the settings; an experiment may have its own.
    """

    def __init__(self, settings: Settings, choose: ChoosePolicy = choose_policy) -> None:
        self.counters: Counter[Branch] = Counter()
        self._table = ProcessTable(settings, choose)
        self._orders: OrderTimer | None = None
        self._alarm = GmetAlarm()

    def handle(self, event: Event) -> tuple[Command, ...]:
        """Takes one event; returns the commands for the driver, in order."""
        match event:
            case ShutdownRequested():
                return self._shut_down()
        rested = end_rests(self._table, event)
        match event:
            case TaskRegistered():
                branches, commands = register(self._table, event)
                self.counters.update(branches)
            case TaskExited():
                commands = self._count(*leave(self._table, event))
            case SliceEnded():
                commands = self._end_slice(event)
            case MessageTrapped():
                commands = self._trap(event)
            case UseRead():
                commands = self._read_use(event)
            case TurnGiven():
                commands = self._count(*give_turn(self._table, event))
            case ModeChosen():
                commands = self._count(*choose_mode(self._table, event))
            case RestChosen():
                commands = self._count(*choose_rests(self._table, event))
            case AlarmRang():
                commands = self._ring_alarm(event)
            case SettingsChanged():
                commands = self._change_settings(event)
            case KnowledgeReplaced():
                commands = self._replace_knowledge(event)
            case _:
                raise TypeError(f"not an event of a node: {event!r}")
        return (
            *rested,
            *commands,
            *publish_contention(self._table),
            *self._order_timer(event),
            *self._alarm.set(self._table, event.now_ns),
        )

    # -- CMDDWN: destroy the classes ------------------------------------------------------

    def _shut_down(self) -> tuple[Command, ...]:
        self.counters[Branch.DOWN] += 1
        commands: list[Command] = []
        for job in self._table.by_key():
            if job.mode.stops:
                commands.append(ThawClass(job.key))
            # No later status wakes a sleeping task or gives it back its CPUs.
            if job.contended:
                commands.append(PublishContention(job.key, False))
            commands.append(PublishStatus(job.key, job.epoch + 1, True, Cause.SHUTDOWN))
            commands += destroy_class(job)
        self._table.jobs.clear()
        self._table.regroup()
        self._table.shares = ()
        return tuple(commands)

    # -- CMDCSW: schedule the job that has received the least CPU time ---------------------

    def _end_slice(self, event: SliceEnded) -> list[Command]:
        table, now_ns = self._table, event.now_ns
        if table.policy.first_takes_over:
            commands = settle(table, event, Cause.SLICE)
        else:
            ending = jobs_to_end(table, now_ns)
            if not ending:
                self.counters[Branch.CSW_NOTHING_DUE] += 1
                return []
            commands = end_turns(table, ending, event)
        self.counters[Branch.CSW_SWITCHED if commands else Branch.CSW_KEPT] += 1
        return commands

    # -- CMDSCH: if the scheduled job has run for GMET, schedule the asking job ------------

    def _trap(self, event: MessageTrapped) -> list[Command]:
        job = self._table.jobs.get(event.job)
        if job is None or event.task not in job.tasks:
            self.counters[Branch.SCH_REFUSED_UNKNOWN] += 1
            return [RefuseRequest(event.job, event.task, Refusal.UNKNOWN)]
        against = objection(job, event.epoch, self._table, event.now_ns)
        if against is not None:
            return self._refuse(job, event.task, against)
        self.counters[Branch.SCH_GRANTED] += 1
        return bring_in(self._table, job, event, Cause.PULLED)

    def _refuse(self, job: JobState, task: Task, why: Objection) -> list[Command]:
        self.counters[Branch(f"sch_refused_{why.reason.value}")] += 1
        other = why.other.key if why.other else None
        refused = RefuseRequest(job.key, task, why.reason, why.by_ns, other)
        if not self._table.policy.keeps_refused:
            return [refused, *(discard(job) if why.is_temporary else [])]
        job.awaits_gmet = job.awaits_gmet or why.ends_with_gmet
        job.awaits_switch = job.awaits_switch or why.may_end_with_a_switch
        return [refused]

    # -- the use of jobs: what part of their CPUs they need --------------------------------

    def _read_use(self, event: UseRead) -> list[Command]:
        for key, use in event.uses:
            job = self._table.jobs.get(key)
            if job is not None:
                job.read_use(event.now_ns, use)
        self._table.share_needs()
        return self._count(Branch.USE_READ, set_shares(self._table))

    # -- the settings, the knowledge, the timer and the alarm ------------------------------

    def _change_settings(self, event: SettingsChanged) -> list[Command]:
        self.counters[Branch.SETTINGS_CHANGED] += 1
        self._table.change_settings(event.settings)
        if self._table.policy.exit_ends_turns:  # turns may have gone without CPU time
            bound_accounts(self._table, event.now_ns)
        return set_shares(self._table)

    def _replace_knowledge(self, event: KnowledgeReplaced) -> list[Command]:
        self.counters[Branch.KNOWLEDGE_REPLACED] += 1
        self._table.knowledge.replace(event.ended)
        return []

    def _ring_alarm(self, event: AlarmRang) -> list[Command]:
        commands = self._alarm.ring(self._table, event.now_ns)
        return self._count(
            Branch.ALARM_REARMED if commands else Branch.ALARM_EARLY, commands
        )

    def _count(self, branch: Branch, commands: list[Command]) -> list[Command]:
        self.counters[branch] += 1
        return commands

    def _order_timer(self, event: Event) -> list[Command]:
        orders = self._table.policy.order_timer(self._table.contended(), event.now_ns)
        if orders == self._orders:
            return []
        self._orders = orders
        return [orders]

    # -- what the driver reads -------------------------------------------------------------

    @property
    def settings(self) -> Settings:
        """The settings in force."""
        return self._table.settings

    @property
    def jobs(self) -> Mapping[Job, JobState]:
        """The jobs on this node, for reading."""
        return self._table.jobs

    @property
    def shares(self) -> Mapping[Job, int]:
        """Each job's percentage of its CPUs."""
        return {share.job: share.percent for share in self._table.shares}

    def slice_ns(self, job: Job) -> int:
        """Returns how long the job now keeps its CPUs while others wait."""
        state = self._table.jobs[job]
        if not state.mode.takes_part:
            return self.settings.slice_ns
        return self._table.policy.turn_ns(self._table.group_of(state))

    def keeps_launchers(self, job: Job, now_ns: int) -> bool:
        """Returns whether the launchers of a job still belong to it; see ``launchers``."""
        state = self._table.jobs.get(job)
        return state is not None and keeps_launchers(state, self._table, now_ns)

    def prospects(self, now_ns: int) -> dict[Job, Prospect]:
        """Returns why each job has its place in the order; empty if jobs take turns."""
        return self._table.prospects(now_ns)

    def remember(self, ended: Iterable[Ended]) -> None:
        """Takes over jobs that ended before this machine began, in the order of their ends.
        Call it before the first event."""
        self._table.knowledge.learn(ended)

    def snapshot(self) -> NodeSnapshot:
        """Returns the whole state, for ``restored``."""
        return NodeSnapshot(
            self.settings,
            tuple(job.copy() for job in self._table.jobs.values()),
            self._table.shares,
            self._orders,
            self._alarm.ends_ns,
            dict(self.counters),
            self._table.knowledge.ended,
            dict(self._table.knowledge.bare_starts_ns),
            self._table.rests_until_ns,
        )

    @classmethod
    def restored(cls, snapshot: NodeSnapshot) -> NodeScheduler:
        """Returns a machine that goes on from the snapshot."""
        machine = cls(snapshot.settings)
        machine.counters.update(snapshot.counters)
        machine._table.jobs = {job.key: job.copy() for job in snapshot.jobs}
        machine._table.shares = snapshot.shares
        machine._orders = snapshot.orders
        machine._alarm = GmetAlarm(snapshot.alarm_ns)
        machine.remember(snapshot.ended)
        machine._table.knowledge.bare_starts_ns |= snapshot.bare_starts_ns
        machine._table.rests_until_ns = snapshot.rests_until_ns
        machine._table.regroup()
        return machine
