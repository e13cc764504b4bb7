"""Answers users' requests about jobs and nodes."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from cosched.cluster.answers import EndInfo, size_text
from cosched.cluster.coupling.clock import clock_time
from cosched.cluster.engines.interface import Handler
from cosched.cluster.engines.native.array_answers import (
    array_line,
    fold,
    named_tasks,
    task_entries,
    waits_for,
    why_kept_back,
)
from cosched.cluster.engines.native.forecasts import Forecasts
from cosched.cluster.engines.native.halves_answers import (
    halves_of,
    neighbours_of,
    pairs_of,
    place_text,
    room_text,
)
from cosched.cluster.engines.native.job_bounds import bounds_of, change_bounds
from cosched.cluster.engines.native.jobs import Jobs
from cosched.cluster.engines.native.node_entries import NodeEntries, NodeEntry, NodeState
from cosched.cluster.engines.native.size_answers import describe_changes, tasks_now
from cosched.cluster.engines.native.starts.start import expand
from cosched.cluster.engines.native.suspension_answers import (
    lender_text,
    suspension_fields,
    suspension_text,
)
from cosched.cluster.engines.native.time_answers import Times, times_of
from cosched.cluster.record import Record, State
from cosched.cluster.store import JobStore
from cosched.cluster.submission import convert_submission
from cosched.cluster.user_socket import Person
from cosched.config.domain import DomainConfig
from cosched.core.bounds import JobNumber, Name, Natural, Seconds
from cosched.core.cluster.queue.forecast import forecast
from cosched.core.cluster.queue.places.elastic import Elastic
from cosched.core.cluster.queue.sizes.resizable_run import ResizableRun
from cosched.core.cluster.queue.states import State as Queued
from cosched.core.cluster.queue.waiting import arrival
from cosched.core.counting import counted
from cosched.core.decoding import Malformed, convert, printable
from cosched.core.errors import CoschedError, changing, must_succeed
from cosched.core.units import NS_PER_S

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
        store: JobStore,
        members: NodeEntries,
        end_domain: Callable[[], None],
    ) -> None:
        self._config = config
        self._jobs = jobs
        self._store = store
        self._members = members
        self._end_domain = end_domain
        self._forecasts = Forecasts(self._make_forecast)
        #: The answer to each request about jobs and nodes, by its name.
        self.handlers: dict[str, Handler] = {
            "submit": self._submit,
            "queue": self._queue,
            "job": self._job,
            "wait": self._wait,
            "tasks": self._tasks,
            "ended": self._ended,
            "cancel": self._each(jobs.cancel_all),
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
            stored = self._jobs.submit(record)
        await self._jobs.expect_accord(stored)
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
        starts = self._forecast()
        records: list[Record] = list(self._jobs.records.live.values())
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
            each = self._describe(record, starts)
            each["command"] = _first_words(each["command"])
            if text:
                each["folded"] = text
            found.append(each)
        return found

    async def _job(self, _person: Person, request: dict[str, Any]) -> Any:
        record = self._jobs.records.known(_number(request))
        found = self._describe(record, self._forecast())
        found["why"] = self._why(record, found["expected_ns"])
        found["changes"] = describe_changes(
            record, self._store.changes(record.number), self._run_of(record.number)
        )
        return found

    def _run_of(self, number: int) -> ResizableRun | None:
        place = self._jobs.queue.place
        return place.running.get(number) if isinstance(place, Elastic) else None

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
        return self._describe(record, {})

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
        minimum, ideal = (_bound(request, name) for name in ("minimum", "ideal"))
        kind = self._config.queue.size
        with changing(f"job {number}"):
            least, most = change_bounds(self._jobs, number, minimum, ideal, kind)
        return {"job": number, "minimum": least, "ideal": most}

    def _forecast(self) -> Mapping[int, int]:
        """Returns when jobs that wait now are expected to start, ns."""
        if self._jobs.driver.frozen:
            return {}
        waiting = self._jobs.queue.waiting
        if not waiting:
            return {}
        starts = self._forecasts.get()
        return {job.number: starts[job.number] for job in waiting if job.number in starts}

    def _make_forecast(self) -> Mapping[int, int]:
        return forecast(self._jobs.queue, self._jobs.clock.now_ns())

    def _describe(self, record: Record, starts: Mapping[int, int]) -> dict[str, Any]:
        job = record.submission
        bounds = bounds_of(job, self._members.most)
        minimum, ideal = (None, None) if bounds is None else bounds
        times = self._times(record, starts.get(record.number))
        return {
            "job": record.number,
            "name": job.name,
            "uid": record.uid,
            "state": record.state.value,
            "nodes": self._node_count(record),
            "tasks": tasks_now(record),
            "hosts": list(record.nodes),
            "submitted_ns": record.submitted_ns,
            "started_ns": record.started_ns,
            "ended_ns": record.ended_ns,
            "expected_ns": starts.get(record.number),
            "time_ns": times.limit_ns,
            "run_ns": times.run_ns,
            "ends_ns": times.ends_ns,
            "status": record.status,
            "reason": record.reason,
            "starts": record.start,
            "command": list(job.argv),
            "cwd": job.cwd,
            "output": expand(job.output, record),
            "error": expand(job.error, record),
            "mates": self._mates_line(record),
            "minimum": minimum,
            "ideal": ideal,
            "resized": None if bounds is None else self._store.times_resized(record.number),
            "node_s": record.used_ns(self._jobs.clock.now_ns()) / NS_PER_S,
            "limited_by": list(job.limited_by),
            "shares": self._members.may_share(job),
            "halves": halves_of(record),
            "neighbours": neighbours_of(self._jobs.queue, record.number),
            **suspension_fields(record, self._jobs.clock.now_ns()),
            "array": record.array or None,
            "task": record.task,
            "waits_for": waits_for(self._jobs.queue, record),
        }

    def _times(self, record: Record, expected_ns: int | None) -> Times:
        return times_of(record, self._jobs.records.run_times, expected_ns)

    def _node_count(self, record: Record) -> int | None:
        """Returns the nodes that a job has or had, or that it needs now if it waits; None
        if that is not known."""
        if record.state not in (State.HELD, State.QUEUED):
            return len(record.nodes) or record.submission.nodes or None
        try:
            halves = self._members.half_counts(record.submission)
            return len(halves or self._members.counts(record.submission))
        except CoschedError:
            return None

    def _mates_line(self, record: Record) -> str:
        """Returns one line about a job's mates; empty if it has none, or has ended."""
        if self._jobs.pairs is None or record.state.over:
            return ""
        return self._jobs.pairs.explain(record.number) or ""

    def _why(self, record: Record, expected_ns: int | None) -> str:
        """Returns one line: where a job runs, how it ended, or why it waits."""
        mates = self._mates_line(record)
        if self._jobs.queue.jobs.state(record.number) is Queued.RESERVED:
            return mates
        if record.state is State.QUEUED:
            notes = (self._jobs.shared.label_text(record), mates)
            return "; ".join(
                (self._why_it_waits(record, expected_ns), *filter(None, notes))
            )
        if record.state is State.HELD:
            return f"is held; to release it: cosched unhold {record.number}"
        if record.state.over:
            return record.reason or f"ended with status {record.status}"
        neighbours = neighbours_of(self._jobs.queue, record.number)
        line = f"{record.state.value} on {place_text(record, neighbours)}"
        bounds = bounds_of(record.submission, self._members.most)
        if bounds is not None:
            line += f": {size_text(len(record.nodes), *bounds, unit=' nodes')}"
        loan = suspension_text(record)
        if loan:
            line += f"; {loan}"
        line += f"; {self._times(record, None).text}"
        return self._with_notes(line, record)

    def _with_notes(self, line: str, record: Record) -> str:
        """Returns a line about a job with what else there is to know of it."""
        notes = (self._jobs.shared.label_text(record), self._mates_line(record))
        return "; ".join((line, *filter(None, notes)))

    def _why_it_waits(self, record: Record, expected_ns: int | None) -> str:
        if self._jobs.driver.frozen:
            return "waits: the controller has restarted and asks the nodes"
        if not self._members.slots:
            return "waits: no node has joined the domain yet"
        queued = self._jobs.queue.jobs.get(record.number)
        if queued is not None and queued.state is Queued.KEPT_BACK:
            return why_kept_back(self._jobs.queue, record)
        place_ns = record.submitted_ns if queued is None else queued.job.submit_ns
        try:
            most = len(self._members.counts(record.submission))
        except CoschedError as error:  # its nodes, or their slots, have changed
            return f"waits: {error}"
        needs = record.submission.minimum or most
        up = sum(member.state is NodeState.UP for member in self._members.by_number)
        before = sum(
            job.number != record.number and arrival(job) < (place_ns, record.number)
            for job in self._jobs.queue.waiting
        )
        line = f"waits: {room_text(self._jobs.queue, self._members, record, needs)}"
        if needs > up:
            return f"{line}; only {counted(up, 'node is', 'nodes are')} in service"
        if before:
            line += f"; {counted(before, 'job')} came before"
        later = sum(
            bool(entry.nodes) and entry.job.submit_ns > place_ns
            for entry in self._jobs.queue.jobs.values()
        )
        if later:
            run = counted(later, "later job runs: it needs", "later jobs run: they need")
            line += f"; {run} less, or the policy prefers {'it' if later == 1 else 'them'}"
        loan = lender_text(record, self._jobs.records.live.values())
        if loan:
            line += f"; {loan}"
        if expected_ns is not None:
            line += f"; expected {clock_time(expected_ns)}"
        unknown = [
            number
            for number, entry in self._jobs.queue.jobs.items()
            if entry.nodes and not entry.job.known
        ]
        if expected_ns is None and unknown:
            first = f"job {min(unknown)} is the first of its kind"
            line += f"; its start is not known, as {first}"
        return f"{line}; {self._times(record, expected_ns).text}"

    # --- nodes ----------------------------------------------------------------------------

    async def _nodes(self, _person: Person, _request: dict[str, Any]) -> Any:
        jobs: dict[str, list[int]] = {}
        for start in self._jobs.starts.active.values():
            for host in start.record.admitted:
                jobs.setdefault(host, []).append(start.record.number)
        return [
            {
                "node": member.name,
                "state": member.shown_state,
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
        for member in self._named(request):
            with must_succeed(f"drain of node {member.name}"):
                self._store.save_drain(member.name, reason)
                member.drained = True
                member.reason = reason
                if member.state is NodeState.UP:
                    member.state = NodeState.DRAINED
                    self._jobs.node_drained(member)
        return {}

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
                self._jobs.cancel(number)
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
