"""Answers users' requests. Each is one line of JSON with a member ``do``."""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import msgspec

from cosched.cluster.answers import reload_info
from cosched.cluster.controller.jobs import Jobs
from cosched.cluster.controller.members import Member, Members, NodeState
from cosched.cluster.controller.starts.start import expand
from cosched.cluster.desk import Person
from cosched.cluster.messages import LONGEST
from cosched.cluster.store import JobStore, Record, State
from cosched.cluster.submission import LONGEST_REQUEST, convert_submission
from cosched.config.domain import DomainConfig
from cosched.core.bounds import JobNumber, Name, Natural
from cosched.core.cluster.queue.forecast import forecast
from cosched.core.cluster.queue.states import State as Queued
from cosched.core.config.tables import Change
from cosched.core.decoding import JsonDecoder, Malformed, convert, printable
from cosched.core.errors import CoschedError, changing, must_succeed
from cosched.core.identity import ROOT
from cosched.core.units import NS_PER_MS, NS_PER_S
from cosched.node.sockets.pacing import Allowance

#: Work for one user that may come at once, before the user's requests are paced.
BURST_NS = 5 * NS_PER_S
#: The same for requests that are refused.
REFUSED_BURST_NS = 100 * NS_PER_MS
#: The longest answer, in bytes: it must fit into a message to an agent.
ANSWER_MOST = LONGEST // 2
#: Characters of a command in a list of jobs.
COMMAND_MOST = 1000
#: The most jobs of an answer.
JOBS_MOST = 20_000
#: Requests that all users may send: they change nothing.
_READING = ("queue", "job", "wait", "nodes", "mates")

#: The most characters of a value that an error repeats.
_SHOWN = 100
_UNKNOWN = "not a request of this version"
_request: JsonDecoder[dict[str, Any]] = JsonDecoder(
    dict[str, Any], "a request", LONGEST_REQUEST
)

_Handler = Callable[[Person, dict[str, Any]], Awaitable[Any]]


