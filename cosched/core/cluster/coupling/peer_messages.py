"""Handles the messages of other domains: checks who may ask what, and passes it on.

The identity of the sender is that of its connection. A question is refused unless its
domain belongs to the group as it was announced here, the group's digest is the same, and
its user is the user here (``Rights``) or has the group's token. A group of other users
is unknown to it.
"""

from __future__ import annotations

from cosched.core.cluster.coupling.departures import mate_departed
from cosched.core.cluster.coupling.engine_messages import GroupDisputed
from cosched.core.cluster.coupling.groups import DomainName, Rights, Timing
from cosched.core.cluster.coupling.jobs import Jobs
from cosched.core.cluster.coupling.mail.replies import Replies
from cosched.core.cluster.coupling.mate_messages import (
    Abort,
    Aborted,
    Alive,
    Announce,
    AnyReply,
    Cause,
    Decided,
    Departed,
    Done,
    Go,
    Joined,
    Known,
    LeaderStarted,
    LeaderStatus,
    NotReady,
    Outcome,
    Over,
    Ping,
    Prepare,
    Question,
    Ready,
    Recovering,
    Refused,
    Reserve,
    Running,
    Unknown,
)
from cosched.core.cluster.coupling.ready import ReadyJobs
from cosched.core.cluster.coupling.rounds.coordinator import Coordinator
from cosched.core.cluster.coupling.rounds.participant import Participant
from cosched.core.cluster.coupling.state import GroupJob, Open, Owed, Stage


