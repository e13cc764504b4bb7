"""Runs the coupling of one domain as a pure state machine (Tang et al., IPDPS 2011).

Events come from the engine, which has the jobs and nodes, and from other domains; commands
go to both (``engine_messages``). Deterministic, without a clock.

The parts: ``ready`` decides about a job that has nodes; ``rounds`` start the jobs of a
group together; ``mail`` asks and answers other domains; ``after_restart`` continues after
a restart.

Invariants, after every event: a job has nodes only while a question, a round, a hold with
a lease or a vote with a lease is open for it. The jobs of a group that start together begin
by one decision. A mate that does not answer delays no other job.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar

from cosched.core.cluster.coupling.after_restart import reconcile, restarted, shift_clock
from cosched.core.cluster.coupling.departures import started_alone
from cosched.core.cluster.coupling.engine_messages import (
    CapacityChanged,
    Command,
    Event,
    JobAnnounced,
    JobFailed,
    JobFound,
    JobNotReady,
    JobOver,
    JobPrepared,
    JobQueued,
    JobReady,
    JobRefused,
    JobStartedAlone,
    OfMember,
    PeerLost,
    QueueMoved,
    Received,
    RecoveryEnded,
)
from cosched.core.cluster.coupling.groups import DomainName, Rights
from cosched.core.cluster.coupling.jobs import Jobs
from cosched.core.cluster.coupling.mail.post import Post
from cosched.core.cluster.coupling.mail.replies import Replies
from cosched.core.cluster.coupling.mate_messages import (
    Announce,
    Answer,
    AnyReply,
    Cause,
    NotReady,
    RoundId,
)
from cosched.core.cluster.coupling.peer_messages import Exchange
from cosched.core.cluster.coupling.ready import ReadyJobs
from cosched.core.cluster.coupling.rounds.coordinator import Coordinator
from cosched.core.cluster.coupling.rounds.participant import Participant
from cosched.core.cluster.coupling.settings import CouplingSettings
from cosched.core.cluster.coupling.snapshot import pack, unpack
from cosched.core.cluster.coupling.state import Counts, GroupJob, Owed, Stage, State
from cosched.core.cluster.coupling.timers import Timers
from cosched.core.cluster.queue.job import JobId
from cosched.core.cluster.queue.queue_events import Ticked
from cosched.core.cluster.queue.rules import NO_RULES, PassRules
from cosched.core.errors import CoschedError


class Coupling:
    """Decides when this domain's jobs of groups start."""

    def __init__(
        self,
        name: DomainName,
        settings: CouplingSettings,
        rights: Rights | None = None,
        state: State | None = None,
    ) -> None:
        self._state = State(name) if state is None else state
        self._jobs = jobs = Jobs(self._state, settings)
        self._replies = Replies(jobs)
        self._post = post = Post(jobs, self._answered, self._back)
        self._ready = ReadyJobs(jobs, post)
        self._participant = Participant(jobs, post, self._respond, self._left)
        self._coordinator = Coordinator(
            jobs, post, self._participant, self._ready, self._replies.give
        )
        self._exchange = Exchange(
            jobs,
            rights or Rights(),
            self._replies,
            self._ready,
            self._participant,
            self._coordinator,
        )
        self._timers = Timers(jobs, post, self._participant, self._coordinator)

    # --- reading --------------------------------------------------------------------------

    @property
    def name(self) -> DomainName:
        """Returns the name of this domain."""
        return self._state.name

    @property
    def counts(self) -> Counts:
        """Returns how often each branch was taken."""
        return self._state.counts

    @property
    def held(self) -> int:
        """Returns the number of held nodes, which are idle."""
        return self._jobs.held

    @property
    def state(self) -> State:
        """Returns everything that the domain remembers, for reading."""
        return self._state

    @property
    def settings(self) -> CouplingSettings:
        """Returns the settings in force."""
        return self._jobs.settings

    @property
    def waiting(self) -> list[GroupJob]:
        """Returns the jobs that queue or have nodes, by submission."""
        return list(self._jobs.waiting.values())

    def rules(self, seeking: JobId | None = None) -> PassRules:
        """Returns the exceptions from the order of the queue for a pass of the engine.

        Promised jobs come first. A job that has just released its nodes comes last (section
        IV.E.1 of the paper). A job that yielded is left out until its rest is over; without
        a rest, until something else happens in the queue. A mate's request still reaches
        it. A follower is left out until it is due. Each yield can move a job forward.

        seeking: a job for which the pass looks for nodes; it takes part. The pass delays no
        job with a reservation, as any other one.
        """
        settings, jobs = self._jobs.settings, self._jobs
        since_ns = self._state.now_ns - settings.pause_ns
        first: list[JobId] = []
        last: set[JobId] = set()
        left_out: set[JobId] = set()
        raised: dict[JobId, int] = {}
        for member in jobs.queuing:
            number, past = member.number, member.past
            if member.has_promised:
                first.append(number)
            elif jobs.leaves_out(member):
                if number != seeking:
                    left_out.add(number)
            elif past.released_ns is not None and past.released_ns > since_ns:
                last.add(number)
            elif settings.raise_by and past.yields:
                raised[number] = past.yields * settings.raise_by
        if not (first or last or left_out or raised):
            return NO_RULES
        return PassRules(first, last, left_out, raised)

    # --- storing --------------------------------------------------------------------------

    def snapshot(self, wall_ns: int) -> bytes:
        """Returns the whole state, with the time of the wall clock."""
        return pack(self._state, wall_ns)

    @classmethod
    def restore(
        cls,
        stored: bytes,
        settings: CouplingSettings,
        rights: Rights | None = None,
    ) -> Coupling:
        """Returns a machine that continues exactly where the snapshot was taken.

        Raises CoschedError for data that is not a snapshot."""
        return cls("", settings, rights, unpack(stored).state)

    @classmethod
    def restart(
        cls,
        stored: bytes,
        settings: CouplingSettings,
        now_ns: int,
        wall_ns: int,
        rights: Rights | None = None,
    ) -> Coupling:
        """Returns a machine for a controller that has restarted. It answers no question
        until the engine has reported its jobs (``JobFound``, ``RecoveryEnded``). Its
        snapshot must be stored before it sends anything."""
        snapshot = unpack(stored)
        state = snapshot.state
        shift_clock(state, now_ns, wall_ns - snapshot.wall_ns)
        restarted(state, wall_ns)
        return cls("", settings, rights, state)

    def configure(self, settings: CouplingSettings, rights: Rights | None = None) -> None:
        """Applies changed settings, and other rights if there are any. Holds keep their
        leases."""
        self._jobs.settings = settings
        if rights is not None:
            self._exchange.rights = rights

    # --- events ---------------------------------------------------------------------------

    def handle(self, event: Event) -> tuple[Command, ...]:
        """Handles an event; returns the commands. Raises CoschedError for a job or group
        that cannot be; nothing has changed then."""
        self._state.now_ns = max(self._state.now_ns, event.now_ns)
        self._take(event)
        todo = self._jobs.todo
        while todo:
            todo.popleft()()
        self._timers.wake_up()
        commands = tuple(self._jobs.commands)
        self._jobs.commands.clear()
        return commands

    def _take(self, event: Event) -> None:
        match event:
            case Received():
                self._receive(event)
            case Ticked():
                self._timers.tick()
            case QueueMoved():
                self._state.epoch += 1
            case CapacityChanged():
                self._state.capacity = event.nodes
            case PeerLost():
                self._post.lose(event.peer)
            case JobAnnounced():
                self._announce(event)
            case JobRefused():
                self._forget(event.number)
            case JobFound():
                self._state.found[event.number] = (event.found, event.size)
            case RecoveryEnded():
                reconcile(self._jobs, self._post, self._ready)
            case _:
                self._take_about_job(event)

    def _take_about_job(self, event: OfMember) -> None:
        member = self._jobs.expect(event.number)
        stages, step = self.STEPS[type(event)]
        if member.stage not in stages:
            expected = " or ".join(stage.value for stage in stages)
            raise CoschedError(
                f"job {member.number}: is {member.stage.value}, expected {expected}"
            )
        step(self, member, event)

    def _queued(self, member: GroupJob, event: JobQueued) -> None:
        self._state.epoch += 1
        self._post.doubt(member.group.others(self.name))
        self._jobs.queue(member, event.size)

    def _got_no_nodes(self, member: GroupJob, event: JobNotReady) -> None:
        if member.stage is Stage.QUEUING:
            self._participant.got_no_nodes(member, event)

    def _prepared(self, member: GroupJob, event: JobPrepared) -> None:
        self._participant.prepared(member, event.address)
        self._ready.tell_followers(member)

    def _started_alone(self, member: GroupJob, _event: JobStartedAlone) -> None:
        started_alone(self._state, self._post, member)
        self._over(member)

    def _announce(self, event: JobAnnounced) -> None:
        self._timers.forget()  # the group's name may be free again
        member = self._jobs.announce(event.number, event.group, event.user, event.wall_ns)
        others = event.group.others(self.name)
        self._post.doubt(others)
        for domain in others:
            self._post.ask(domain, member, Announce())

    def _got_nodes(self, member: GroupJob, event: JobReady) -> None:
        member.size = event.size or member.size
        own = member.turn.trying is None
        self._jobs.ready(member, own=own)
        if own:
            self._coordinator.consider(member)
        else:
            self._participant.got_nodes(member)

    def _failed(self, member: GroupJob, _event: JobFailed) -> None:
        """Returns a job that has lost its nodes to the queue."""
        owed, starting = member.turn.owed, member.turn.starting
        self._jobs.lose(member)
        if starting and member.dates.promise_ns is None:
            self._jobs.set_dates(member, promise_ns=self._state.now_ns)
        if owed is not None:
            self._respond(member, owed, NotReady(Cause.FAILED))
        self._coordinator.cancel(member)
        member.aside = self._state.epoch
        retry_ns = self._state.now_ns + self._jobs.settings.patience.retry_ns
        self._jobs.set_dates(member, retry_ns=retry_ns)

    def _over(self, member: GroupJob, _event: object = None) -> None:
        self._state.epoch += 1
        self._state.found.pop(member.number, None)
        owed = member.turn.owed
        self._post.withdraw(member.turn.asking)
        self._ready.end(member)
        if owed is not None:
            self._respond(member, owed, NotReady(Cause.FAILED))
        self._coordinator.cancel(member)

    #: In which stages each event of a job's engine may come, and the step that follows.
    STEPS: ClassVar[dict[type, tuple[tuple[Stage, ...], Callable[..., None]]]] = {
        JobQueued: (tuple(Stage), _queued),
        JobReady: ((Stage.QUEUING,), _got_nodes),
        JobNotReady: (tuple(Stage), _got_no_nodes),
        JobPrepared: ((Stage.PREPARING,), _prepared),
        JobFailed: (
            (Stage.READY, Stage.HOLDING, Stage.PREPARING, Stage.PREPARED),
            _failed,
        ),
        JobOver: (tuple(Stage), _over),
        JobStartedAlone: (tuple(Stage), _started_alone),
    }

    def _forget(self, number: JobId) -> None:
        member = self._jobs.expect(number)
        if member.stage not in (Stage.UNSUBMITTED, Stage.OVER):
            raise CoschedError(f"job {number}: is {member.stage.value}, not over")
        self._post.withdraw_all(member)
        self._jobs.forget(member)

    # --- other domains --------------------------------------------------------------------

    def _receive(self, event: Received) -> None:
        self._post.heard(event.peer)
        if isinstance(event.message, Answer):
            self._post.take(event.peer, event.message)
        else:
            self._exchange.asked(event.peer, event.message)

    def _answered(self, opened: Any, reply: AnyReply | None) -> None:
        self._exchange.answered(opened, reply)

    def _respond(self, member: GroupJob, owed: Owed, reply: AnyReply) -> None:
        """Gives an answer to another domain, or to this domain's own round."""
        if owed.peer != self._state.name:
            self._replies.give(owed, reply)
            return
        round_id: RoundId = (owed.peer, owed.incarnation, owed.number)
        current = self._state.rounds.get(member.key)
        takes: Callable[..., None] = self._coordinator.took
        if current is not None and current.preparing:
            takes = self._coordinator.took_prepared
        self._jobs.todo.append(partial(takes, member, self._state.name, round_id, reply))

    def _left(self, member: GroupJob) -> None:
        """Decides about a job that keeps its nodes after its round has failed."""
        self._ready.wait(member, Cause.BUSY, "")

    def _back(self, name: DomainName) -> None:
        """Makes jobs ask again if they waited for a domain that is back."""
        self._state.epoch += 1
        for member in self._jobs.waiting.values():
            member.past.down_since.pop(name, None)
            if name in member.group.members and member.past.cause is Cause.DOWN:
                self._jobs.set_dates(member, retry_ns=self._state.now_ns)
        self._jobs.todo.append(self._timers.retry)
