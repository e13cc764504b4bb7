"""Connects the coupling of a domain with the jobs that Slurm queues and starts.

Slurm's events become events of the ``Coupling``; its commands become orders to Slurm. A job
that is ready in Slurm needs no further preparation.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from cosched.cluster.answers import ReloadInfo, reload_info
from cosched.cluster.coupling.domain_figures import Figures
from cosched.cluster.coupling.driver import Driver
from cosched.cluster.coupling.mates import first_nodes, group_of
from cosched.cluster.coupling.pairs import Pairs, objection
from cosched.cluster.engines.interface import Answer, Handler
from cosched.cluster.engines.slurm import events as live
from cosched.cluster.engines.slurm.events import PairedJob
from cosched.cluster.engines.slurm.steering import SlurmSteering
from cosched.cluster.member import until_one_ends
from cosched.cluster.message_kinds import Message
from cosched.cluster.paths import DomainPaths
from cosched.cluster.user_input import Inputs
from cosched.cluster.user_socket import Person
from cosched.config.restarts import CONTROLLER_ALONE
from cosched.config.slurm import CoupledConfig, Waits, coupled_config, load_coupled
from cosched.core.cluster.coupling.engine_messages import (
    CapacityChanged,
    Command,
    Found,
    GoJob,
    GroupDisputed,
    JobFailed,
    JobFound,
    JobNotReady,
    JobOver,
    JobPrepared,
    JobQueued,
    JobReady,
    JobRefused,
    JobStartedAlone,
    PassWanted,
    PrepareJob,
    ReleaseJob,
    TryJob,
    Why,
)
from cosched.core.cluster.coupling.mate_messages import LONGEST_ADDRESS
from cosched.core.cluster.coupling.state import GroupJob, Stage
from cosched.core.config.tables import reload
from cosched.core.errors import CoschedError
from cosched.core.units import NS_PER_S

#: After a restart jobs that had nodes get this time to report that they still have them.
RETURN_WITHIN_S = 3.0
_MOST_WAIT_S = 3600.0


class SlurmEngine:
    """The jobs with mates of one domain (``Engine``). log: takes one line for the
    operator."""

    unknown = "this domain answers only mates, reload and down; Slurm has its jobs"

    def __init__(
        self,
        config: CoupledConfig,
        slurm: SlurmSteering,
        pairs: Pairs,
        log: Callable[[str], None],
    ) -> None:
        self._config = config
        self.pairs: Pairs | None = pairs
        self._pairs = pairs
        self.metrics = config.metrics
        self.inputs = Inputs((), _send_to_no_agent)
        self.may_vouch: Callable[[Person], bool] = lambda _person: True  # of this machine
        self.handlers: dict[str, Handler] = {"down": self._down}
        self._stopped = asyncio.Event()
        self.driver = Driver(pairs.coupling, pairs.clock, self._carry_out, pairs)
        self._slurm = slurm
        self._log = log
        self._jobs: dict[int, PairedJob] = {}
        self._nodes: dict[int, str] = {}  # of jobs that are ready
        self._resting: dict[int, Why] = {}  # why jobs wait after they gave nodes back
        self._refused: dict[int, str] = {}
        self._early: list[live.Event] | None = []

    # --- for the controller ---------------------------------------------------------------

    def open(self, _answer: Answer) -> None:
        """Does nothing: Slurm's gates connect later, and its jobs are reported."""

    async def run(self) -> None:
        """Runs until the domain ends; see ``Engine``. The jobs stay in Slurm."""
        await until_one_ends(self._slurm.run(self.report), self._stopped.wait())

    def close(self) -> None:
        """Decides no more."""
        self.driver.close()

    def reload(self, paths: DomainPaths) -> ReloadInfo:
        """Reads domain.toml again; see ``Engine``. Holds keep their leases."""
        new = load_coupled(paths.config)
        change = reload(self._config.document, new.document, CONTROLLER_ALONE)
        self._config = coupled_config(change.config)
        self._pairs.configure(self._config)
        return reload_info(change)

    def figures(self) -> Figures:
        """Returns the present figures for Prometheus."""
        return self._pairs.figures()

    async def _down(self, _person: Person, _request: dict[str, Any]) -> Any:
        self._stopped.set()
        return {"ended_jobs": []}

    # --- events of Slurm ------------------------------------------------------------------

    def report(self, event: live.Event) -> None:
        """Handles an event of Slurm. Those before Slurm answers wait for that."""
        if self._early is None:
            self.driver.when_idle(partial(self._take, event))
            return
        self._early.append(event)
        if isinstance(event, live.Reached) and event.up:
            wait_s = RETURN_WITHIN_S if self._awaited() else 0.0
            loop = asyncio.get_running_loop()
            loop.call_later(wait_s, self.driver.when_idle, self._recover)

    def _take(self, event: live.Event) -> None:
        match event:
            case live.Submitted():
                self._submitted(event.job)
            case live.Ready():
                self._ready(event)
            case live.NotReady():
                self._lost(event)
            case live.Tried():
                self._tried(event)
            case live.Ended() | live.Cancelled():
                self._over(event.number)
            case live.Capacity():
                self.driver.handle(CapacityChanged(self._now_ns(), event.nodes))
            case live.Started():
                self._started(event.number)
            case live.Refused():
                self._log(f"job {event.number} of user {event.uid}: {event.reason}")
            case live.StartFailed():
                self._start_failed(event)
            case live.GaveBack():
                self._nodes.pop(event.number, None)
            case live.Reached():
                pass  # it is in the log; tries fail meanwhile

    def _submitted(self, job: PairedJob) -> None:
        number = job.number
        self._jobs[number] = job
        group = group_of(job.mates, self._config.name)
        member = self._member(number)
        if member is not None:
            ran = member.past.began and member.group == group
            if member.stage is not Stage.OVER or ran:
                return  # it was put back after it had run: its mates do not wait for it
            # It could not wait, or named others.
            self.driver.handle(JobRefused(self._now_ns(), number))
        try:
            self.driver.handle(self._pairs.announced(number, job.user, job.mates))
        except CoschedError as error:
            self._refuse(number, str(error))
        else:
            self.driver.handle(JobQueued(self._now_ns(), number, job.nodes))

    def _ready(self, event: live.Ready) -> None:
        number = event.number
        self._nodes[number] = event.nodes
        self._resting.pop(number, None)
        if self._member(number) is None and number in self._jobs:
            self._refused.pop(number, None)
            self._submitted(self._jobs[number])  # it was forgotten, or its group is free
            if number in self._refused:
                return
        member = self._member(number)
        if member is None:
            self._refuse(number, self._refused.get(number, "it belongs to no group here"))
        elif member.stage is Stage.QUEUING:
            self.driver.handle(JobReady(self._now_ns(), number, event.size))
        elif member.stage in (Stage.RUNNING, Stage.OVER):
            # its start was decided, or its mates are gone
            self._slurm.go(number, self._pairs.others(member.past.addresses))

    def _started(self, number: int) -> None:
        """Handles the begin of a job. If nothing here decided that, its mates need not
        wait."""
        self._nodes.pop(number, None)
        member = self._member(number)
        if member is not None and member.stage not in (Stage.RUNNING, Stage.OVER):
            self._log(f"job {number}: has started without its mates")
            self.driver.handle(JobStartedAlone(self._now_ns(), number))

    def _start_failed(self, event: live.StartFailed) -> None:
        """Ends the wait of a job whose decided start failed: its mates run."""
        self._nodes.pop(event.number, None)
        self._log(f"job {event.number}: could not start: {event.reason}")
        member = self._member(event.number)
        if member is not None and member.stage is Stage.RUNNING:
            self._slurm.wake(event.number)

    def _lost(self, event: live.NotReady) -> None:
        self._log(f"job {event.number}: has lost its nodes: {event.reason}")
        self._lose(event.number)

    def _lose(self, number: int) -> None:
        """Reports that a job has no nodes any more, unless an order took them."""
        self._nodes.pop(number, None)
        member = self._member(number)
        if member is not None and (
            member.stage.has_nodes or member.stage in (Stage.PREPARING, Stage.PREPARED)
        ):
            self.driver.handle(JobFailed(self._now_ns(), number))

    def _tried(self, event: live.Tried) -> None:
        member = self._member(event.number)
        if event.ready or member is None or member.stage is not Stage.QUEUING:
            return
        at_ns, expected_ns = self._now_ns(), None
        if event.expected_s is not None:
            expected_ns = at_ns + round(event.expected_s * NS_PER_S)
        self.driver.handle(JobNotReady(at_ns, event.number, expected_ns))

    def _over(self, number: int) -> None:
        for kept in (self._jobs, self._nodes, self._resting, self._refused):
            kept.pop(number, None)
        member = self._member(number)
        if member is not None and member.stage is not Stage.OVER:
            self.driver.handle(JobOver(self._now_ns(), number))

    # --- after a start --------------------------------------------------------------------

    def _awaited(self) -> bool:
        """Returns whether a job had nodes when the state was stored."""
        return any(
            member.stage not in (Stage.UNSUBMITTED, Stage.QUEUING, Stage.OVER)
            for member in self._pairs.coupling.state.members.values()
        )

    def _recover(self) -> None:
        """Reports the jobs that Slurm has, and then what came meanwhile."""
        events, self._early = self._early or [], None
        ended = self._pairs.recovery_ended()
        if ended is not None:
            for event in events:
                if isinstance(event, live.Submitted):
                    self._jobs[event.job.number] = event.job
            for number, found in _states(events).items():
                self._report_found(number, found)
            for event in events:
                if isinstance(event, live.Ready):
                    self._nodes[event.number] = event.nodes
            self.driver.handle(ended)
        for event in events:
            self._take(event)
        self.driver.thaw()

    def _report_found(self, number: int, found: Found) -> None:
        """Reports what Slurm does with a job with mates.

        It leaves out a job that waits and names other mates by now: the member is over, and
        the job is announced as a new one.
        """
        member, job = self._member(number), self._jobs[number]
        if member is None:
            return
        if found is Found.RUNS or group_of(job.mates, self._config.name) == member.group:
            found = _as_found(member, found, self._config.name)
            self.driver.handle(JobFound(self._now_ns(), number, found, job.nodes))

    # --- the decisions --------------------------------------------------------------------

    def _carry_out(self, command: Command) -> None:
        match command:
            case TryJob():
                self._slurm.try_now(command.number)
            case PrepareJob():
                self.driver.when_idle(partial(self._prepared, command.number))
            case GoJob():
                member = self._member(command.number)
                if member is not None and member.past.alone:
                    self._log(f"job {command.number}: starts alone: {member.past.alone}")
                self._slurm.go(command.number, self._pairs.others(command.addresses))
            case ReleaseJob():
                self._release(command)
            case PassWanted():
                self._end_rests()
            case GroupDisputed():
                self._refuse(command.number, objection(command))

    def _prepared(self, number: int) -> None:
        """Reports that a job can begin: one that has nodes needs no more."""
        member = self._member(number)
        if member is not None and member.stage is Stage.PREPARING:  # it was not released
            nodes = self._nodes.get(number, "")
            address = first_nodes(f"{number}@{nodes}", LONGEST_ADDRESS)
            self.driver.handle(JobPrepared(self._now_ns(), number, address))

    def _refuse(self, number: int, reason: str) -> None:
        """Refuses a job; one that has nodes gives them back."""
        self._refused[number] = reason
        self._slurm.refuse(number, reason)
        self.driver.when_idle(partial(self._lose, number))

    def _release(self, command: ReleaseJob) -> None:
        number, waits = command.number, self._config.waits
        self._resting[number] = command.why
        self._slurm.give_back(number, self._rest_s(number, command.why, waits))
        member, by = self._member(number), self._config.settings.raise_by
        if command.why is Why.YIELD and by and member is not None:
            self._slurm.set_priority(number, by * member.past.yields)

    def _rest_s(self, number: int, why: Why, waits: Waits) -> float:
        """Returns how long a job waits after it gave its nodes back, in s."""
        member = self._member(number)
        due_ns = None if member is None else member.dates.due_ns
        if why is Why.NOT_DUE and due_ns is not None:
            return min(_MOST_WAIT_S, max(0, due_ns - self._now_ns()) / NS_PER_S)
        if why is Why.LEASE:
            return waits.release_s
        return waits.yield_s

    def _end_rests(self) -> None:
        """Ends the wait of jobs that may ask their mates again. A job whose hold has ended
        waits to the end, or it would hold again at once."""
        for number, why in list(self._resting.items()):
            member = self._member(number)
            if member is None or member.stage is not Stage.QUEUING:
                del self._resting[number]
            elif why is not Why.LEASE and member.aside == -1 and member.turn.trying is None:
                del self._resting[number]
                self._slurm.wake(number)

    def _now_ns(self) -> int:
        return self._pairs.clock.now_ns()

    def _member(self, number: int) -> GroupJob | None:
        return self._pairs.member(number)


def _send_to_no_agent(to: str, message: Message) -> None:
    raise CoschedError(f"{to}: gets no {type(message).__name__}, Slurm has the nodes")


def _as_found(member: GroupJob, found: Found, own: str) -> Found:
    """Returns PREPARED only for a job whose start is decided, or is being decided in
    another domain. A job that only has nodes waits, and is ready at once: it keeps them."""
    if found is not Found.PREPARED or member.stage is Stage.RUNNING:
        return found
    others = member.turn.round is not None and member.turn.round[0] != own
    return found if others and member.stage is Stage.PREPARED else Found.WAITS


def _states(events: Iterable[live.Event]) -> dict[int, Found]:
    """Returns what the scheduler does with each job that it has reported."""
    found: dict[int, Found] = {}
    for event in events:
        match event:
            case live.Submitted():
                found[event.job.number] = Found.WAITS
            case live.Ready():
                found[event.number] = Found.PREPARED
            case live.NotReady() | live.GaveBack() | live.StartFailed():
                found[event.number] = Found.WAITS
            case live.Started():
                found[event.number] = Found.RUNS
            case live.Ended() | live.Cancelled():
                found.pop(event.number, None)
    return found
