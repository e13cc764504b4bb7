"""Runs the agent of one node: joins the domain and keeps the node's part of each job."""

from __future__ import annotations

import asyncio
import os
import pwd
import secrets
import shutil
from collections import deque
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from cosched.cluster.agent.frames import AnyFrame, Frame, Prepare
from cosched.cluster.agent.nodejob import Designs, NodeJob
from cosched.cluster.agent.startup import route_of
from cosched.cluster.agent.stewards import Nursery, Steward
from cosched.cluster.config import DomainConfig
from cosched.cluster.desk import Desk, Person
from cosched.cluster.jobobject import JobObject
from cosched.cluster.keys import CONTROLLER, KeyRing
from cosched.cluster.links import Links
from cosched.cluster.messages import (
    PROTOCOL,
    AnyMessage,
    Beat,
    Chunk,
    End,
    EndNoted,
    Hello,
    HelloAgain,
    Leave,
    Message,
    NodeEnded,
    OfJob,
    Refused,
    UserReply,
    UserRequest,
    Welcome,
)
from cosched.cluster.paths import DomainPaths
from cosched.core.cluster.startup.assignment import Inventory, Units
from cosched.core.errors import CoschedError
from cosched.core.units import NS_PER_S

SLOTS = "slots"
#: Starts whose end came to this node before their first chunk.
_TOMBSTONES = 1000
#: How long a user's request may wait for the controller.
ANSWER_WITHIN_S = 30.0

Start = tuple[int, int]


