"""Answers users' requests about jobs and nodes."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from cosched.cluster.answers import EndInfo
from cosched.cluster.engines.interface import Handler
from cosched.cluster.engines.native.array_answers import (
    array_line,
    fold,
    named_tasks,
    task_entries,
)
from cosched.cluster.engines.native.halves_answers import (
    pairs_of,
)
from cosched.cluster.engines.native.job_answers import JobAnswers
from cosched.cluster.engines.native.job_bounds import Wanted, change_all
from cosched.cluster.engines.native.jobs import Jobs
from cosched.cluster.engines.native.node_entries import NodeEntries, NodeEntry, NodeState
from cosched.cluster.engines.native.size_answers import describe_changes
from cosched.cluster.engines.native.submitting import Submitting
from cosched.cluster.record import Record, State
from cosched.cluster.store import JobStore
from cosched.cluster.submission import convert_submission
from cosched.cluster.user_socket import Person
from cosched.config.domain import DomainConfig
from cosched.core.bounds import JobNumber, Name, Natural, Seconds
from cosched.core.cluster.queue.places.elastic import Elastic
from cosched.core.counting import counted
from cosched.core.decoding import Malformed, convert, printable
from cosched.core.errors import CoschedError, changing, must_succeed

#: Characters of a command in a list of jobs.
COMMAND_MOST = 1000
#: The most jobs of an answer.
JOBS_MOST = 20_000
#: The most jobs that one request waits for, and the longest time that it takes.
AWAITED_MOST = 1000
AWAITED_WITHIN_S = 60.0
#: The most characters of a value that an error repeats.
_SHOWN = 100


class JobRequests:
    """Answers for the jobs and nodes of a domain."""

    def __init__(
        self,
        config: DomainConfig,
        jobs: Jobs,
        submitting: Submitting,
        store: JobStore,
        members: NodeEntries,
        end_domain: Callable[[], None],
    ) -> None:
        self._config = config
        self._jobs = jobs
        self._submitting = submitting
        self._store = store
        self._members = members
        self._end_domain = end_domain
        self._answers = JobAnswers(jobs, store, members)
        #: The answer to each request about jobs and nodes, by its name.
        self.handlers: dict[str, Handler] = {
            "submit": self._submit,
            "queue": self._queue,
            "job": self._job,
            "wait": self._wait,
            "tasks": self._tasks,
            "ended": self._ended,
            "cancel": self._each(submitting.cancel_all),
            "hold": self._each(jobs.batch_jobs.hold),
            "unhold": self._each(jobs.batch_jobs.unhold),
            "resize": self._resize,
            "nodes": self._nodes,
            "pairs": self._pairs,
            "drain": self._drain,
            "undrain": self._undrain,
            "down": self._down,
        }

    def configure(self, config: DomainConfig) -> None:
        """Applies changed settings."""
        self._config = config

    def may_vouch(self, person: Person) -> bool:
        """Returns whether the member that names this person may do so."""
        return self._config.may_vouch(person.member, person.uid, person.gid)

    # --- jobs -----------------------------------------------------------------------------

    async def _submit(self, person: Person, request: dict[str, Any]) -> Any:
        if self._jobs.ends:  # no answer: the connection closes, and its user asks again
            await asyncio.get_running_loop().create_future()
        submission = convert_submission(request.get("job"))
        if os.geteuid() not in (0, person.uid):
            raise CoschedError("this domain runs only the jobs of the user who started it")
        # A later change of the default must not change what this user expects.
        time_ns = submission.time_ns or self._config.queue.default_time_ns or 0
        submission = msgspec.structs.replace(submission, time_ns=time_ns)
        now_ns = self._jobs.clock.now_ns()
        state = State.HELD if submission.held else State.QUEUED
        record = Record(0, person.uid, person.gid, submission, now_ns, state)
        with changing("a submission"):
            stored = self._submitting.submit(record)
        await self._submitting.expect_accord(stored)
        return {"job": stored.number}

    async def _tasks(self, _person: Person, request: dict[str, Any]) -> Any:
        """Answers which jobs a user names by ``12``, ``12_3`` or ``12_1-5``."""
        number = _number(request)
        records = self._jobs.records
        if not request.get("tasks"):
            record = records.known(number)
            if record.array != number:
                return {"tasks": task_entries([record]), "why": ""}
        tasks = [
            records.live.get(each.number, each) for each in self._store.tasks_of(number)
        ]
        named = set(named_tasks(self._store, number, request.get("tasks", "")))
        found = [each for each in tasks if each.number in named]
        return {"tasks": task_entries(found), "why": array_line(found)}

    async def _queue(self, _person: Person, request: dict[str, Any]) -> Any:
        waits = self._answers.waits()
        known = self._jobs.records
        records: list[Record] = [*known.live.values(), *known.unresolved.values()]
        ended: int = convert(request.get("ended", 0), Natural, "a number of ended jobs")
        if ended:
            live = {record.number for record in records}
            latest = self._store.latest(min(ended, JOBS_MOST))
            records += [record for record in latest if record.number not in live]
        records.sort(key=lambda record: record.number)
        rows = [(record, "") for record in records]
        if request.get("folded"):
            rows = fold(records)
        found = []
        for record, text in rows[:JOBS_MOST]:
            each = self._answers.describe(record, waits)
            each["command"] = _first_words(each["command"])
            if text:
                each["folded"] = text
            found.append(each)
        return found

    async def _job(self, _person: Person, request: dict[str, Any]) -> Any:
        record = self._jobs.records.known(_number(request))
        waits = self._answers.waits()
        found = self._answers.describe(record, waits)
        found["why"] = self._answers.why(record, waits)
        place = self._jobs.queue.place
        run = place.running.get(record.number) if isinstance(place, Elastic) else None
        changes = self._store.changes(record.number)
        found["changes"] = describe_changes(record, changes, run)
        return found

    async def _wait(self, _person: Person, request: dict[str, Any]) -> Any:
        records, number = self._jobs.records, _number(request)
        match request.get("until", "ended"):
            case "ended":
                record = await records.wait(number)
            case "over":
                record = await records.wait_over(number, _start(request))
            case "running":
                record = await records.wait_running(number)
            case until:
                raise CoschedError(f"until '{until}': must be running, over or ended")
        return self._answers.describe(record, self._answers.waits())

    async def _ended(self, _person: Person, request: dict[str, Any]) -> Any:
        """Returns the ends of the ended jobs in a list, once there is one or the time is
        over."""
        given: set[int] = convert(request.get("jobs"), set[JobNumber], "numbers of jobs")
        if len(given) > AWAITED_MOST:
            raise CoschedError(f"a request waits for {AWAITED_MOST} jobs at most")
        within_s: float = convert(request.get("within", 0), Seconds, "a time")
        records = await self._jobs.records.wait_any(given, min(within_s, AWAITED_WITHIN_S))
        return [_end(record) for record in records]

    def _each(self, action: Callable[[Sequence[int]], None]) -> Handler:
        async def handle(person: Person, request: dict[str, Any]) -> Any:
            number = self._own(person, request)
            numbers = named_tasks(self._store, number, request.get("tasks", ""))
            with changing(f"job {number}"):
                action(numbers)
            return {"job": number}

        return handle

    def _own(self, person: Person, request: dict[str, Any]) -> int:
        """Returns the number of a job that this person may steer. Raises CoschedError for
        another user's job."""
        number = _number(request)
        record = self._jobs.records.known(number)
        if person.uid not in (record.uid, 0, os.geteuid()):
            raise CoschedError(f"job {number}: belongs to another user")
        return number

    async def _resize(self, person: Person, request: dict[str, Any]) -> Any:
        number = self._own(person, request)
        names = ("minimum", "ideal", "preferred")
        wanted = Wanted(*(_bound(request, name) for name in names))
        numbers = named_tasks(self._store, number, request.get("tasks", ""))
        with changing(f"job {number}"):
            bounds = change_all(self._jobs, numbers, wanted, self._config.queue.size)
        return {"job": number, **bounds._asdict()}

    # --- nodes ----------------------------------------------------------------------------

    async def _nodes(self, _person: Person, _request: dict[str, Any]) -> Any:
        jobs: dict[str, list[int]] = {}
        for start in self._jobs.starts.active.values():
            for host in start.holds:
                jobs.setdefault(host, []).append(start.record.number)
        unknown = not self._jobs.recovered
        return [
            {
                "node": member.name,
                "state": member.shown_state(busy=unknown or member.name in jobs),
                "reason": member.why,
                "slots": member.slots,
                "tasks_most": member.slots * self._config.tasks_per_slot,
                "jobs": sorted(jobs.get(member.name, [])),
            }
            for member in self._members.by_number
        ]

    async def _pairs(self, _person: Person, _request: dict[str, Any]) -> Any:
        return pairs_of(self._jobs.shared.pairs())

    async def _drain(self, person: Person, request: dict[str, Any]) -> Any:
        reason: str = convert(request.get("reason", ""), Name, "the reason of a drain")
        members = self._named(request)
        if request.get("wait") and not self._jobs.recovered:
            raise self._jobs.not_known_yet("what runs on the nodes")
        for member in members:
            with must_succeed(f"drain of node {member.name}"):
                self._store.save_drain(member.name, reason)
                member.drained = True
                member.reason = reason
                if member.state is NodeState.UP:
                    member.state = NodeState.DRAINED
                    self._jobs.node_drained(member)
        if request.get("wait"):
            await self._until_free(frozenset(member.name for member in members))
        return {}

    async def _until_free(self, names: frozenset[str]) -> None:
        """Returns once no job has a part on these nodes, where none starts any more."""
        starts = (start for name in names for start in self._jobs.starts.on(name))
        for number, start in {(each.record.number, each.record.start) for each in starts}:
            await self._jobs.records.wait_away(number, start, names)

    async def _undrain(self, person: Person, request: dict[str, Any]) -> Any:
        for member in self._named(request):
            if member.leaving:
                raise CoschedError(f"node {member.name}: is leaving the domain")
            with must_succeed(f"undrain of node {member.name}"):
                self._store.forget_drain(member.name)
                member.drained = False
                if member.state is NodeState.DRAINED:
                    member.state = NodeState.UP
                    member.reason = ""
                    self._jobs.node_joined(member)
        return {}

    async def _down(self, person: Person, request: dict[str, Any]) -> Any:
        """Ends the domain once the user has the answer."""
        if not self._jobs.recovered:
            raise self._jobs.not_known_yet("the end of the domain")
        running = sorted(self._jobs.starts.active)
        if running and not request.get("end_jobs"):
            raise CoschedError(
                f"{counted(len(running), 'job runs', 'jobs run')}; to end them too: "
                "cosched cluster down --end-jobs"
            )
        # Otherwise jobs that wait would start on the nodes that get free.
        self._jobs.driver.freeze()
        try:
            for number in running:
                self._submitting.cancel(number)
            for number in running:
                await self._jobs.records.wait(number)
        except BaseException:
            self._jobs.driver.thaw()
            raise
        asyncio.get_running_loop().call_soon(self._end_domain)
        return {"ended_jobs": running}

    def _named(self, request: dict[str, Any]) -> list[NodeEntry]:
        names: list[str] = convert(request.get("names") or [], list[Name], "names of nodes")
        return self._members.named(names)


def _first_words(command: Sequence[str]) -> list[str]:
    """Returns the words of a command that have room in a list of jobs; "..." at the end if
    there are more."""
    words: list[str] = []
    room = COMMAND_MOST
    for word in command:
        if len(word) > room:
            return [*words, f"{word[:room]}..."]
        words.append(word)
        room = max(0, room - len(word) - 1)
    return words


def _end(record: Record) -> EndInfo:
    return EndInfo(
        job=record.number,
        state=record.state.value,
        status=record.status,
        reason=record.reason,
    )


def _number(request: dict[str, Any]) -> int:
    given = request.get("job")
    try:
        number: int = convert(given, JobNumber, "the number of a job")
    except Malformed:
        shown = printable(str(given))[:_SHOWN]
        raise CoschedError(f"job '{shown}': is not the number of a job") from None
    return number


def _bound(request: dict[str, Any], name: str) -> int | None:
    given: int | None = convert(request.get(name), Natural | None, f"the {name} of a job")
    return given


def _start(request: dict[str, Any]) -> int:
    start = request.get("start")
    if not isinstance(start, int) or not 0 < start < 1 << 43:
        raise CoschedError(f"start '{start}': is not the number of a start")
    return start
