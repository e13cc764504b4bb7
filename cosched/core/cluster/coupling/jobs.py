"""Changes the stages of this domain's jobs of groups, and orders the engine accordingly.

Makes no decisions. ``Jobs`` is the one place that changes a stage, so that nodes are held,
released and counted alike on every path.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from msgspec.structs import replace

from cosched.core.cluster.coupling.engine_messages import (
    Command,
    GoJob,
    HoldJob,
    PassWanted,
    PrepareJob,
    ReleaseJob,
    TryJob,
    Why,
)
from cosched.core.cluster.coupling.groups import Group, GroupKey, GroupName, group_key
from cosched.core.cluster.coupling.mate_messages import Addresses, RoundId
from cosched.core.cluster.coupling.settings import CouplingSettings
from cosched.core.cluster.coupling.state import Dates, GroupJob, Stage, State, Turn
from cosched.core.cluster.queue.job import JobId
from cosched.core.errors import CoschedError

_NO_DATES = Dates()


class Jobs:
    """This domain's jobs of groups. waiting: jobs that queue or have nodes, by submission.
    placed: those of them that have nodes. dated: all jobs that have dates.

    commands: for the driver, not handed out yet. todo: what must still be done about the
    present event; always empty between events.
    """

    def __init__(self, state: State, settings: CouplingSettings) -> None:
        self.state = state
        self.settings = settings
        self.commands: list[Command] = []
        self.todo: deque[Callable[[], None]] = deque()
        members = state.members.items()
        self.waiting = {number: member for number, member in members if member.waits}
        self.placed = {
            number: member
            for number, member in self.waiting.items()
            if member.stage is not Stage.QUEUING
        }
        self.dated = {number: each for number, each in members if each.dates != _NO_DATES}
        self._promising = {  # also some that have no promise any more
            number: member for number, member in members if member.turn.promised is not None
        }
        self._named: dict[GroupName, list[JobId]] = {}
        for number, member in members:
            self._named.setdefault(member.group.name, []).append(number)
        over = [each for each in state.members.values() if each.stage is Stage.OVER]
        over.sort(key=lambda member: member.since_ns)
        self._over: dict[JobId, None] = {member.number: None for member in over}

    # --- finding --------------------------------------------------------------------------

    def get(self, number: JobId) -> GroupJob | None:
        """Returns a job of a group; None if it is not one."""
        return self.state.members.get(number)

    def of_group(self, key: GroupKey) -> GroupJob | None:
        """Returns this domain's job of a group, if there is one."""
        number = self.state.groups.get(key)
        return None if number is None else self.state.members[number]

    def named(self, name: GroupName) -> list[GroupJob]:
        """Returns this domain's jobs of groups of this name, one for each user."""
        return [self.state.members[number] for number in self._named.get(name, ())]

    def expect(self, number: JobId) -> GroupJob:
        """Returns a job of a group; raises CoschedError if it is none."""
        member = self.state.members.get(number)
        if member is None:
            raise CoschedError(f"job {number}: belongs to no group")
        return member

    @property
    def queuing(self) -> list[GroupJob]:
        """Returns the jobs that queue, by submission."""
        return [each for each in self.waiting.values() if each.stage is Stage.QUEUING]

    @property
    def held(self) -> int:
        """Returns the number of held nodes, which are idle."""
        return sum(
            member.size
            for member in self.placed.values()
            if member.stage is not Stage.READY
        )

    @property
    def has_nodes(self) -> bool:
        """Returns whether a job of a group has nodes and has not begun."""
        return bool(self.placed)

    @property
    def promised(self) -> bool:
        """Returns whether a job has promised its latest start."""
        jobs = (*self.dated.values(), *self.promising)
        return any(member.has_promised and member.waits for member in jobs)

    @property
    def promising(self) -> list[GroupJob]:
        """Returns the jobs that have promised their latest start to a round."""
        known = list(self._promising.values())
        for member in known:
            if member.turn.promised is None:
                del self._promising[member.number]
        return list(self._promising.values())

    def others_busy(self, member: GroupJob) -> bool:
        """Returns whether jobs of other groups have nodes only for a moment."""
        return any(
            other.stage in (Stage.READY, Stage.PREPARING) or other.turn.round is not None
            for other in self.placed.values()
            if other is not member
        )

    def leaves_out(self, member: GroupJob) -> bool:
        """Returns whether the next pass skips a queuing job."""
        if member.aside == self.state.epoch:
            return True
        dated = member.number in self.dated
        return dated and member.dates.may_start_ns > self.state.now_ns

    # --- changes --------------------------------------------------------------------------

    def announce(self, number: JobId, group: Group, user: str, wall_ns: int) -> GroupJob:
        """Adds a job. Raises CoschedError if it or its group has one here already."""
        state = self.state
        group.check(number, state.name)
        if number in state.members:
            raise CoschedError(f"job {number} belongs to a group already")
        other = state.groups.get(group_key(user, group.name))
        if other is not None:
            raise CoschedError(
                f"job {number} cannot join group '{group.name}': job {other} is in it; "
                "a group has one job in each domain, so choose another name"
            )
        member = GroupJob(number, group, group.digest, user, wall_ns, since_ns=state.now_ns)
        state.members[number] = member
        state.groups[member.key] = number
        self._named.setdefault(group.name, []).append(number)
        return member

    def queue(self, member: GroupJob, size: int) -> None:
        """Moves a job to the stage of queuing, in the engine's queue."""
        member.size = size
        self.lose(member)

    def ready(self, member: GroupJob, *, own: bool) -> None:
        """Moves a job to the stage of readiness: it has nodes. own: because it was its
        turn."""
        member.turn.own = own
        retry_ns = None if own else member.dates.retry_ns
        self.set_dates(member, rest_ns=None, retry_ns=retry_ns)
        if own and member.past.ready_ns is None:
            member.past.ready_ns = self.state.now_ns
        self._enter(member, Stage.READY)

    def offer(self, member: GroupJob) -> None:
        """Offers a queuing job to the next pass."""
        member.aside = -1
        self.set_dates(member, rest_ns=None)
        self.want_pass()

    def want_pass(self) -> None:
        """Orders a pass of the engine: the order of the queue has changed."""
        self.commands.append(PassWanted())

    def try_(self, member: GroupJob, round_id: RoundId) -> None:
        """Orders the engine to look for nodes now."""
        self.state.counts.tries += 1
        member.turn.trying = round_id
        self.set_dates(member, rest_ns=None)
        self.commands.append(TryJob(member.number))

    def promise(self, member: GroupJob, round_id: RoundId, until_ns: int | None) -> None:
        """Notes a job's promise to a round, and how long it waits for the decision."""
        member.turn.promised, member.turn.pin_ns = round_id, until_ns
        self._promising[member.number] = member

    def set_dates(self, member: GroupJob, **dates: int | None) -> None:
        """Changes dates of a job. None: it has no such date."""
        self._date(member, replace(member.dates, **dates))

    def _date(self, member: GroupJob, dates: Dates) -> None:
        member.dates = dates
        if dates == _NO_DATES:
            self.dated.pop(member.number, None)
        else:
            self.dated[member.number] = member

    def hold(self, member: GroupJob) -> None:
        """Holds a job: it keeps its nodes until its lease ends."""
        self.state.counts.holds += 1
        release_ns = self.settings.release_ns
        if release_ns is not None:
            # All holds end together, so that a job that needs the nodes of several can try.
            member.turn.lease_ns = (self.state.now_ns // release_ns + 1) * release_ns
        self._enter(member, Stage.HOLDING)
        self._ask_again(member)
        self.commands.append(HoldJob(member.number))

    def prepare(self, member: GroupJob) -> None:
        """Orders the engine to prepare a job."""
        member.turn.asking = None
        self._enter(member, Stage.PREPARING)
        self.commands.append(PrepareJob(member.number))

    def prepared(self, member: GroupJob, address: str) -> None:
        """Moves a job to the stage of prepared jobs."""
        member.past.address = address
        self._enter(member, Stage.PREPARED)

    def go(self, member: GroupJob, addresses: Addresses) -> None:
        """Orders the engine to begin a prepared job."""
        counts = self.state.counts
        counts.started += 1
        if member.past.ready_ns is not None:
            counts.sync_ns += self.state.now_ns - member.past.ready_ns
        member.past.went = member.turn.round or member.past.went
        member.past.addresses = addresses
        self.begin(member)
        self._date(member, _NO_DATES)
        self.commands.append(GoJob(member.number, addresses))

    def release(self, member: GroupJob, why: Why) -> None:
        """Frees the nodes of a job; it waits in the queue again."""
        if why is Why.LEASE:
            self.state.counts.releases += 1
            member.past.released_ns = self.state.released_ns = self.state.now_ns
        self._free(member, why)
        self.lost(member)

    def take_back(self, member: GroupJob) -> None:
        """Frees the nodes of a job after a restart; its vote or promise stays."""
        self._free(member, Why.ROUND)
        self.lose(member)

    def _free(self, member: GroupJob, why: Why) -> None:
        self.commands += [ReleaseJob(member.number, why), PassWanted()]

    def lost(self, member: GroupJob) -> None:
        """Returns a job that lost its nodes to the queue."""
        self._enter(member, Stage.QUEUING)
        self.waiting[member.number] = member
        member.turn = Turn()
        self._ask_again(member)

    def lose(self, member: GroupJob) -> None:
        """Notes that a job lost its nodes against its will. A vote that it gave to another
        domain stays as a promise: if that round goes, the job begins by it."""
        promise = self.promise_of(member)
        self.lost(member)
        if promise is not None:
            self.promise(member, *promise)

    def promise_of(self, member: GroupJob) -> tuple[RoundId, int | None] | None:
        """Returns the round of another domain to which a job has voted or promised its
        start, and until when; None: no such round."""
        turn = member.turn
        promise = (turn.promised, turn.pin_ns)
        if turn.vote_ns is not None:
            promise = (turn.round, turn.vote_ns)
        round_id, until_ns = promise
        if round_id is None or round_id[0] == self.state.name:
            return None
        return round_id, until_ns

    def _ask_again(self, member: GroupJob) -> None:
        """Makes a job ask again now if a mate has departed while it had nodes."""
        if member.past.mate_left:
            member.past.mate_left = False
            self.set_dates(member, retry_ns=self.state.now_ns)

    def end(self, member: GroupJob) -> None:
        """Ends a job."""
        self._enter(member, Stage.OVER)
        self._over[member.number] = None
        self.waiting.pop(member.number, None)
        member.turn = Turn()
        self._date(member, _NO_DATES)

    def over_before(self, limit_ns: int) -> list[GroupJob]:
        """Returns the jobs that were over at a time, and drops them from the list."""
        found = []
        for number in self._over:
            member = self.state.members[number]
            if member.since_ns > limit_ns:
                break
            found.append(member)
        for member in found:
            del self._over[member.number]
        return found

    def begin(self, member: GroupJob) -> None:
        """Records that a job runs, or is about to."""
        member.past.began = True
        self._enter(member, Stage.RUNNING)
        self.waiting.pop(member.number, None)
        member.turn = Turn()

    def forget(self, member: GroupJob) -> None:
        """Removes a job that was over long ago."""
        self.dated.pop(member.number, None)
        del self.state.members[member.number]
        del self.state.groups[member.key]
        self._over.pop(member.number, None)
        named = self._named[member.group.name]
        named.remove(member.number)
        if not named:
            del self._named[member.group.name]
        self.state.rounds.pop(member.key, None)
        self.state.decisions.pop(member.key, None)

    def _enter(self, member: GroupJob, stage: Stage) -> None:
        now_ns = self.state.now_ns
        self._over.pop(member.number, None)
        if self.placed.pop(member.number, None) is not None:
            self.state.counts.held_node_ns += (now_ns - member.since_ns) * member.size
        member.stage = stage
        member.since_ns = now_ns
        if member.waits and stage is not Stage.QUEUING:
            self.placed[member.number] = member
