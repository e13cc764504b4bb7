"""Reports to the controller what this node's scheduler daemon saw of jobs that share it.

The daemon looks at each job alone and beside others, also at jobs from outside of the
domain. The agent asks for the jobs that the controller started here, by the names that the
controller gave them; the kernel vouches for their users. So a program that registers under
another name changes nothing, and one that runs beside the domain is reported nowhere.

Without a daemon nothing is reported. Reports are no part of a job: an error costs a line of
the log.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from cosched.cluster.message_kinds import Message
from cosched.cluster.paths import DomainPaths
from cosched.cluster.sharing_messages import (
    NEIGHBOURS_MOST,
    SLOWDOWN_MOST,
    BesideJob,
    JobShared,
    Spent,
)
from cosched.core.bounds import Natural
from cosched.core.cluster.startup.jobobject import JobObject
from cosched.core.complaints import Complaints
from cosched.core.decoding import JsonDecoder
from cosched.core.errors import CoschedError
from cosched.core.symbiosis.limited import Spending
from cosched.core.symbiosis.speeds import LEAST_TRIALS
from cosched.core.trace.neighbours import Neighbour, Sharing
from cosched.core.units import NS_PER_S
from cosched.linux.identity import peer_ids
from cosched.rundir.directories import SYSTEM_RUN_DIR
from cosched.rundir.paths import NodePaths, job_key

#: The time between two questions to the daemon, while jobs with a label are here.
PERIOD_S = 2.0
#: How long the daemon may take to answer.
ANSWER_S = 5.0
#: The longest answer, in bytes.
ANSWER_BYTES = 4 << 20
#: After so many answers without an ended job its last known state is reported.
LATE_ANSWERS = 3
#: Jobs whose numbers are kept, also ended ones: they were neighbours of others.
JOBS_MOST = 1024

Start = tuple[int, int]


class _Shown(msgspec.Struct, frozen=True):
    """A job as the daemon describes it."""

    key: str
    began_wall_ns: Natural
    sharing: Sharing


class _Answer(msgspec.Struct, frozen=True):
    running: tuple[_Shown, ...]
    ended: tuple[_Shown, ...]


_answers: JsonDecoder[_Answer] = JsonDecoder(_Answer, "an answer of a daemon", ANSWER_BYTES)


@dataclass(slots=True)
class _Followed:
    """A start that is here, or has just ended."""

    key: str  # on the node
    since_ns: int  # by the wall clock
    sharing: Sharing | None = None  # the last known state
    sent: tuple[BesideJob, ...] = ()
    answers_left: int | None = None  # until its end is reported; None: it runs


class SharingReports:
    """The reports of one node.

    sockets: where the node's scheduler daemon may listen, the first one that answers
    counts. send: sends a message to the controller. log: takes one line about a daemon that
    answers wrongly.
    """

    def __init__(
        self,
        sockets: Sequence[Path],
        send: Callable[[Message], None],
        log: Callable[[str], None],
    ) -> None:
        self._sockets = sockets
        self._send = send
        self._complaints = Complaints(log, time.monotonic_ns)
        self._followed: dict[Start, _Followed] = {}
        self._numbers: OrderedDict[str, int] = OrderedDict()  # by the key on the node

    def begin(self, start: Start, found: JobObject) -> None:
        """Follows a start that begins here, if its user has said what limits it."""
        name = found.environ.get("COSCHED_JOB")
        if name is None or "COSCHED_LIMITED_BY" not in found.environ:
            return
        key = job_key(found.uid, name)
        self._followed[start] = _Followed(key, time.time_ns())
        self._numbers[key] = start[0]
        while len(self._numbers) > JOBS_MOST:
            self._numbers.popitem(last=False)

    def end(self, start: Start) -> None:
        """Reports a start for the last time, once the daemon has noticed its end."""
        followed = self._followed.get(start)
        if followed is not None:
            followed.answers_left = LATE_ANSWERS

    def report_again(self) -> None:
        """Reports all starts again: the controller has restarted."""
        for followed in self._followed.values():
            followed.sent = ()

    async def run(self) -> None:
        """Asks the daemon and reports, until it is cancelled."""
        while True:
            await asyncio.sleep(PERIOD_S)
            await self.look()

    async def look(self) -> None:
        """Asks the daemon once, and reports what has changed."""
        if not self._followed:
            return
        since_ns = min(each.since_ns for each in self._followed.values())
        try:
            async with asyncio.timeout(ANSWER_S):
                answer = await self._ask(since_ns)
        except (OSError, TimeoutError, ValueError) as error:
            what = str(error) or "it does not answer in time"
            self._complaints.about("the scheduler daemon", "is not read", what)
            answer = None
        except CoschedError as error:
            self._complaints.about("the scheduler daemon", "is not read", str(error))
            answer = None
        for start, followed in list(self._followed.items()):
            self._take(start, followed, answer)

    async def _ask(self, since_ns: int) -> _Answer | None:
        """Returns the answer of the node's daemon; None: there is no daemon."""
        for path in self._sockets:
            try:
                reader, writer = await asyncio.open_unix_connection(
                    path, limit=ANSWER_BYTES
                )
            except (FileNotFoundError, ConnectionRefusedError):
                continue
            try:
                _, uid, _ = peer_ids(writer.get_extra_info("socket"))
                if uid not in (0, os.geteuid()):
                    raise CoschedError(f"{path}: user {uid} listens there")
                question = {"op": "shared", "since_wall_ns": since_ns}
                writer.write(msgspec.json.encode(question) + b"\n")
                return _answers.decode(await reader.readline())
            finally:
                writer.close()
        return None

    def _take(self, start: Start, followed: _Followed, answer: _Answer | None) -> None:
        over = False
        if answer is not None:
            running = _find(answer.running, followed)
            ended = _find(answer.ended, followed)
            over = ended is not None and running is None
            followed.sharing = running or ended or followed.sharing
        if followed.answers_left is not None:
            followed.answers_left -= 1
            if over or not followed.answers_left:
                del self._followed[start]
                self._report(start, followed, over=True)
        elif followed.sharing is not None:
            self._report(start, followed, over=False)

    def _report(self, start: Start, followed: _Followed, *, over: bool) -> None:
        """Reports a start if that is news; nothing if the daemon never had it."""
        found = followed.sharing
        if found is None:
            return
        beside = tuple(self._beside(found.beside))
        if beside == followed.sent and not over:
            return
        followed.sent = beside
        spent = None if found.spent is None or not over else _spent(found.spent)
        self._send(JobShared(*start, beside, spent, over))

    def _beside(self, neighbours: Sequence[Neighbour]) -> list[BesideJob]:
        found = []
        for each in neighbours:
            number = self._numbers.get(each.jobs[0]) if len(each.jobs) == 1 else None
            if number is None or each.trials < LEAST_TRIALS:
                continue
            slowdown = SLOWDOWN_MOST if each.slowdown is None else each.slowdown
            words = (_thousandths(slowdown), _thousandths(each.at_least))
            found.append(BesideJob(number, each.trials, *words))
        return found[-NEIGHBOURS_MOST:]