class Agent:
    """The agent of the node ``name``. It is the ``Node`` of its jobs.

    log: takes one line about what happened.
    """

    def __init__(
        self,
        name: str,
        config: DomainConfig,
        keys: KeyRing,
        paths: DomainPaths,
        log: Callable[[str], None],
    ) -> None:
        self.name = name
        self._config = config
        self._paths = paths
        self._log = log
        self._links = Links(keys, config.addresses, log)
        self._incarnation = secrets.randbits(48)
        self._controller = 0
        self._cpus = sorted(os.sched_getaffinity(0))
        self._slots = config.slots or len(self._cpus)
        self._inventory = Inventory(
            {SLOTS: Units(tuple(range(self._slots)), config.queue.jobs_per_node)}
        )
        self._designs = Designs(config.startup.object, config.startup.chunk_bytes)
        self._jobs: dict[Start, NodeJob] = {}
        self._stewards: dict[Start, Steward] = {}
        self._ended_early: deque[Start] = deque(maxlen=_TOMBSTONES)
        self._requests: dict[int, tuple[UserRequest, asyncio.Future[bytes]]] = {}
        # Answers to requests of a former life of this agent must not fit new ones.
        self._request = secrets.randbits(48)
        self._tasks: set[asyncio.Task[None]] = set()
        self._nursery: Nursery | None = None
        self._over: asyncio.Future[None] | None = None

    async def run(self, ready: Callable[[], None]) -> None:
        """Runs until the domain ends or it is cancelled. ready: called when it listens.

        Raises CoschedError if it cannot listen, or if the controller refuses it.
        """
        self._paths.node(self.name).mkdir(mode=0o755, parents=True, exist_ok=True)
        self._clear_spool()
        self._over = asyncio.get_running_loop().create_future()
        self._nursery = Nursery()
        desk = Desk(self._paths.agent_socket(self.name), self._ask_controller)
        try:
            self._links.listen(self._config.nodes[self.name])
            await desk.open()
            self._spawn(self._links.receive(self._take))
            self._spawn(self._beat())
            ready()
            await self._over
        finally:
            await desk.close()
            for task in self._tasks:
                task.cancel()
            for steward in self._stewards.values():
                steward.connection.close()
            self._links.close()
            self._nursery.close()

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._finished)

    def _finished(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None:
            self._end(error)

    def _end(self, error: BaseException | None = None) -> None:
        """Ends the agent, well or by an error."""
        if self._over is None or self._over.done():
            return
        if error is None:
            self._over.set_result(None)
        else:
            self._over.set_exception(error)

    async def _beat(self) -> None:
        while True:
            if self._controller:
                self.send(CONTROLLER, Beat(self._controller))
            else:
                self._join()
            await asyncio.sleep(self._config.life.beat_ns / NS_PER_S)

    def _join(self) -> None:
        starts = tuple(job.report() for job in self._jobs.values())
        hello = Hello(
            PROTOCOL,
            self._incarnation,
            self._config.digest(),
            self._inventory.totals,
            starts,
        )
        self.send(CONTROLLER, hello)

    # --- messages -------------------------------------------------------------------------

    def _take(self, sender: str, message: AnyMessage) -> None:
        try:
            if sender == CONTROLLER and self._take_from_controller(message):
                return
            if isinstance(message, OfJob):
                self._take_of_job(sender, message)
            else:
                self._log(f"{sender} may not send {type(message).__name__}")
        except CoschedError as error:
            self._log(f"{sender}: {error}")

    def _take_from_controller(self, message: AnyMessage) -> bool:
        match message:
            case Welcome():
                self._welcome(message)
            case HelloAgain():
                self._join()
            case Refused():
                self._end(CoschedError(f"the controller refused it: {message.reason}"))
            case Leave():
                self._log("the domain has ended")
                self._end()
            case UserReply():
                request = self._requests.pop(message.number, None)
                if request is not None and not request[1].done():
                    request[1].set_result(message.body)
            case EndNoted():
                job = self._jobs.get((message.job, message.start))
                if job is not None:
                    self.forget(job)
            case _:
                return False
        return True

    def _welcome(self, message: Welcome) -> None:
        if message.controller == self._controller:
            return
        self._controller = message.controller
        self._log(f"joined the domain {self._config.name}")
        for job in list(self._jobs.values()):
            if job.route.place == 0:
                job.report_end_again()
        for request, _ in self._requests.values():
            self.send(CONTROLLER, request)

    def _take_of_job(self, sender: str, message: OfJob) -> None:
        start = (message.job, message.start)
        job = self._jobs.get(start)
        if job is None and isinstance(message, Chunk) and start not in self._ended_early:
            route = route_of(message, self._config.node_names)
            if sender not in (route.parent, CONTROLLER):
                raise CoschedError(f"job {message.job}: is not this node's parent")
            job = self._jobs[start] = NodeJob(route, self, self._designs)
        if job is not None:
            job.take(sender, message)
        elif isinstance(message, End) and sender == CONTROLLER:
            self._ended_early.append(start)
            self.send(CONTROLLER, NodeEnded(*start))

    # --- what jobs need -------------------------------------------------------------------

    def send(self, to: str, message: Message) -> None:
        self._links.send(to, message)

    def make_steward(self, job: NodeJob, found: JobObject) -> Callable[[Frame], None]:
        assert self._nursery is not None
        place = job.route.place
        if len(found.counts) != job.route.tree.size:
            raise CoschedError("the job object does not fit its tree")
        count = found.counts[place]
        assigned = self._inventory.assign(_number(job.key), count, {SLOTS: 1})
        try:
            directory = self._make_directory(job.key, found)
            steward = Steward(
                self._nursery.make(),
                lambda frame: self._take_frame(job, frame),
                lambda: self._steward_ended(job),
                self._log,
            )
        except CoschedError:
            self._inventory.release(_number(job.key))
            raise
        self._stewards[job.key] = steward
        slots = [task[SLOTS][0] for task in assigned]
        steward.send(self._prepare(job, found, directory, slots))
        self._spawn(steward.run())
        return steward.send

    def _prepare(
        self, job: NodeJob, found: JobObject, directory: Path, slots: list[int]
    ) -> Prepare:
        cpus = tuple((self._cpus[slot % len(self._cpus)],) for slot in slots)
        return Prepare(
            name=f"{found.name}.{job.key[0]}.{job.key[1]}",
            uid=found.uid,
            gid=found.gid,
            groups=_groups(found.uid, found.gid),
            argv=found.argv,
            environ={**found.environ, **self._environ_of_node()},
            cwd=found.cwd,
            umask=found.umask,
            place=job.route.place,
            hosts=job.route.hosts,
            counts=found.counts,
            cpus=cpus if found.bind else (),
            pmi=found.pmi,
            pmix_library=found.pmix_library,
            directory=str(directory),
            input=found.input,
            output=found.output,
            error=found.error,
            label=found.label,
            grace_s=found.grace_s,
        )

    def _environ_of_node(self) -> dict[str, str]:
        """Returns the node's name for its tasks where its scheduler daemon has it, too.
        Otherwise they look for a daemon by the host's name."""
        daemon = self._paths.node(self.name) / "register.sock"
        return {"COSCHED_NODE": self.name} if daemon.exists() else {}

    def _make_directory(self, start: Start, found: JobObject) -> Path:
        directory = self._paths.spool(self.name) / f"{start[0]}.{start[1]}"
        try:
            directory.parent.mkdir(mode=0o711, exist_ok=True)
            directory.mkdir(mode=0o700)
            if os.geteuid() == 0:
                os.chown(directory, found.uid, found.gid)
        except OSError as error:
            raise CoschedError(f"{directory}: {error.strerror}") from None
        return directory

    def _clear_spool(self) -> None:
        """Removes the files of jobs that an earlier life of the agent had."""
        shutil.rmtree(self._paths.spool(self.name), ignore_errors=True)

    def _take_frame(self, job: NodeJob, frame: AnyFrame) -> None:
        try:
            job.take_frame(frame)
        except CoschedError as error:
            self._log(f"job {job.key[0]}: {error}")

    def _steward_ended(self, job: NodeJob) -> None:
        del self._stewards[job.key]
        self._inventory.release(_number(job.key))
        directory = self._paths.spool(self.name) / f"{job.key[0]}.{job.key[1]}"
        shutil.rmtree(directory, ignore_errors=True)
        job.steward_ended()

    def close_steward(self, job: NodeJob) -> None:
        self._stewards[job.key].close()

    def forget(self, job: NodeJob) -> None:
        self._jobs.pop(job.key, None)

    # --- users ----------------------------------------------------------------------------

    async def _ask_controller(self, person: Person, body: bytes) -> bytes:
        """Passes a user's request on; returns the controller's answer."""
        self._request += 1
        request = UserRequest(self._request, person.uid, person.gid, body)
        answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._requests[request.number] = (request, answer)
        self.send(CONTROLLER, request)
        try:
            return await answer
        finally:
            self._requests.pop(request.number, None)


def _number(start: Start) -> int:
    """Returns a number for the inventory: a job may be started again while its former
    start still ends."""
    return start[0] << 20 | start[1]


def _groups(uid: int, gid: int) -> tuple[int, ...]:
    try:
        name = pwd.getpwuid(uid).pw_name
    except KeyError:
        return (gid,)
    return tuple(os.getgrouplist(name, gid))
