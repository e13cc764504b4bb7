"""Runs the tasks of one job on one node, as the job's user.

The steward makes the tasks, serves their PMI, carries their output and ends them. It is
bound to its agent by one socket: when the agent ends, the steward ends the job's tasks.
Every descendant of the tasks is gone when the steward reports their end.
"""

from __future__ import annotations

import contextlib
import math
import os
import signal
import socket
import time
from collections.abc import Mapping
from pathlib import Path

from cosched.cluster.agent.frames import (
    AddCredit,
    AnyFrame,
    CannotStart,
    DeliverTables,
    EndTasks,
    Frame,
    FrameReader,
    Go,
    OutputLost,
    OutputWritten,
    Prepare,
    RunTasks,
    StopTasks,
    TableReady,
    TaskAnswered,
    TaskAsked,
    TaskEndedBadly,
    TasksEnded,
    TasksRun,
    TasksStopped,
    TasksWait,
    TasksWrote,
    WriteInput,
    WriteOutput,
    encode_frame,
    receive_frame,
)
from cosched.cluster.agent.rank0_input import InputPipe
from cosched.cluster.agent.steward.children import Children
from cosched.cluster.agent.steward.killing import JobPlace, Killer
from cosched.cluster.agent.steward.mate_addresses import introduce
from cosched.cluster.agent.steward.outputs import TaskOutputs
from cosched.cluster.agent.steward.stopping import Stopper
from cosched.cluster.agent.steward.streams import OutputFiles
from cosched.cluster.agent.steward.task_process import (
    STDERR,
    Given,
    Task,
    become_user,
    describe_end,
    exit_code,
    find_tasks,
    layout_of,
    make_task,
    open_input,
)
from cosched.cluster.messages import Failure
from cosched.cluster.pmi.pmi1 import LONG_VALUE_BYTES, VALUE_BYTES, Pmi1Service
from cosched.cluster.pmi.pmix import PmixService
from cosched.cluster.pmi.service import Service
from cosched.cluster.submission_request import FROM_CLIENT
from cosched.core.cluster.coupling.mate_messages import Addresses
from cosched.core.cluster.startup.ends import DESCENDANTS_LINGER_S, WORK_S
from cosched.core.cluster.startup.questions import Question
from cosched.core.complaints import fault
from cosched.core.decoding import printable
from cosched.core.errors import CoschedError
from cosched.linux import proc
from cosched.linux.files.mpi_segments import (
    FIRST_LOOK_S,
    Files,
    mapped_files,
    remove_unused,
)
from cosched.linux.identity import StillPrivileged
from cosched.linux.processes.limits import limit_task, most_processes
from cosched.service.loop import Watch

#: PMIs of a job; for PMI-1 the longest value, too.
PMI1: Mapping[str, int] = {"pmi1": VALUE_BYTES, "pmi1-long": LONG_VALUE_BYTES}
PMIX = "pmix"


def run_steward(
    agent: socket.socket,
    reader: FrameReader,
    prepare: Prepare,
    frames: list[AnyFrame],
    place: JobPlace | None,
) -> None:
    """Runs one job's part on this node; returns when all is over. frames: those after
    ``prepare``. place: where the steward makes a control group for the tasks; None:
    nowhere."""
    steward = Steward(agent, reader, prepare.in_words(), place)
    try:
        steward.prepare()
    except StillPrivileged as error:
        steward.report(CannotStart(str(error)))
        return  # it may be root, so it does nothing more
    except Exception as error:  # noqa: BLE001  (it is reported to the agent)
        steward.report(_cannot_start(error))
        steward.finish()
        return
    steward.run(frames)


def _cannot_start(error: Exception) -> CannotStart:
    if isinstance(error, CoschedError):
        return CannotStart(printable(str(error)))
    # The node has no process or descriptor left, or no node can make such tasks.
    what = error.strerror if isinstance(error, OSError) else fault(error)
    return CannotStart(f"cannot make the tasks: {what}", again=True)


