"""Carries out the steps of a round for this domain's job: reserve, prepare, go, abort.

The coordinator may be another domain or this one. ``respond`` passes each result on, to
whom it is owed. A prepared job has promised to wait for the decision for ``doubt_ns``. If
it does not come, the job asks for it (``Outcome``) until that time is over.
"""

from __future__ import annotations

from collections.abc import Callable

from cosched.core.cluster.coupling.departures import depart
from cosched.core.cluster.coupling.engine_messages import JobNotReady, Why
from cosched.core.cluster.coupling.groups import Timing
from cosched.core.cluster.coupling.jobs import Jobs
from cosched.core.cluster.coupling.mail.post import Post
from cosched.core.cluster.coupling.mate_messages import (
    Addresses,
    AnyReply,
    Cause,
    Lapsed,
    NotReady,
    Outcome,
    Over,
    Prepared,
    Promised,
    Reserved,
    RoundId,
    Running,
    Went,
)
from cosched.core.cluster.coupling.settings import WhenDown
from cosched.core.cluster.coupling.state import GroupJob, Owed, Stage, is_until
from cosched.core.times import earliest


class Participant:
    """This domain's jobs in rounds.

    respond: takes an answer and its receiver. on_left: gets a job that was ready by
    itself, and still has its nodes, when its round has failed.
    """

    def __init__(
        self,
        jobs: Jobs,
        post: Post,
        respond: Callable[[GroupJob, Owed, AnyReply], None],
        on_left: Callable[[GroupJob], None],
    ) -> None:
        self._jobs = jobs
        self._state = jobs.state
        self._post = post
        self._respond = respond
        self._on_left = on_left

    # --- orders of the coordinator --------------------------------------------------------

    def reserve(self, member: GroupJob, round_id: RoundId, owed: Owed) -> None:
        """Gives a job nodes for a round, if it can have them now.

        A refusal leaves an answer that is owed to another question as it is.
        """
        refusal = self._refusal(member, round_id)
        if refusal is not None:
            self._respond(member, owed, refusal)
            return
        if member.turn.round != round_id and is_until(member.turn.round, round_id):
            self._leave(member)  # the coordinator has given up that round
        member.turn.owed = owed
        self._reserve_now(member, round_id)

    def _refusal(self, member: GroupJob, round_id: RoundId) -> AnyReply | None:
        """Returns why a job cannot have nodes for a round; None if it may."""
        if member.stage is Stage.OVER:
            return Over()
        if member.stage is Stage.RUNNING:
            return Running(self._state.now_ns - member.since_ns)
        if member.past.is_over(round_id) or self._in_other_round(member, round_id):
            return NotReady(Cause.BUSY)
        if member.stage is Stage.UNSUBMITTED:
            return NotReady(Cause.UNSUBMITTED)
        turn = member.turn
        if turn.starting or (member.stage is Stage.PREPARED and turn.round is None):
            return Running(0)  # it begins without its mates
        if turn.round == round_id and not member.stage.has_nodes:
            return NotReady(Cause.BUSY)  # it prepares for this round already
        return None

    def _in_other_round(self, member: GroupJob, round_id: RoundId) -> bool:
        """Returns whether a round of another coordinator has the job, and keeps it.

        A job that only has nodes for a round leaves it for one of another domain that the
        group prefers as coordinator (see ``Coordinator.give_way``). For a round of its own
        domain it does not: that round has no answers of the other jobs yet.
        """
        turn = member.turn
        rounds = (turn.round, turn.trying, turn.promised)
        others = [each for each in rounds if each is not None and each[0] != round_id[0]]
        theirs = round_id[0] != self._state.name
        if theirs and member.stage.has_nodes and others == [turn.round]:
            return member.group.prefers(others[0][0], round_id[0])
        return bool(others)

    def _reserve_now(self, member: GroupJob, round_id: RoundId) -> None:
        member.past.note_round(round_id)
        if member.stage.has_nodes:
            self.join(member, round_id)
            self._answer(member, Reserved(round_id))
        elif member.turn.promised is not None:
            self._answer(member, NotReady(Cause.BUSY))
        else:
            self._jobs.try_(member, round_id)

    def got_nodes(self, member: GroupJob) -> None:
        """Handles the success of TryJob: the job has nodes."""
        round_id, member.turn.trying = member.turn.trying, None
        if round_id is not None:
            self.join(member, round_id)
            self._answer(member, Reserved(round_id))

    def got_no_nodes(self, member: GroupJob, result: JobNotReady) -> None:
        """Handles the failure of TryJob; the job may promise to start in time."""
        round_id, member.turn.trying = member.turn.trying, None
        self._state.counts.tries_refused += 1
        if round_id is None:
            return
        if self._may_promise(member, result.expected_ns):
            self._state.counts.promises += 1
            self._jobs.promise(member, round_id, self._pin_end())
            self._answer(member, Promised(round_id))
            return
        busy = result.passing or self._jobs.others_busy(member)
        self._state.counts.busy += busy
        self._answer(member, NotReady(Cause.BUSY if busy else Cause.NODES))

    def _may_promise(self, member: GroupJob, expected_ns: int | None) -> bool:
        """Returns whether a start within the group's time is safe.

        There is one promise at a time, because backfill protects only the first job of the
        queue. There is none while another job of a group has nodes and has not begun,
        because their release time is unknown."""
        group = member.group
        if group.timing is not Timing.WITHIN or not group.delay_ns or expected_ns is None:
            return False
        if self._jobs.promised or self._jobs.has_nodes:
            return False
        return expected_ns <= self._state.now_ns + group.delay_ns

    def prepare(self, member: GroupJob, round_id: RoundId, owed: Owed) -> None:
        """Prepares a job that has nodes for this round."""
        if not member.stage.has_nodes or not self._may_prepare(member, round_id):
            self._respond(member, owed, NotReady(Cause.BUSY))
            return
        member.turn.owed = owed
        member.turn.round = round_id
        member.past.note_round(round_id)
        member.turn.pin_ns = None
        self._jobs.set_dates(member, retry_ns=None)
        self._post.withdraw(member.turn.asking)
        self._jobs.prepare(member)

    def _may_prepare(self, member: GroupJob, round_id: RoundId) -> bool:
        if member.past.is_over(round_id) or self._in_other_round(member, round_id):
            return False
        return member.turn.round in (None, round_id) or member.turn.round[0] != round_id[0]

    def prepared(self, member: GroupJob, address: str) -> None:
        """Votes for the start of a job that is prepared."""
        self._jobs.prepared(member, address)
        if member.turn.starting or member.turn.round is None:
            # With the addresses of an earlier decision, or none.
            self._jobs.go(member, member.past.addresses)
            return
        doubt_ns = self._jobs.settings.patience.doubt_ns
        member.turn.vote_ns = self._state.now_ns + doubt_ns
        self._answer(member, Prepared(member.turn.round, doubt_ns, address))

    def go(self, member: GroupJob, round_id: RoundId, addresses: Addresses) -> AnyReply:
        """Begins the job of a round that goes; returns the answer."""
        if member.past.went == round_id:
            return Went()
        if member.stage is Stage.PREPARED and member.turn.round == round_id:
            self._post.withdraw_about(member, Outcome)
            self._jobs.go(member, addresses)
            return Went()
        if member.turn.promised == round_id:
            self._post.withdraw_about(member, Outcome)
            member.turn.promised = member.turn.pin_ns = None
            member.past.went = round_id
            member.past.addresses = addresses
            promise_ns = self._state.now_ns + member.group.delay_ns
            self._jobs.set_dates(member, promise_ns=promise_ns)
            member.aside = -1
            if member.stage.has_nodes:
                member.turn.starting = True
                self._jobs.prepare(member)
            else:
                self._jobs.want_pass()
            return Went()
        self._state.counts.lapsed += 1
        return Lapsed()

    def abort(self, member: GroupJob, round_id: RoundId) -> None:
        """Removes a job from a round that has failed. It keeps a hold of its own."""
        member.past.note_failed(round_id)
        if is_until(member.turn.trying, round_id):
            member.turn.trying = member.turn.owed = None
        if is_until(member.turn.promised, round_id):
            self._post.withdraw_about(member, Outcome)
            member.turn.promised = member.turn.pin_ns = member.turn.owed = None
            if member.stage is Stage.READY and member.turn.round is None:
                self._on_left(member)
        if is_until(member.turn.round, round_id):
            self._leave(member)

    def _leave(self, member: GroupJob) -> None:
        """Removes a job from its round. If it has asked a coordinator, the answer decides
        its next step."""
        member.turn.owed = None
        self._post.withdraw_about(member, Outcome)
        if member.keeps_nodes:
            member.turn.round = member.turn.pin_ns = None
            if member.turn.asking is None:
                self._on_left(member)
        else:
            self._jobs.release(member, Why.ROUND)

    # --- time -----------------------------------------------------------------------------

    def tick(self, member: GroupJob) -> None:
        """Leaves a round whose next step does not come; asks for a missing decision."""
        now_ns = self._state.now_ns
        if member.turn.pin_ns is not None and now_ns >= member.turn.pin_ns:
            member.turn.pin_ns = None
            pinned = member.turn.round or member.turn.promised
            if pinned is not None:
                self.abort(member, pinned)
        vote_ns, round_id = member.turn.vote_ns, _undecided(member)
        if round_id is None:
            return
        if vote_ns is not None and now_ns >= vote_ns:
            self._end_doubt(member)
        elif (
            round_id[0] != self._state.name
            and now_ns >= member.since_ns + self._jobs.settings.patience.resend_ns
            and not any(
                opened.job == member.number and isinstance(opened.question.ask, Outcome)
                for opened in self._state.questions.values()
            )
        ):
            self._state.counts.doubts += 1
            self._post.ask(round_id[0], member, Outcome(round_id))

    def _end_doubt(self, member: GroupJob) -> None:
        """Applies the policy for a domain that is down: the decision has not come."""
        self._post.withdraw_about(member, Outcome)
        if self._jobs.settings.when_down is WhenDown.YIELD:
            member.turn.owed = None
            self._jobs.release(member, Why.DOUBT)
            return
        assert member.turn.round is not None
        member.past.alone = f"{member.turn.round[0]} did not report its decision"
        self._state.counts.started_alone += 1
        self._jobs.go(member, ())
        depart(self._post, member, member.group.others(self._state.name))

    def wake_ns(self, member: GroupJob) -> int | None:
        """Returns when ``tick`` has work for this job."""
        turn, round_id, ask_ns = member.turn, _undecided(member), None
        if round_id is not None and round_id[0] != self._state.name:
            ask_ns = member.since_ns + self._jobs.settings.patience.resend_ns
            if ask_ns <= self._state.now_ns:
                ask_ns = None
        return earliest((turn.pin_ns, turn.vote_ns, ask_ns))

    def join(self, member: GroupJob, round_id: RoundId) -> None:
        """Keeps a job with nodes for the next step of a round."""
        member.turn.round = round_id
        member.past.note_round(round_id)
        member.turn.pin_ns = self._pin_end()

    def _pin_end(self) -> int:
        return self._state.now_ns + self._jobs.settings.patience.prepare_ns

    def _answer(self, member: GroupJob, reply: AnyReply) -> None:
        owed, member.turn.owed = member.turn.owed, None
        if owed is not None:
            self._respond(member, owed, reply)


def _undecided(member: GroupJob) -> RoundId | None:
    """Returns the round whose decision a job waits for, because it has voted or promised
    its start."""
    if member.turn.vote_ns is None:
        return member.turn.promised
    return member.turn.round
