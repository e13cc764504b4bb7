"""Decides about a ready job with mates: ask them, start, hold, or yield for a pause.

This is Algorithm 1 of Tang et al. (IPDPS 2011) with the paper's remote calls replaced by a
round of the group's jobs (``rounds``):

    all mates can start          they are prepared and begin together      lines 5 to 15
    a mate is not ready          hold or yield, by the scheme              lines 16 to 24
    a mate is over or runs       it is not waited for                      line 25
    its domain is down           start, hold for a time, or yield          lines 34 to 36
    its domain has no such job   wait ``unknown_ns``, then start           lines 34 to 36

A follower (``Timing.AFTER``) starts alone, once its leader has run long enough. A job that
promised its start does not ask any more.
"""

from __future__ import annotations

from zlib import crc32

from cosched.core.cluster.coupling.departures import depart
from cosched.core.cluster.coupling.engine_messages import Why
from cosched.core.cluster.coupling.groups import DomainName, Timing
from cosched.core.cluster.coupling.jobs import Jobs
from cosched.core.cluster.coupling.mail.post import Post
from cosched.core.cluster.coupling.mate_messages import (
    AnyReply,
    Cause,
    LeaderStarted,
    LeaderStatus,
    NotReady,
    Over,
    Ready,
    Recovering,
    Refused,
    Running,
    Unknown,
)
from cosched.core.cluster.coupling.settings import Scheme, WhenDown
from cosched.core.cluster.coupling.state import GroupJob, Stage
from cosched.core.times import earliest

#: Causes that pass without an event in this domain's queue.
PASSES = (Cause.BUSY, Cause.DOWN, Cause.UNKNOWN, Cause.RECOVERING, Cause.FAILED)