def daemon_sockets(paths: DomainPaths, node: str) -> tuple[Path, Path]:
    """Returns where the tasks of a node find its scheduler daemon: beside the agent, or
    root's daemon by the name of the host."""
    system = NodePaths(SYSTEM_RUN_DIR, os.uname().nodename)
    return NodePaths(paths.run_dir, node).control_socket, system.control_socket


def _find(shown: Sequence[_Shown], followed: _Followed) -> Sharing | None:
    """Returns what is shown of a start; an earlier start of the job had the same name."""
    for each in reversed(shown):
        if each.key == followed.key and each.began_wall_ns >= followed.since_ns:
            return each.sharing
    return None


def _thousandths(factor: float) -> int:
    return max(0, min(round(1000 * factor), 1000 * SLOWDOWN_MOST))


def _spent(spent: Spending) -> Spent:
    def ns(seconds: float) -> int:
        return max(0, round(seconds * NS_PER_S))

    def known_ns(seconds: float | None) -> int | None:
        return None if seconds is None else ns(seconds)

    return Spent(
        ns(spent.time_s),
        ns(spent.messages_s),
        ns(spent.blocked_s),
        ns(spent.cpu_s),
        known_ns(spent.stalled_io_s),
        known_ns(spent.stalled_memory_s),
        spent.read_bytes,
        spent.written_bytes,
    )