class Steward:
    """The tasks of one job on this node. It is the ``Events`` of its PMI service."""

    def __init__(
        self,
        agent: socket.socket,
        reader: FrameReader,
        job: Prepare,
        place: JobPlace | None,
    ) -> None:
        self._agent = agent
        self._reader = reader
        self._job = job
        self._killer = Killer(job.name, place, self._warn)
        self._stopper = Stopper(job.environ, self._warn)
        self._watch = Watch()
        self._children = Children(
            self._watch, self._note_end, self._note_children, self._warn
        )
        self._service = Service()
        self._files: OutputFiles | None = None
        self._input: InputPipe | None = None
        self._outputs = TaskOutputs(self._watch, self.report)
        self._ending = False
        self._shared_memory: Files = {}  # files that tasks have mapped
        self._began = self._look_at = math.inf  # when the tasks begin, and are looked at
        self._kill_at: float | None = None
        self._over_at: float | None = None  # the tasks have ended; descendants may linger
        self._agent_lives = True

    # --- the start ------------------------------------------------------------------------

    def prepare(self) -> None:
        """Becomes the user and makes the tasks. Raises CoschedError if that fails."""
        job = self._job
        become_user(job.uid, job.gid, job.umask)
        layout = layout_of(job)
        specs = find_tasks(job, layout)
        if job.world == 0 and job.place == 0:
            self._files = OutputFiles(job.output, job.error, job.cwd, self._lose_output)
        self._children.adopt_all()
        topology = Path(job.topology)
        if job.pmi in PMI1:
            self._service = Pmi1Service(layout, self, topology, PMI1[job.pmi])
        most = most_processes()
        for number, spec in enumerate(specs):
            rank = spec.rank
            os.chdir(spec.cwd)
            given = Given(
                self._standard_input(rank),
                self._service.inherited(rank),
                job.cpus[number] if job.cpus else (),
            )
            task = make_task(spec, given)
            os.close(given.stdin)
            self._children.add(task)
            self._killer.add(task.pid)
            with contextlib.suppress(ProcessLookupError):  # it was killed
                limit_task(task.pid, job.limits, most)
            self._service.started(rank, task.pid)
        if job.pmi == PMIX:  # its library starts threads, so the tasks are made before
            self._service = PmixService(
                Path(job.pmix_library), layout, self, Path(job.directory), topology
            )
        self._watch_all()
        self.report(TasksWait())

    def _standard_input(self, rank: int) -> int:
        """Opens the standard input of a task; all but rank 0 have an empty one."""
        if rank != 0:
            return open_input(os.devnull)
        if self._job.input != FROM_CLIENT:
            return open_input(os.path.join(self._job.cwd, self._job.input))
        self._input = InputPipe(self._watch, self.report)
        return self._input.reader

    def _watch_all(self) -> None:
        self._watch.watch(self._agent.fileno(), self._read_agent)
        self._children.watch_ends()
        for descriptor, call in self._service.watched().items():
            self._watch.watch(descriptor, call)
        for task in self._children.tasks:
            self._outputs.watch(task, self._label(task.rank) if self._job.label else "")

    # --- the loop -------------------------------------------------------------------------

    def run(self, frames: list[AnyFrame]) -> None:
        """Runs until all tasks and their descendants are gone and the output is sent."""
        for frame in frames:
            self._obey(frame)
        while not self._is_over():
            self._watch.wait(self._wait_s())
            self._enforce()
        self._service.close()
        self._killer.kill_all(WORK_S)
        remove_unused(self._shared_memory)
        if self._agent_lives:
            self.report(TasksEnded())
            self.finish()

    def finish(self) -> None:
        """Goes on writing the output of other nodes until the agent closes the socket."""
        self._agent.settimeout(None)
        while self._agent_lives:
            frames = receive_frame(self._agent, self._reader)
            if frames is None:
                break
            for frame in frames:
                if isinstance(frame, WriteOutput):
                    self._write(frame)
        if self._files is not None:
            self._files.close()

    def _write(self, frame: WriteOutput) -> None:
        assert self._files is not None
        self._files.write(frame.stream, frame.data)
        self.report(OutputWritten(frame.world, frame.place, len(frame.data)))

    def _lose_output(self, why: str) -> None:
        self.report(OutputLost(f"{why} on {self._job.hosts[self._job.place]}"))

    def report(self, frame: Frame) -> None:
        """Sends a frame to the agent."""
        if self._agent_lives:
            try:
                self._agent.sendall(encode_frame(frame))
            except OSError:
                self._lose_agent()

    def _is_over(self) -> bool:
        if self._children.left:
            return False
        if not self._agent_lives:
            return True
        return not any(task.outputs for task in self._children.tasks)

    def _wait_s(self) -> float | None:
        times = [at for at in (self._kill_at, self._over_at) if at is not None]
        at = min([self._look_at, *times])
        return None if math.isinf(at) else max(0.0, at - time.monotonic())

    def _enforce(self) -> None:
        """Does what the time has come for."""
        now = time.monotonic()
        if now >= self._look_at:
            self._note_shared_memory()
            self._look_at = self._began + 2 * (now - self._began)
        if self._kill_at is not None and now >= self._kill_at:
            self._kill_at = None
            self._killer.kill_group()
            self._children.signal_all(signal.SIGKILL)
        if self._over_at is not None and now >= self._over_at:
            self._over_at = now + DESCENDANTS_LINGER_S
            if not self._killer.kill_all(DESCENDANTS_LINGER_S):
                # Those left may keep the pipes open.
                self._outputs.leave(self._children.tasks)

    def _read_agent(self) -> None:
        frames = receive_frame(self._agent, self._reader)
        if frames is None:
            self._lose_agent()
            return
        for frame in frames:
            self._obey(frame)

    def _lose_agent(self) -> None:
        self._agent_lives = False
        if self._agent.fileno() in self._watch:
            self._watch.unwatch(self._agent.fileno())
        self._end_tasks()

    def _obey(self, frame: AnyFrame) -> None:
        match frame:
            case Go():
                self._start_tasks(frame.mates)
            case DeliverTables():
                self._service.deliver(frame.tables)
            case EndTasks():
                if frame.direct:
                    self._outputs.lose_rest()
                self._end_tasks()
            case StopTasks():
                # Tasks that end must run to end well.
                self.report(TasksStopped("" if self._ending else self._stopper.stop()))
            case RunTasks():
                self._stopper.resume()
                self.report(TasksRun())
            case WriteOutput():
                self._write(frame)
            case AddCredit():
                self._outputs.add_credit(frame.written)
            case TaskAnswered():
                self._service.answer(frame.number, frame.answer)
            case WriteInput():
                if self._input is not None:
                    self._input.add(frame)
            case _:
                raise CoschedError(f"a steward does not take {type(frame).__name__}")

    # --- the tasks ------------------------------------------------------------------------

    def _start_tasks(self, mates: Addresses) -> None:
        environ = {**self._job.environ, **introduce(mates, Path(self._job.directory))}
        for task in self._children.tasks:
            own = self._service.environment(task.rank)
            task.process.open({**environ, **task.member.environ, **own})
        self._began = time.monotonic()
        self._look_at = self._began + FIRST_LOOK_S

    def _end_tasks(self) -> None:
        """Ends the tasks by SIGTERM, and after the grace by SIGKILL."""
        if self._ending:
            return
        self._ending = True
        self._note_shared_memory()
        for task in self._children.tasks:
            task.process.discard()
        self._children.signal_all(signal.SIGTERM)
        self._stopper.resume()
        self._children.signal_all(signal.SIGCONT)
        self._kill_at = time.monotonic() + self._job.grace_s

    def _note_shared_memory(self) -> None:
        self._shared_memory |= mapped_files(proc.in_groups(self._children.alive))

    def _note_children(self) -> None:
        """Handles that children have ended, or were stopped or continued."""
        problem = self._stopper.stop_again()
        if problem:
            self._warn(problem)
        if not self._children.left and self._over_at is None:
            # Descendants of the tasks may hold their pipes open.
            self._over_at = time.monotonic() + DESCENDANTS_LINGER_S

    def _note_end(self, task: Task, status: int) -> None:
        problem = task.process.read_failure()
        task.process.close()
        if problem:
            line = printable(f"rank {task.rank}: {task.member.argv[0]}: {problem}")
            self._fail(exit_code(status), line)
        elif status != 0:
            self._fail(exit_code(status), describe_end(task.rank, status))
        self._service.ended(task.rank)

    def _fail(self, status: int, reason: str) -> None:
        if not self._ending:
            here = self._job.hosts[self._job.place]
            world = f" in spawned world {self._job.world}" if self._job.world else ""
            self.report(TaskEndedBadly(Failure(status or 1, f"{reason}{world} on {here}")))

    # --- what the PMI service reports -----------------------------------------------------

    def table_ready(self, table: bytes) -> None:
        self.report(TableReady(table))

    def asked(self, number: int, question: Question) -> None:
        self.report(TaskAsked(number, question))

    def aborted(self, rank: int, status: int, message: str) -> None:
        self._fail(status, message)

    def finalized(self, rank: int) -> None:
        return

    def unsupported(self, rank: int, what: str) -> None:
        self.refused(rank, f"{what} is not supported in a domain")

    def refused(self, rank: int, what: str) -> None:
        self._warn(f"rank {self._label(rank)}: {what}")

    def _label(self, rank: int) -> str:
        return f"{self._job.world}:{rank}" if self._job.world else str(rank)

    def _warn(self, line: str) -> None:
        self.report(TasksWrote(STDERR, os.fsencode(f"cosched: {line}\n")))