class ReadyJobs:
    """Decides for jobs here that hold nodes and wait for mates."""

    def __init__(self, jobs: Jobs, post: Post) -> None:
        self._jobs = jobs
        self._state = jobs.state
        self._post = post

    def coordinator(self, member: GroupJob) -> DomainName:
        """Returns the domain that should coordinate a job's group now: the first that
        answers and has the group."""
        for name in member.group.coordinators:
            if name == self._state.name:
                break
            if not self._post.is_down(name) and name not in member.turn.without:
                return name
        return self._state.name

    def ask_coordinator(self, member: GroupJob, name: DomainName) -> None:
        """Asks another domain for a round."""
        member.past.asked += 1
        member.turn.asking = self._post.ask(name, member, Ready(member.older_ns))

    def ask_leader(self, member: GroupJob) -> None:
        """Asks the leader's domain whether a follower may start."""
        group = member.group
        member.past.asked += 1
        if member.dates.due_ns is not None and self._state.now_ns >= member.dates.due_ns:
            self.start(member)
        else:
            member.turn.asking = self._post.ask(group.leader, member, LeaderStatus())

    def start(self, member: GroupJob, alone: str = "") -> None:
        """Starts a job that has nodes, without waiting for its mates any more."""
        if alone:
            member.past.alone = alone
            self._state.counts.started_alone += 1
        promise_ns = member.dates.promise_ns
        if promise_ns is not None and self._state.now_ns > promise_ns:
            self._state.counts.promises_broken += 1
        member.turn.starting = True
        self._jobs.prepare(member)

    def end(self, member: GroupJob) -> None:
        """Ends a job, and reports that to jobs that may wait for it."""
        began = member.stage is Stage.RUNNING
        self._jobs.end(member)
        self.tell_followers(member, over=True)
        if not began:
            depart(self._post, member, member.group.others(self._state.name))

    def absent(
        self, member: GroupJob, domain: DomainName, reply: AnyReply | None
    ) -> str | None:
        """Returns the reason to start without this mate; None: the job must wait for it.
        reply None: the mate's domain is down."""
        settings, now_ns = self._jobs.settings, self._state.now_ns
        if isinstance(reply, Running | Over):
            return ""
        if isinstance(reply, Unknown):
            limit_ns, since = settings.unknown_ns, member.past.unknown_since
            reason = f"{domain} does not have its group"
        elif reply is None and settings.when_down is not WhenDown.YIELD:
            holds = settings.when_down is WhenDown.HOLD
            limit_ns, since = settings.down_hold_ns if holds else 0, member.past.down_since
            reason = f"{domain} does not answer"
        else:
            return None
        return reason if now_ns >= since.setdefault(domain, now_ns) + limit_ns else None

    def wait(self, member: GroupJob, cause: Cause, domain: DomainName) -> None:
        """Decides how a job with nodes waits for its mates: it holds or yields."""
        settings = self._jobs.settings
        member.turn.asking = None
        member.past.cause, member.past.cause_at = cause, domain
        is_ready = member.stage is Stage.READY
        if cause is Cause.REFUSED or (is_ready and self._yields_while_down(cause)):
            self._yield(member)
        elif is_ready:
            down = cause is Cause.DOWN and settings.when_down is WhenDown.HOLD
            self._hold_or_yield(member, Scheme.HOLD if down else settings.scheme)
        if cause in PASSES:
            dates = member.dates
            retry_ns = earliest((dates.retry_ns, self._retry_ns(member, cause, domain)))
            rest_ns = None if dates.rest_ns is None else retry_ns
            self._jobs.set_dates(member, retry_ns=retry_ns, rest_ns=rest_ns)

    def _yields_while_down(self, cause: Cause) -> bool:
        return cause is Cause.DOWN and self._jobs.settings.when_down is WhenDown.YIELD

    def _retry_ns(self, member: GroupJob, cause: Cause, domain: DomainName) -> int:
        """Returns when to ask again."""
        settings, now_ns = self._jobs.settings, self._state.now_ns
        retry_ns = now_ns + self._spread(member, settings.patience.retry_ns)
        if cause is Cause.UNKNOWN:
            limit_ns, since = settings.unknown_ns, member.past.unknown_since
        else:
            limit_ns, since = settings.down_hold_ns, member.past.down_since
        due_ns = since.get(domain, now_ns) + limit_ns
        return min(retry_ns, due_ns) if domain in since and due_ns > now_ns else retry_ns

    def _spread(self, member: GroupJob, least_ns: int) -> int:
        """Returns a time from ``least_ns`` to twice as much. It differs between domains
        that got into each other's way, and from one time to the next."""
        past = member.past
        word = f"{self._state.name}/{member.number}/{past.asked}/{past.yields}"
        return least_ns + least_ns * (crc32(word.encode()) % 1000) // 1000

    def _hold_or_yield(self, member: GroupJob, scheme: Scheme) -> None:
        settings, counts = self._jobs.settings, self._state.counts
        by_cap = (
            scheme is Scheme.YIELD
            and settings.yield_cap is not None
            and member.past.yields >= settings.yield_cap
        )
        holds = scheme is Scheme.HOLD or by_cap
        if holds and self._jobs.promised:
            holds = False
        elif holds and (
            self._jobs.held + member.size > settings.held_cap * self._state.capacity
        ):
            counts.yields_by_held_cap += 1
            holds = False
        elif holds and self._displaces_older(member):
            counts.yields_to_older += 1
            holds = False
        if holds:
            counts.holds_by_yield_cap += by_cap
            self._jobs.hold(member)
        else:
            self._yield(member)

    def _displaces_older(self, member: GroupJob) -> bool:
        """Returns whether nodes were just released, and an older group's job may want
        them."""
        settings, state = self._jobs.settings, self._state
        if not settings.older_first or state.released_ns is None:
            return False
        if state.now_ns >= state.released_ns + settings.pause_ns:
            return False
        return any(
            other.stage is Stage.QUEUING
            and not self._jobs.leaves_out(other)
            and other.rank < member.rank
            for other in self._jobs.waiting.values()
        )

    def _yield(self, member: GroupJob) -> None:
        member.past.yields += 1
        member.aside = self._state.epoch
        rest_ns = self._jobs.settings.rest_ns
        if rest_ns:
            rest_ns = self._state.now_ns + self._spread(member, rest_ns)
        self._jobs.set_dates(member, rest_ns=rest_ns or None)
        self._state.counts.yields += 1
        self._jobs.release(member, Why.YIELD)

    # --- leaders and followers ------------------------------------------------------------

    def took_leader(self, member: GroupJob, reply: AnyReply | None) -> None:
        """Decides about a follower by the state of its leader."""
        leader, now_ns = member.group.leader, self._state.now_ns
        member.turn.asking = None
        if isinstance(reply, Running):
            due_ns = now_ns - reply.age_ns + member.group.delay_ns
            if now_ns < due_ns:
                self._not_due(member, due_ns)
                return
        elif isinstance(reply, NotReady | Recovering | Refused):
            self._not_due(member, None)
            return
        alone = self.absent(member, leader, reply)
        if alone is None:
            self.wait(member, Cause.DOWN if reply is None else Cause.UNKNOWN, leader)
        else:
            self.start(member, alone)

    def _not_due(self, member: GroupJob, due_ns: int | None) -> None:
        self._state.counts.not_due += 1
        self._jobs.set_dates(member, due_ns=due_ns)
        member.past.cause, member.past.cause_at = Cause.UNSUBMITTED, member.group.leader
        member.aside = self._state.epoch
        self._jobs.release(member, Why.NOT_DUE)

    def leader_started(self, member: GroupJob, age_ns: int, *, over: bool) -> None:
        """Records in a follower's domain that the leader runs."""
        now_ns = self._state.now_ns
        due_ns = now_ns if over else now_ns - age_ns + member.group.delay_ns
        self._jobs.set_dates(member, due_ns=max(due_ns, now_ns))
        if member.stage is Stage.QUEUING:
            self._jobs.offer(member)

    def tell_followers(self, member: GroupJob, *, over: bool = False) -> None:
        """Reports to the domains of a leader's followers that it runs, or has ended."""
        group = member.group
        if group.timing is not Timing.AFTER or group.leader != self._state.name:
            return
        self._post.withdraw_about(member, LeaderStarted)
        age_ns = 0 if over else self._state.now_ns - member.since_ns
        for name in group.others(self._state.name):
            self._post.ask(name, member, LeaderStarted(age_ns, over))
