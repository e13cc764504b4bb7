"""Changes the stages of this domain's jobs of groups, and orders the engine accordingly.

Makes no decisions. ``Jobs`` is the one place that changes a stage, so that nodes are held,
released and counted alike on every path.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

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


class Jobs:
    """This domain's jobs of groups. waiting: jobs that queue or have nodes, by submission.

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
            for member in self.waiting.values()
            if member.stage not in (Stage.QUEUING, Stage.READY)
        )

    @property
    def has_nodes(self) -> bool:
        """Returns whether a job of a group has nodes and has not begun."""
        return any(member.stage is not Stage.QUEUING for member in self.waiting.values())

    @property
    def promised(self) -> bool:
        """Returns whether a job has promised its latest start."""
        return any(member.has_promised for member in self.waiting.values())

    def others_busy(self, member: GroupJob) -> bool:
        """Returns whether jobs of other groups have nodes only for a moment."""
        return any(
            other.stage in (Stage.READY, Stage.PREPARING) or other.turn.round is not None
            for other in self.waiting.values()
            if other is not member
        )

    def leaves_out(self, member: GroupJob) -> bool:
        """Returns whether the next pass skips a queuing job."""
        state = self.state
        return member.aside == state.epoch or member.dates.may_start_ns > state.now_ns

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
                "a group has one job in each domain"
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
        member.dates.rest_ns = None
        if own:
            member.dates.retry_ns = None
        if own and member.past.ready_ns is None:
            member.past.ready_ns = self.state.now_ns
        self._enter(member, Stage.READY)

    def offer(self, member: GroupJob) -> None:
        """Offers a queuing job to the next pass."""
        member.aside = -1
        member.dates.rest_ns = None
        self.want_pass()

    def want_pass(self) -> None:
        """Orders a pass of the engine: the order of the queue has changed."""
        self.commands.append(PassWanted())

    def try_(self, member: GroupJob, round_id: RoundId) -> None:
        """Orders the engine to look for nodes now."""
        self.state.counts.tries += 1
        member.turn.trying = round_id
        member.dates.rest_ns = None
        self.commands.append(TryJob(member.number))

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
        member.dates = Dates()
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
            member.turn.promised, member.turn.pin_ns = promise

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
            member.dates.retry_ns = self.state.now_ns

    def end(self, member: GroupJob) -> None:
        """Ends a job."""
        self._enter(member, Stage.OVER)
        self._over[member.number] = None
        self.waiting.pop(member.number, None)
        member.turn = Turn()
        member.dates = Dates()

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
        if member.waits and member.stage is not Stage.QUEUING:
            self.state.counts.held_node_ns += (now_ns - member.since_ns) * member.size
        member.stage = stage
        member.since_ns = now_ns
