"""Makes the tasks of a node: processes that are held and then become the user's
programs."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from cosched.cluster.agent.frames import Prepare
from cosched.cluster.pmi.service import JobLayout, nodes_of
from cosched.core.cluster.startup.questions import Command
from cosched.core.errors import CoschedError
from cosched.core.task_rights import identify
from cosched.linux.identity import become, find_account
from cosched.linux.native.held_process import HeldProcess, Program
from cosched.linux.processes.signals import signal_name

STDOUT, STDERR = 1, 2


@dataclass(frozen=True, slots=True)
class TaskSpec:
    """A task of this node."""

    rank: int  #: in its world
    path: str  #: the file of its program
    argv: tuple[str, ...]  #: the program and its arguments
    cwd: str  #: its working directory
    environ: Mapping[str, str]  #: variables of its own program


@dataclass(frozen=True, slots=True)
class Given:
    """The descriptors and CPUs that a steward gives a task."""

    stdin: int  #: its standard input
    inherited: Sequence[int]  #: other descriptors that it keeps
    cpus: Sequence[int]  #: empty for any


@dataclass(slots=True)
class Task:
    """One task of this node."""

    member: TaskSpec  #: the program, and its place among the ranks
    process: HeldProcess  #: waits at its gate, then becomes the program
    #: The steward's ends of pipes, with their streams.
    outputs: dict[int, int] = field(default_factory=dict)
    status: int | None = None  #: its wait status, None while it lives

    @property
    def rank(self) -> int:
        return self.member.rank

    @property
    def pid(self) -> int:
        return self.process.pid


def become_user(uid: int, gid: int, umask: int) -> None:
    """Gives this process the rights of a job's user, and a session of its own. Raises
    CoschedError if the user may not have them here; StillPrivileged: end this process."""
    os.setsid()
    os.umask(umask)
    if os.geteuid() == 0:
        become(identify(uid, gid, find_account(uid)))
    elif os.geteuid() != uid:
        raise CoschedError(f"this agent cannot start jobs of user {uid}")


def layout_of(job: Prepare) -> JobLayout:
    """Returns where the ranks of the job are."""
    nodes = nodes_of(job.hosts, job.counts)
    programs = tuple(command.ranks for command in job.commands)
    given = job.given if job.world else None
    return JobLayout(job.name, nodes, job.place, programs, given, job.world)


def find_tasks(job: Prepare, layout: JobLayout) -> list[TaskSpec]:
    """Returns the tasks of this node. Raises CoschedError for a directory or a program that
    is not there."""
    here = {layout.program_of(rank) for rank in layout.ranks}
    cwds = {each: _directory(job, job.commands[each]) for each in here}
    words: tuple[str, ...] = ()
    if job.script:
        words = script_words(job)
        paths = dict.fromkeys(here, words[0])
    else:
        paths = {each: _find(job, job.commands[each], cwds[each]) for each in sorted(here)}
    members = []
    for rank in layout.ranks:
        program = layout.program_of(rank)
        command = job.commands[program]
        argv = words or command.argv
        members.append(TaskSpec(rank, paths[program], argv, cwds[program], command.environ))
    return members


def _directory(job: Prepare, command: Command) -> str:
    return os.path.join(job.cwd, command.cwd) if command.cwd else job.cwd


def _find(job: Prepare, command: Command, cwd: str) -> str:
    try:
        os.chdir(cwd)
    except OSError as error:
        raise CoschedError(f"{cwd}: {error.strerror}") from None
    search_path = job.environ.get("PATH", os.defpath)
    if command.path:
        search_path = command.path + os.pathsep + search_path
    return find_program(command.argv[0], search_path, cwd)


def script_words(job: Prepare) -> tuple[str, ...]:
    """Writes the batch script of a job into its directory on this node; returns the words
    that run it there, as the kernel does. Raises CoschedError if its interpreter is not
    there."""
    first, _, _ = job.script.partition("\n")
    interpreter, _, argument = first.removeprefix("#!").strip(" \t").partition(" ")
    name = job.commands[0].argv[0]
    if not (os.path.isfile(interpreter) and os.access(interpreter, os.X_OK)):
        raise CoschedError(f"{name}: its interpreter {interpreter}: no such program")
    path = os.path.join(job.directory, "script")
    try:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        with open(os.open(path, flags, 0o600), "wb") as file:
            file.write(os.fsencode(job.script))
    except OSError as error:
        raise CoschedError(f"{name}: {path}: {error.strerror}") from None
    argument = argument.strip(" \t")
    options = (argument,) if argument else ()
    return (interpreter, *options, path, *job.commands[0].argv[1:])


def open_input(path: str) -> int:
    """Opens a file as standard input. Raises CoschedError if that fails."""
    try:
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        raise CoschedError(f"input {path}: {error.strerror}") from None


def make_task(member: TaskSpec, given: Given) -> Task:
    """Makes the process of a task, which is held."""
    outputs, theirs = {}, [given.stdin]
    with contextlib.ExitStack() as ours, contextlib.ExitStack() as its:
        for stream in (STDOUT, STDERR):
            readable, writable = os.pipe2(os.O_CLOEXEC)
            ours.callback(os.close, readable)
            its.callback(os.close, writable)
            os.set_blocking(readable, False)
            outputs[readable] = stream
            theirs.append(writable)
        standard = (theirs[0], theirs[1], theirs[2])
        program = Program(member.path, member.argv, standard, given.inherited, given.cpus)
        task = Task(member, HeldProcess(program), outputs)
        ours.pop_all()
    return task


def find_program(name: str, search_path: str, cwd: str) -> str:
    """Returns the file of a program, as a shell in ``cwd`` finds it. Raises CoschedError if
    there is none that this user may execute."""
    if "/" in name:
        places = [os.path.join(cwd, name)]
    else:
        places = [os.path.join(cwd, each, name) for each in search_path.split(os.pathsep)]
    for place in places:
        if os.path.isfile(place) and os.access(place, os.X_OK):
            return place
    if any(os.path.exists(place) for place in places):
        raise CoschedError(f"{name}: is not a program that this user may run")
    raise CoschedError(f"{name}: no such program")


def exit_code(status: int) -> int:
    """Returns a wait status as a shell reports it: 128 and more for a signal."""
    code = os.waitstatus_to_exitcode(status)
    return 128 - code if code < 0 else code


def describe_end(rank: int, status: int) -> str:
    """Returns one line about a task that failed."""
    code = os.waitstatus_to_exitcode(status)
    if code >= 0:
        return f"rank {rank} ended with status {code}"
    return f"rank {rank} was ended by {signal_name(-code)}"
