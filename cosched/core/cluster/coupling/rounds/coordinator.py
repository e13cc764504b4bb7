"""Runs the rounds of the groups whose coordinator this domain is.

A round begins when a job of the group is ready, here or elsewhere. Each other domain gets a
request for nodes. If all have them, all prepare; if all are prepared, the round is decided,
and all go. If one cannot, the round has failed: its jobs hold or yield.

The decision is stored before any message about it is sent. Until then the coordinator may
forget the round at any time, for example by a restart; then it has failed. A prepared job
waits ``doubt_ns`` for the decision. The coordinator decides within half of that time, so
half of it is left for Go to arrive.
"""

from __future__ import annotations

from collections.abc import Callable

from cosched.core.cluster.coupling.departures import depart
from cosched.core.cluster.coupling.groups import DomainName, GroupKey, Timing
from cosched.core.cluster.coupling.jobs import Jobs
from cosched.core.cluster.coupling.mail.post import Post
from cosched.core.cluster.coupling.mate_messages import (
    LONGEST_ADDRESS,
    Abort,
    Aborted,
    AnyReply,
    Cause,
    Decided,
    Go,
    Joined,
    NotReady,
    Prepare,
    Prepared,
    Promised,
    Recovering,
    Refused,
    Reserve,
    Reserved,
    RoundId,
    Undecided,
    Unknown,
)
from cosched.core.cluster.coupling.ready import ReadyJobs
from cosched.core.cluster.coupling.rounds.participant import Participant
from cosched.core.cluster.coupling.state import Decision, GroupJob, Owed, Round
from cosched.core.decoding import shown_text
from cosched.core.times import earliest