class Exchange:
    """The questions of other domains, and their answers to ours. rights: whose jobs may be
    in one group."""

    def __init__(
        self,
        jobs: Jobs,
        rights: Rights,
        replies: Replies,
        ready: ReadyJobs,
        participant: Participant,
        coordinator: Coordinator,
    ) -> None:
        self._jobs = jobs
        self._state = jobs.state
        self.rights = rights
        self._replies = replies
        self._ready = ready
        self._participant = participant
        self._coordinator = coordinator

    # --- questions ------------------------------------------------------------------------

    def asked(self, peer: DomainName, question: Question) -> None:
        """Answers a question, at once or when its answer is there."""
        if question.sender != peer:
            self._state.counts.dropped += 1
            return
        owed = Owed(peer, question.incarnation, question.number)
        if not self._replies.admit(peer, question, busy=self._works_on(question, owed)):
            return
        reply = self._reply(peer, question, owed)
        if reply is not None:
            self._replies.give(owed, reply)

    def _works_on(self, question: Question, owed: Owed) -> bool:
        return any(
            member.turn.owed == owed or self._coordinator.is_asked(member.key, owed)
            for member in self._jobs.named(question.group)
        )

    def _reply(self, peer: DomainName, question: Question, owed: Owed) -> AnyReply | None:
        """Returns the answer; None if it will be given later."""
        if self._state.recovering:
            return Recovering()
        ask = question.ask
        if isinstance(ask, Ping):
            return Alive()
        member = self._member(peer, question)
        if member is None:
            return Unknown()
        refused = self._objection(peer, question, member)
        if refused is not None:
            self._state.counts.refused += 1
            return Refused(refused)
        member.past.mates[peer] = question.job
        member.past.down_since.pop(peer, None)
        self._has_group(member, peer)
        if isinstance(ask, Outcome) and ask.round[0] != self._state.name:
            return Refused(f"{self._state.name} does not coordinate this round")
        if isinstance(ask, Reserve | Prepare | Go | Abort) and ask.round[0] != peer:
            return Refused(f"{peer} does not coordinate this round")
        if isinstance(ask, LeaderStatus | LeaderStarted):
            return self._about_leader(peer, member, ask)
        if isinstance(ask, Announce):
            return Known(member.number)
        if isinstance(ask, Departed):
            mate_departed(self._jobs, member)
            return Done()
        if member.group.timing is Timing.AFTER:
            return Refused("the jobs of the group do not start in rounds")
        return self._step(peer, member, ask, owed)

    def _member(self, peer: DomainName, question: Question) -> GroupJob | None:
        """Returns this domain's job of a group that another domain names: that of the same
        user, or that whose token is the same. Other users' groups are not shown."""
        named = self._jobs.named(question.group)
        for member in named:
            if member.group.token and member.digest == question.digest:
                return member
        own = self.rights.users_here(peer, question.user)
        return next((member for member in named if member.user in own), None)

    def _objection(
        self, peer: DomainName, question: Question, member: GroupJob
    ) -> str | None:
        own = self._state.name
        if peer not in member.group.members:
            return f"group '{question.group}' has no job in {peer} for {own}"
        if question.digest != member.digest:
            return f"group '{question.group}' has other jobs, times or token in {own}"
        return None

    def _step(
        self, peer: DomainName, member: GroupJob, ask: object, owed: Owed
    ) -> AnyReply | None:
        match ask:
            case Ready():
                member.older_ns = min(member.older_ns, ask.older_ns)
                self._coordinator.ready(member, peer, owed)
                return None
            case Outcome():
                return self._coordinator.outcome(member.key, ask.round)
            case Reserve():
                member.older_ns = min(member.older_ns, ask.older_ns)
                self._coordinator.give_way(member, ask.round)
                self._participant.reserve(member, ask.round, owed)
                return None
            case Prepare():
                self._coordinator.give_way(member, ask.round)
                self._participant.prepare(member, ask.round, owed)
                return None
            case Go():
                return self._participant.go(member, ask.round, ask.addresses)
            case Abort():
                self._participant.abort(member, ask.round)
                return Done()
        raise TypeError(f"not a step of a round: {ask!r}")

    def _about_leader(
        self, peer: DomainName, member: GroupJob, ask: LeaderStatus | LeaderStarted
    ) -> AnyReply:
        group = member.group
        if group.timing is not Timing.AFTER:
            return Refused("the group has no leader")
        if isinstance(ask, LeaderStarted):
            if peer != group.leader:
                return Refused(f"{peer} is not the leader of the group")
            self._ready.leader_started(member, ask.age_ns, over=ask.over)
            return Done()
        if member.stage is Stage.RUNNING:
            return Running(self._state.now_ns - member.since_ns)
        return Over() if member.stage is Stage.OVER else NotReady(Cause.UNSUBMITTED)

    def _has_group(self, member: GroupJob, name: DomainName) -> None:
        """Records that a domain has a job of the group by now."""
        member.past.unknown_since.pop(name, None)
        if name in member.turn.without:
            member.turn.without.remove(name)

    # --- answers --------------------------------------------------------------------------

    def answered(self, opened: Open, reply: AnyReply | None) -> None:
        """Handles the answer to a question of this domain; None: the other is down."""
        member = None if opened.job is None else self._jobs.get(opened.job)
        if member is None:
            return
        if isinstance(reply, Refused) and member.stage not in (Stage.RUNNING, Stage.OVER):
            dispute = GroupDisputed(member.number, opened.to, reply.reason)
            self._jobs.commands.append(dispute)
        if reply is not None:
            member.past.down_since.pop(opened.to, None)
        if not isinstance(reply, Unknown | Recovering | Refused | None):
            self._has_group(member, opened.to)
        ask = opened.question.ask
        match ask:
            case Announce() if isinstance(reply, Known):
                member.past.mates[opened.to] = reply.job
            case Ready():
                self._joined(member, opened, reply)
            case Reserve():
                self._coordinator.took(member, opened.to, ask.round, reply)
            case Prepare():
                self._coordinator.took_prepared(member, opened.to, ask.round, reply)
            case Go():
                self._coordinator.confirmed(member, opened.to, ask.round)
            case Outcome() if isinstance(reply, Decided):
                self._participant.go(member, ask.round, reply.addresses)
            case Outcome() if isinstance(reply, Aborted | Unknown | Refused):
                self._participant.abort(member, ask.round)
            case Departed():
                member.past.unconfirmed.remove(opened.to)
            case LeaderStatus() if member.turn.asking == opened.question.number:
                self._ready.took_leader(member, reply)

    def _joined(self, member: GroupJob, opened: Open, reply: AnyReply | None) -> None:
        """Handles the coordinator's answer to a ready job."""
        if member.turn.asking != opened.question.number:
            return
        member.turn.asking = None
        if not member.stage.has_nodes or member.turn.round is not None:
            return
        name = opened.to
        if isinstance(reply, Joined) and self._may_join(member, name, reply):
            self._participant.join(member, reply.round)
        elif isinstance(reply, NotReady):
            self._ready.wait(member, reply.cause, name)
        elif isinstance(reply, Refused):
            self._ready.wait(member, Cause.REFUSED, name)
        elif isinstance(reply, Recovering):
            self._ready.wait(member, Cause.RECOVERING, name)
        elif isinstance(reply, Joined):
            self._ready.wait(member, Cause.BUSY, name)
        else:
            # Another domain coordinates, or this one.
            if reply is not None:
                member.turn.without.append(name)
            self._coordinator.consider(member)

    def _may_join(self, member: GroupJob, name: DomainName, reply: Joined) -> bool:
        """Returns whether a round goes on, and is one of the domain that names it."""
        if reply.round[0] != name:
            self._state.counts.dropped += 1
            return False
        return not member.past.is_over(reply.round)