class Requests:
    """Answers for the jobs and nodes of a domain."""

    def __init__(
        self,
        config: DomainConfig,
        jobs: Jobs,
        store: JobStore,
        members: Members,
        end_domain: Callable[[], None],
        reload: Callable[[], Change[DomainConfig]],
    ) -> None:
        self._config = config
        self._jobs = jobs
        self._store = store
        self._members = members
        self._end_domain = end_domain
        self._reload_settings = reload
        self._allowance = Allowance(BURST_NS)
        self._refused = Allowance(REFUSED_BURST_NS)
        self._handlers: dict[str, _Handler] = {
            "submit": self._submit,
            "queue": self._queue,
            "job": self._job,
            "wait": self._wait,
            "cancel": self._each(jobs.cancel),
            "hold": self._each(jobs.hold),
            "unhold": self._each(jobs.unhold),
            "nodes": self._nodes,
            "mates": self._mates,
            "drain": self._drain,
            "undrain": self._undrain,
            "reload": self._reload,
            "down": self._down,
        }

    def configure(self, config: DomainConfig) -> None:
        """Takes changed settings."""
        self._config = config

    async def answer(self, person: Person, body: bytes) -> bytes:
        """Returns ``{"ok": ...}``, or ``{"error": ...}`` with one line."""
        began_ns = time.monotonic_ns()
        try:
            request = _request.decode(body)
        except Malformed:
            return await self._refuse(person, began_ns)
        wanted = request.get("do")
        handler = self._handlers.get(wanted) if isinstance(wanted, str) else None
        if handler is None:
            return await self._refuse(person, began_ns)
        try:
            if wanted not in _READING:
                self._expect_known(person)
            result = await handler(person, request)
        except CoschedError as error:
            if wanted == "wait":  # most of the time was no work
                began_ns = time.monotonic_ns()
            return await self._refuse(person, began_ns, str(error))
        if wanted != "wait":
            await self._pace(person, began_ns, self._allowance)
        answer = json.dumps({"ok": result}).encode()
        if len(answer) > ANSWER_MOST:
            return _refusal(f"the answer has {len(answer)} bytes; ask for single jobs")
        return answer

    async def _refuse(self, person: Person, began_ns: int, reason: str = _UNKNOWN) -> bytes:
        """Returns a refusal. A user who causes many of them waits."""
        await self._pace(person, began_ns, self._refused)
        return _refusal(reason)

    async def _pace(self, person: Person, began_ns: int, allowance: Allowance) -> None:
        """Lets a user wait who has used more than a tenth of the controller's time."""
        if self._is_operator(person):
            return
        now_ns = time.monotonic_ns()
        rest_ns = allowance.charge(person.uid, now_ns - began_ns, now_ns)
        if rest_ns:
            await asyncio.sleep(rest_ns / NS_PER_S)

    # --- jobs -----------------------------------------------------------------------------

    async def _submit(self, person: Person, request: dict[str, Any]) -> Any:
        submission = convert_submission(request.get("job"))
        if os.geteuid() not in (0, person.uid):
            raise CoschedError("this domain runs only the jobs of the user who started it")
        # A later change of the default must not change what this user expects.
        time_ns = submission.time_ns or self._config.queue.default_time_ns
        submission = msgspec.structs.replace(submission, time_ns=time_ns)
        now_ns = self._jobs.clock.now_ns()
        state = State.HELD if submission.held else State.QUEUED
        record = Record(0, person.uid, person.gid, submission, now_ns, state)
        with changing("a submission"):
            stored = self._jobs.submit(record)
        await self._jobs.expect_accord(stored)
        return {"job": stored.number}

    async def _queue(self, _person: Person, request: dict[str, Any]) -> Any:
        starts = self._forecast()
        records: list[Record] = list(self._jobs.records.live.values())
        ended: int = convert(request.get("ended", 0), Natural, "a number of ended jobs")
        if ended:
            live = {record.number for record in records}
            latest = self._store.latest(min(ended, JOBS_MOST))
            records += [record for record in latest if record.number not in live]
        records.sort(key=lambda record: record.number)
        found = [self._describe(record, starts) for record in records[:JOBS_MOST]]
        for each in found:
            each["command"] = _first_words(each["command"])
        return found

    async def _job(self, _person: Person, request: dict[str, Any]) -> Any:
        record = self._jobs.records.known(_number(request))
        found = self._describe(record, self._forecast())
        found["why"] = self._why(record, found["expected_ns"])
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
        return self._describe(record, {})

    def _each(self, action: Callable[[int], None]) -> _Handler:
        async def handle(person: Person, request: dict[str, Any]) -> Any:
            number = _number(request)
            record = self._jobs.records.known(number)
            if person.uid != record.uid and not self._is_operator(person):
                raise CoschedError(f"job {number}: belongs to another user")
            with changing(f"job {number}"):
                action(number)
            return {"job": number}

        return handle

    def _forecast(self) -> dict[int, int]:
        if self._jobs.frozen or not self._jobs.queue.waiting:
            return {}
        return forecast(self._jobs.queue, self._jobs.clock.now_ns())

    def _describe(self, record: Record, starts: dict[int, int]) -> dict[str, Any]:
        job = record.submission
        return {
            "job": record.number,
            "name": job.name,
            "uid": record.uid,
            "state": record.state.value,
            "nodes": self._node_count(record),
            "tasks": job.tasks,
            "hosts": list(record.hosts),
            "submitted_ns": record.submitted_ns,
            "started_ns": record.started_ns,
            "ended_ns": record.ended_ns,
            "expected_ns": starts.get(record.number),
            "time_ns": job.time_ns or self._config.queue.default_time_ns,
            "status": record.status,
            "reason": record.reason,
            "starts": record.start,
            "command": list(job.argv),
            "cwd": job.cwd,
            "output": expand(job.output, record),
            "error": expand(job.error, record),
            "mates": self._mates_line(record),
        }

    def _node_count(self, record: Record) -> int | None:
        """Returns the nodes that a job has or had, or that it needs now if it waits; None
        if that is not known."""
        if record.state not in (State.HELD, State.QUEUED):
            return len(record.hosts) or record.submission.nodes or None
        try:
            return len(self._members.counts(record.submission))
        except CoschedError:
            return None

    def _mates_line(self, record: Record) -> str:
        """Returns one line about a job's mates; empty if it has none, or has ended."""
        if self._jobs.pairs is None or record.state.over:
            return ""
        return self._jobs.pairs.explain(record.number) or ""

    async def _mates(self, _person: Person, _request: dict[str, Any]) -> Any:
        if self._jobs.pairs is None:
            raise CoschedError("this domain is coupled with no other")
        return self._jobs.pairs.waiting()

    def _why(self, record: Record, expected_ns: int | None) -> str:
        """Returns one line: where a job runs, how it ended, or why it waits."""
        mates = self._mates_line(record)
        if self._jobs.queue.jobs.state(record.number) is Queued.RESERVED:
            return mates
        if record.state is State.QUEUED:
            line = self._why_it_waits(record, expected_ns)
            return f"{line}; {mates}" if mates else line
        if record.state is State.HELD:
            return f"is held; to release it: cosched unhold {record.number}"
        if record.state.over:
            return record.reason or f"ended with status {record.status}"
        line = f"{record.state.value} on {', '.join(record.hosts)}"
        return f"{line}; {mates}" if mates else line

    def _why_it_waits(self, record: Record, expected_ns: int | None) -> str:
        if self._jobs.frozen:
            return "waits: the controller has restarted and asks the nodes"
        needs = len(self._members.counts(record.submission))
        alone = record.submission.exclusive
        free = self._jobs.queue.free_for(exclusive=alone)
        up = sum(member.state is NodeState.UP for member in self._members.by_number)
        before = sum(
            job.number != record.number and job.submit_ns <= record.submitted_ns
            for job in self._jobs.queue.waiting
        )
        line = f"waits: {free} nodes free, needs {needs}"
        if needs > up:
            return f"{line}; only {up} nodes are in service"
        if before:
            line += f"; {before} jobs came before"
        later = sum(
            bool(entry.nodes) and entry.job.submit_ns > record.submitted_ns
            for entry in self._jobs.queue.jobs.values()
        )
        if later:
            line += f"; {later} later jobs run: they need less, or the policy prefers them"
        if expected_ns is not None:
            line += f"; expected {_clock_time(expected_ns)}"
        return line

    # --- nodes ----------------------------------------------------------------------------

    async def _nodes(self, _person: Person, _request: dict[str, Any]) -> Any:
        jobs: dict[str, list[int]] = {}
        for start in self._jobs.starts.active.values():
            for host in start.hosts:
                jobs.setdefault(host, []).append(start.record.number)
        return [
            {
                "node": member.name,
                "state": member.state.value,
                "reason": member.why,
                "slots": member.slots,
                "jobs": sorted(jobs.get(member.name, [])),
            }
            for member in self._members.by_number
        ]

    async def _drain(self, person: Person, request: dict[str, Any]) -> Any:
        self._expect_operator(person)
        reason: str = convert(request.get("reason", ""), Name, "the reason of a drain")
        for member in self._named(request):
            with must_succeed(f"drain of node {member.name}"):
                member.drained = True
                member.reason = reason
                if member.state is NodeState.UP:
                    member.state = NodeState.DRAINED
                    self._jobs.node_drained(member)
        return {}

    async def _undrain(self, person: Person, request: dict[str, Any]) -> Any:
        self._expect_operator(person)
        for member in self._named(request):
            with must_succeed(f"undrain of node {member.name}"):
                member.drained = False
                if member.state is NodeState.DRAINED:
                    member.state = NodeState.UP
                    member.reason = ""
                    self._jobs.node_joined(member)
        return {}

    async def _reload(self, person: Person, _request: dict[str, Any]) -> Any:
        self._expect_operator(person)
        with changing("the settings"):
            change = self._reload_settings()
        return reload_info(change)

    async def _down(self, person: Person, request: dict[str, Any]) -> Any:
        """Ends the domain once the user has the answer."""
        self._expect_operator(person)
        running = sorted(self._jobs.starts.active)
        if running and not request.get("end_jobs"):
            raise CoschedError(
                f"{len(running)} jobs run; to end them too: cosched cluster down --end-jobs"
            )
        self._jobs.freeze()  # or jobs that wait would start on the nodes that get free
        try:
            for number in running:
                self._jobs.cancel(number)
            for number in running:
                await self._jobs.records.wait(number)
        except BaseException:
            self._jobs.thaw()
            raise
        asyncio.get_running_loop().call_soon(self._end_domain)
        return {"ended_jobs": running}

    def _named(self, request: dict[str, Any]) -> list[Member]:
        names: list[str] = convert(request.get("names") or [], list[Name], "names of nodes")
        for name in names:
            if name not in self._members.by_name:
                raise CoschedError(f"node {name}: is not in this domain")
        return [self._members.by_name[name] for name in names]

    def _expect_known(self, person: Person) -> None:
        if self._is_known(person):
            return
        if ROOT in (person.uid, person.gid):
            whose, remedy = "root's requests", "add the node to security.root_from"
        else:
            whose, remedy = f"requests of user {person.uid}", "lower security.least_uid"
        raise CoschedError(
            f"{whose} from node {person.member} are refused: send them on the "
            f"controller's machine, or {remedy} in domain.toml"
        )

    def _is_known(self, person: Person) -> bool:
        return self._config.may_vouch(person.member, person.uid, person.gid)

    def _is_operator(self, person: Person) -> bool:
        return person.uid in (0, os.geteuid()) and self._is_known(person)

    def _expect_operator(self, person: Person) -> None:
        if not self._is_operator(person):
            raise CoschedError("only root, or the user of the controller, may do this")


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


def _refusal(reason: str) -> bytes:
    """Returns the answer to a request that is refused."""
    return json.dumps({"error": reason}).encode()


def _number(request: dict[str, Any]) -> int:
    given = request.get("job")
    try:
        number: int = convert(given, JobNumber, "the number of a job")
    except Malformed:
        shown = printable(str(given))[:_SHOWN]
        raise CoschedError(f"job '{shown}': is not the number of a job") from None
    return number


def _start(request: dict[str, Any]) -> int:
    start = request.get("start")
    if not isinstance(start, int) or not 0 < start < 1 << 43:
        raise CoschedError(f"start '{start}': is not the number of a start")
    return start


def _clock_time(at_ns: int) -> str:
    return time.strftime("%H:%M:%S", time.localtime(at_ns / NS_PER_S))


#: The answer to a request that failed, through no fault that its user can mend.
FAILED = _refusal("the request failed; the controller's log has the reason")
