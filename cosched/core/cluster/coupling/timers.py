"""Does what is due for jobs with mates: ends leases, asks again, orders the wake-up."""

from __future__ import annotations

from cosched.core.cluster.coupling.engine_messages import Why
from cosched.core.cluster.coupling.jobs import Jobs
from cosched.core.cluster.coupling.mail.post import Post
from cosched.core.cluster.coupling.mate_messages import LeaderStatus, Ready
from cosched.core.cluster.coupling.rounds.coordinator import Coordinator
from cosched.core.cluster.coupling.rounds.participant import Participant
from cosched.core.cluster.coupling.state import Dates, GroupJob, Stage
from cosched.core.cluster.queue.queue_commands import WakeAt
from cosched.core.times import earliest


class Timers:
    """The times of one domain."""

    def __init__(
        self,
        jobs: Jobs,
        post: Post,
        participant: Participant,
        coordinator: Coordinator,
    ) -> None:
        self._jobs = jobs
        self._state = jobs.state
        self._post = post
        self._participant = participant
        self._coordinator = coordinator

    def tick(self) -> None:
        """Does everything that is due."""
        state = self._state
        if state.wake_ns is not None and state.wake_ns <= state.now_ns:
            state.wake_ns = None  # this wake-up has come; the next one may be due at once
        if state.recovering:
            return
        self._post.tick()
        self._coordinator.tick()
        for member in list(self._jobs.waiting.values()):
            self._participant.tick(member)
            self._end_lease(member)
        self.retry()
        self.forget()
        self._state.ticked_ns = self._state.now_ns

    def forget(self) -> None:
        """Forgets the jobs that were over long ago."""
        limit_ns = self._state.now_ns - self._jobs.settings.patience.forget_ns
        for member in self._jobs.over_before(limit_ns):
            self._post.withdraw_all(member)
            self._jobs.forget(member)

    def _end_lease(self, member: GroupJob) -> None:
        """Releases the nodes of a job that has held for the release period."""
        lease_ns = _lease_ns(member)
        if lease_ns is not None and self._state.now_ns >= lease_ns:
            self._post.withdraw_about(member, Ready, LeaderStatus)
            self._state.epoch += 1
            self._jobs.release(member, Why.LEASE)

    def retry(self) -> None:
        """Makes jobs ask again if their time has come."""
        now_ns, ticked_ns = self._state.now_ns, self._state.ticked_ns
        for member in list(self._jobs.waiting.values()):
            due = ticked_ns < member.dates.may_start_ns <= now_ns
            again = member.dates.retry_ns is not None and now_ns >= member.dates.retry_ns
            if again:
                self._jobs.set_dates(member, retry_ns=None)
            if member.stage is Stage.QUEUING and (again or due):
                self._jobs.offer(member)
            elif again and member.is_idle:
                self._coordinator.consider(member)

    def wake_up(self) -> None:
        """Orders the next tick, in case no event comes before."""
        state, jobs = self._state, self._jobs
        times = [self._post.wake_ns(), self._coordinator.wake_ns()]
        for member in jobs.dated.values():
            if member.waits:
                times += [member.dates.retry_ns, self._may_start_ns(member.dates)]
        for member in (*jobs.placed.values(), *jobs.promising):
            times += [self._participant.wake_ns(member), _lease_ns(member)]
        wake_ns = None if state.recovering else earliest(times)
        if wake_ns is not None:
            wake_ns = max(wake_ns, state.now_ns)
        if wake_ns != state.wake_ns:
            state.wake_ns = wake_ns
            self._jobs.commands.append(WakeAt(wake_ns))

    def _may_start_ns(self, dates: Dates) -> int | None:
        """Returns when a job may get nodes by itself; None: a tick has seen that it may."""
        may_start_ns = dates.may_start_ns
        return may_start_ns if may_start_ns > self._state.ticked_ns else None


def _lease_ns(member: GroupJob) -> int | None:
    """Returns when a hold ends; None: the job does not hold, or is in a round."""
    holds = member.stage is Stage.HOLDING and member.turn.round is None
    return member.turn.lease_ns if holds else None