class Coordinator:
    """The rounds of this domain's groups. answer: gives an answer to another domain."""

    def __init__(
        self,
        jobs: Jobs,
        post: Post,
        participant: Participant,
        ready: ReadyJobs,
        answer: Callable[[Owed, AnyReply], None],
    ) -> None:
        self._jobs = jobs
        self._state = jobs.state
        self._post = post
        self._participant = participant
        self._ready = ready
        self._answer = answer

    # --- the begin of a round -------------------------------------------------------------

    def consider(self, member: GroupJob) -> None:
        """Decides about a job of this domain that has nodes."""
        group = member.group
        if member.turn.promised is not None:
            return  # it waits for the decision about its round
        if not self._jobs.settings.enabled or member.dates.promise_ns is not None:
            self._ready.start(member)
        elif group.timing is Timing.AFTER:
            if group.leader == self._state.name:
                self._ready.start(member)
            else:
                self._ready.ask_leader(member)
        else:
            coordinator = self._ready.coordinator(member)
            if coordinator == self._state.name:
                self._own_ready(member)
            else:
                self._ready.ask_coordinator(member, coordinator)

    def _own_ready(self, member: GroupJob) -> None:
        """Begins a round for a job of this domain that has nodes, or joins one."""
        state = self._state
        member.past.asked += 1
        current = state.rounds.get(member.key)
        if current is None:
            current = self._begin(member)
            current.asked.append(state.name)
        if not current.preparing and state.name not in current.reserved:
            member.turn.round = current.id
            member.past.note_round(current.id)
            current.reserved.append(state.name)
            self._ask_others(current, member)

    def ready(self, member: GroupJob, by: DomainName, owed: Owed) -> None:
        """Begins a round because the job of another domain has nodes, or lets it join."""
        going = self._going(member.key)
        if by in going:
            self._answer(owed, Joined(going[by]))
            return
        current = self._state.rounds.get(member.key)
        if current is None:
            current = self._begin(member)
        elif current.preparing:
            joins = by in current.reserved
            self._answer(owed, Joined(current.id) if joins else NotReady(Cause.BUSY))
            return
        current.ready[by] = owed
        if by not in current.asked:
            current.asked.append(by)
        current.absent.pop(by, None)  # its domain is back, or has the group by now
        if by not in current.reserved:
            current.reserved.append(by)
        if self._state.name not in current.asked:
            current.asked.append(self._state.name)
            self._participant.reserve(member, current.id, self._own(current))
        else:
            self._advance(current, member)

    def _going(self, key: GroupKey) -> dict[DomainName, RoundId]:
        """Returns the decided rounds by the domains that have not confirmed theirs."""
        decisions = self._state.decisions.get(key, ())
        return {name: each.id for each in decisions for name in each.open}

    def _begin(self, member: GroupJob) -> Round:
        state = self._state
        number = state.next_number
        state.next_number += 1
        state.counts.rounds += 1
        round_id = (state.name, state.incarnation, number)
        key = member.key
        current = state.rounds[key] = Round(round_id, key, state.now_ns)
        return current

    def _own(self, current: Round) -> Owed:
        return Owed(*current.id)

    def _ask_others(self, current: Round, member: GroupJob) -> None:
        """Asks the domains that were not asked yet, once this domain's job has nodes.

        The round does not wait for a job that has to go by an earlier decision. This domain
        must not ask that job: it would assume that the decided round was given up."""
        going = self._going(member.key)
        for name in member.group.members:
            if name in current.asked:
                continue
            current.asked.append(name)
            if name in going:
                current.absent[name] = ""
            else:
                current.invited.append(name)
                self._post.ask(name, member, Reserve(current.id, member.older_ns))
        self._advance(current, member)

    # --- answers --------------------------------------------------------------------------

    def took(
        self,
        member: GroupJob,
        domain: DomainName,
        round_id: RoundId,
        reply: AnyReply | None,
    ) -> None:
        """Handles the answer to Reserve, of a member or of this domain's own job. reply
        None: the domain is down."""
        current = self._state.rounds.get(member.key)
        if current is None or current.id != round_id or current.preparing:
            return
        if domain in current.reserved and not isinstance(reply, Reserved | Promised):
            return  # it has become ready since
        if isinstance(reply, Reserved):
            if domain not in current.reserved:
                current.reserved.append(domain)
        elif isinstance(reply, Promised):
            current.promised.append(domain)
        else:
            alone = self._ready.absent(member, domain, reply)
            if alone is None:
                current.asked.remove(domain)
                self._fail(current, member, _cause(reply), domain)
                return
            current.absent[domain] = alone
        if domain == self._state.name:
            self._ask_others(current, member)
        else:
            self._advance(current, member)

    def _advance(self, current: Round, member: GroupJob) -> None:
        """Orders all jobs to prepare once all have nodes."""
        asked_all = len(current.asked) == len(member.group.members)
        if current.preparing or current.awaited or not asked_all:
            return
        if not current.reserved:
            self._fail(current, member, Cause.NODES, self._state.name)
            return
        current.preparing = True
        current.began_ns = self._state.now_ns
        for owed in current.ready.values():
            self._answer(owed, Joined(current.id))
        for name in current.reserved:
            if name != self._state.name:
                self._post.ask(name, member, Prepare(current.id))
        if self._state.name in current.reserved:
            self._participant.prepare(member, current.id, self._own(current))

    def took_prepared(
        self,
        member: GroupJob,
        domain: DomainName,
        round_id: RoundId,
        reply: AnyReply | None,
    ) -> None:
        """Handles the answer to Prepare, of a member or of this domain's own job. reply
        None: the domain is down."""
        current = self._state.rounds.get(member.key)
        if current is None or current.id != round_id:
            return
        if not isinstance(reply, Prepared):
            if domain in current.reserved:
                current.reserved.remove(domain)
            self._fail(current, member, _cause(reply), domain)
            return
        short = reply.address.encode()[:LONGEST_ADDRESS]  # a longer one is of a wrong peer
        current.prepared[domain] = shown_text(short).rstrip("\ufffd")
        if len(current.prepared) < len(current.reserved):
            return
        late_ns = current.began_ns + self._jobs.settings.patience.doubt_ns // 2
        if self._state.now_ns > late_ns:
            self._fail(current, member, Cause.DOWN, domain)
            return
        self._decide(current, member)

    # --- the end of a round ---------------------------------------------------------------

    def _decide(self, current: Round, member: GroupJob) -> None:
        state = self._state
        addresses = tuple(sorted(current.prepared.items()))
        going = [*current.reserved, *current.promised]
        others = [name for name in going if name != state.name]
        state.counts.gone += 1
        if others:
            decision = Decision(current.id, addresses, others)
            state.decisions.setdefault(current.group, []).append(decision)
        del state.rounds[current.group]
        self._post.withdraw_about(member, Reserve, Prepare)
        left = {name: why for name, why in current.absent.items() if why}
        if left:
            member.past.alone = "; ".join(sorted(set(left.values())))
            state.counts.started_alone += 1
        for name in others:
            self._post.ask(name, member, Go(current.id, addresses))
        if state.name in going:
            self._participant.go(member, current.id, addresses)
        depart(self._post, member, left)

    def _fail(
        self, current: Round, member: GroupJob, cause: Cause, domain: DomainName
    ) -> None:
        """Ends a round that has failed because of the job of ``domain``."""
        self._end(current, member, cause)
        turn = member.turn
        if turn.round == current.id and member.keeps_nodes:
            member.past.note_failed(current.id)
            turn.round = turn.pin_ns = turn.owed = None
            self._ready.wait(member, cause, domain)
        else:
            self._participant.abort(member, current.id)

    def give_way(self, member: GroupJob, round_id: RoundId) -> None:
        """Ends a round of this domain: its group prefers another coordinator.

        Two domains may begin rounds of a group at the same time, each because it knew
        nothing of the other's job. Without this, each would refuse the other's round. The
        job keeps its nodes, and can join the other round.
        """
        current = self._state.rounds.get(member.key)
        if current is None or current.preparing or member.turn.round != current.id:
            return
        if member.past.is_over(round_id):
            return
        if member.group.prefers(round_id[0], self._state.name):
            self._end(current, member, Cause.BUSY)
            member.past.note_failed(current.id)
            member.turn.round = member.turn.pin_ns = None

    def _end(self, current: Round, member: GroupJob, cause: Cause) -> None:
        """Reports to the other domains of a round that it has failed."""
        state = self._state
        state.counts.rounds_failed += 1
        del state.rounds[current.group]
        waits = {*current.awaited, *current.reserved, *current.promised}
        for name in current.reserved if current.preparing else current.invited:
            if name != state.name and name in waits:
                self._post.ask(name, member, Abort(current.id))
        for owed in () if current.preparing else current.ready.values():
            self._answer(owed, NotReady(cause))
        self._post.withdraw_about(member, Reserve, Prepare)

    def confirmed(self, member: GroupJob, domain: DomainName, round_id: RoundId) -> None:
        """Removes a domain from a decision that it has carried out, or will not carry
        out."""
        open_ = self._state.decisions.get(member.key, [])
        for decision in open_:
            if decision.id == round_id and domain in decision.open:
                decision.open.remove(domain)
        if not any(decision.open for decision in open_):
            self._state.decisions.pop(member.key, None)

    def outcome(self, key: GroupKey, round_id: RoundId) -> AnyReply:
        """Returns what became of a round."""
        for decision in self._state.decisions.get(key, ()):
            if decision.id == round_id:
                return Decided(decision.addresses)
        current = self._state.rounds.get(key)
        if current is not None and current.id == round_id:
            return Undecided()
        return Aborted()

    def cancel(self, member: GroupJob) -> None:
        """Ends the round of a job that is over; the others ask again."""
        current = self._state.rounds.get(member.key)
        if current is not None:
            self._fail(current, member, Cause.FAILED, self._state.name)

    def is_asked(self, key: GroupKey, owed: Owed) -> bool:
        """Returns whether this Ready question is open in a round."""
        current = self._state.rounds.get(key)
        return current is not None and owed in current.ready.values()

    # --- time -----------------------------------------------------------------------------

    def tick(self) -> None:
        """Ends rounds that take too long."""
        limit_ns = self._jobs.settings.patience.prepare_ns
        for current in list(self._state.rounds.values()):
            if self._state.now_ns >= current.began_ns + limit_ns:
                member = self._jobs.of_group(current.group)
                assert member is not None
                silent = current.awaited or [
                    name for name in current.reserved if name not in current.prepared
                ]
                self._fail(current, member, Cause.BUSY, silent[0])

    def wake_ns(self) -> int | None:
        """Returns when a round takes too long."""
        limit_ns = self._jobs.settings.patience.prepare_ns
        rounds = self._state.rounds.values()
        return earliest([each.began_ns + limit_ns for each in rounds])


def _cause(reply: AnyReply | None) -> Cause:
    if reply is None:
        return Cause.DOWN
    if isinstance(reply, NotReady):
        return reply.cause
    if isinstance(reply, Unknown):
        return Cause.UNKNOWN
    if isinstance(reply, Recovering):
        return Cause.RECOVERING
    return Cause.REFUSED if isinstance(reply, Refused) else Cause.BUSY
