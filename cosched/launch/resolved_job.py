"""Turns the user's request into a job that can be started.

``resolve`` decides whose launcher starts the job, finds the MPI and says what does not
fit. ``ResolvedJob.command`` is then pure: the same job with and without cosched's
environment, so that both arms of a comparison start the same way.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path

from cosched.core.errors import CoschedError
from cosched.core.named_tuples import NamedTuple
from cosched.launch.command import (
    TRANSPORT_VARIABLES,
    Command,
    Layout,
    Site,
    binding_in,
    job_command,
    launcher_kind_of,
    make_layout,
    own_environment,
    wrapped_command,
)
from cosched.launch.family import Family, LauncherKind, Mpi
from cosched.launch.given.alike import ranks_are_alike
from cosched.launch.given.carried import drops_environment, hides_preload
from cosched.launch.given.first_word import is_launcher
from cosched.launch.given.line import Line, read_line
from cosched.launch.given.preloads import environment_behind
from cosched.launch.given.step_pmi import unserved
from cosched.launch.given.wrapping_programs import split_front
from cosched.launch.mpi import (
    SearchPath,
    find_compiler,
    find_mpi,
    find_mpicc,
    launcher_version,
)
from cosched.launch.program import Program, inspect, require, which

_GUESSES_MAX = 3


class Request(NamedTuple):
    """The user's request for a job."""

    argv: tuple[str, ...]  #: the program and its arguments, or a launcher's command line
    #: All tasks; None: the hosts are filled to ``per_host`` or their slots, by default 1.
    ranks: int | None = None
    #: The most tasks on a host; None: the host's slots, or an equal part of the ranks.
    per_host: int | None = None
    #: A family, a prefix or an mpiexec; None: the MPI that the program uses.
    mpi: str | None = None
    #: Whether root starts the job, which Open MPI's launcher must be allowed.
    root: bool = False


class ResolvedJob(NamedTuple):
    """A job that can be started."""

    #: The program and its arguments, or the user's own launcher and its words.
    argv: tuple[str, ...]
    label: str  #: the program's name for users
    engine: LauncherKind  #: the launcher's kind
    mpi: Mpi | None  #: the MPI that starts the job; None: the user's own launcher does
    mpicc: Path | None  #: the compiler wrapper for the shim; None: none was found
    site: Site  #: the hosts; empty behind the user's own launcher
    layout: Layout | None  #: the numbers of tasks; None: the user's own launcher has them
    root: bool  #: whether root starts the job, which Open MPI's launcher must be allowed
    standard_abi: bool = False  #: whether the program follows MPI 5's own ABI
    #: Whether each rank is started with the variables that are put into its environment, as
    #: far as can be seen.
    surely_shimmed: bool = True
    warnings: tuple[str, ...] = ()  #: one line each for the user
    #: The words in front of the user's own launcher, such as ``time``.
    front: tuple[str, ...] = ()
    #: ``argv`` as read; None: cosched-run's own launcher starts the job.
    line: Line | None = None
    environ: Mapping[str, str] = {}  #: the user's environment

    @property
    def wrapped(self) -> bool:
        """Whether the user's own launcher starts the tasks."""
        return self.layout is None

    @property
    def launcher(self) -> str:
        """The name of the launcher, for users."""
        return self.argv[0] if self.mpi is None else str(self.mpi.mpiexec)

    def require_mpicc(self) -> Path:
        """Returns the compiler wrapper; CoschedError, with the searched place, if none."""
        if self.mpicc is None:
            name = "mpicc_abi (MPI 5's standard ABI)" if self.standard_abi else "mpicc"
            raise CoschedError(f"no {name} beside {self.launcher} to build the shim with")
        return self.mpicc

    def command(self, tasks: Mapping[str, str]) -> Command:
        """Returns the command that starts the job, with ``tasks`` for every rank."""
        if self.line is not None:
            return wrapped_command(self.line, tasks, self.environ, self.front)
        assert self.mpi is not None
        assert self.layout is not None
        return job_command(
            self.mpi,
            self.site,
            self.layout,
            {**self.own_environment(), **tasks},
            self.argv,
            self.environ,
            root=self.root,
        )

    def own_environment(self) -> dict[str, str]:
        """The variables that the tasks need to reach each other, even without cosched."""
        if self.mpi is None:
            return {}
        return own_environment(self.site, self.mpi)

    @property
    def death_signal(self) -> signal.Signals:
        """The signal that surely ends the launcher and its ranks.

        Hydra's proxies kill the ranks when their launcher is dead, but only pass SIGTERM
        on. Open MPI's launcher needs SIGTERM to end the ranks.
        """
        return signal.SIGKILL if self.engine is LauncherKind.HYDRA else signal.SIGTERM


def resolve(request: Request, site: Site, places: SearchPath) -> ResolvedJob:
    """Finds everything that ``request`` needs; CoschedError names what is missing."""
    front, rest = split_front(request.argv)
    if is_launcher(rest[0]):
        return _resolve_wrapped(request, front, rest, site, places)
    environ = places.environ
    elsewhere = bool(site.addresses) and site.agent is None
    for word in (*front[:1], rest[0]):
        path = which(word, environ) if elsewhere else require(word, environ)
    program = inspect(rest, environ, path)
    mpi = find_mpi(program, request.mpi, places)
    chosen = any(name in environ for name in TRANSPORT_VARIABLES[mpi.family])
    return ResolvedJob(
        argv=request.argv,
        label=program.label,
        engine=mpi.engine,
        mpi=mpi,
        mpicc=mpi.mpicc or find_compiler(program, places),
        site=site._replace(transport_chosen=chosen, binding=binding_in(environ, mpi)),
        layout=make_layout(
            request.ranks, request.per_host, len(site.addresses), site.slots
        ),
        root=request.root,
        standard_abi=program.standard_abi,
        environ=environ,
    )


def starts_ranks_itself(argv: Sequence[str]) -> bool:
    """Whether ``argv`` is a launcher's command line, perhaps behind ``time`` or ``env``."""
    return is_launcher(split_front(argv)[1][0])


def _resolve_wrapped(
    request: Request,
    front: tuple[str, ...],
    argv: tuple[str, ...],
    site: Site,
    places: SearchPath,
) -> ResolvedJob:
    word = argv[0]
    for option, given in (
        ("--ranks", request.ranks is not None),
        ("--ppn", request.per_host is not None),
        ("--hosts or --hostfile", bool(site.addresses)),
        ("--mpi", request.mpi is not None),
    ):
        if given:
            raise CoschedError(
                f"{option} is for jobs that cosched-run starts itself; "
                f"put it among {word}'s own options, or leave {word} out"
            )
    if front:
        require(front[0], places.environ)
    launcher = require(word, places.environ, "launcher")
    engine = launcher_kind_of(word)
    family = None
    if engine is None or engine is LauncherKind.ORTE:
        version = launcher_version(launcher, places.environ)
        engine, family = version.engine, version.family
    elif engine is LauncherKind.PRRTE:
        family = Family.OPENMPI
    line = read_line(argv, engine, environment_behind(front, places.environ))
    program = _guess_program(line, places.environ)
    warnings = tuple(_wrapped_warnings(line, family, program))
    return ResolvedJob(
        argv=argv,
        label=program.label,
        engine=engine,
        mpi=None,
        mpicc=_wrapped_mpicc(launcher, family, program, places),
        site=site,
        layout=None,
        root=request.root,
        standard_abi=program.standard_abi,
        surely_shimmed=not warnings and ranks_are_alike(line, program),
        warnings=warnings,
        front=front,
        line=line,
        environ=places.environ,
    )


def _wrapped_mpicc(
    launcher: Path, family: Family | None, program: Program, places: SearchPath
) -> Path | None:
    """Returns the wrapper of the program's MPI if known, otherwise of the launcher's."""
    if program.library is None and family is not None:
        beside = find_mpicc(program, launcher, family)
        if beside is not None:
            return beside
    return find_compiler(program, places)


def _wrapped_warnings(line: Line, family: Family | None, program: Program) -> list[str]:
    warnings = []
    launcher = line.argv[0]
    used = program.family
    if family is not None and used not in (None, family):
        assert used is not None
        warnings.append(
            f"{program.argv[0]} uses {used.title}, but {launcher} is {family.title}'s"
        )
    if os.path.basename(launcher) == "srun" and (problem := unserved(line, program)):
        warnings.append(problem)
    if drops_environment(line):
        warnings.append(
            f"{launcher} gives its ranks no variables (--export=NIL), so they are not "
            "coscheduled; use --export=NONE or --export=ALL"
        )
    if hides_preload(line):
        warnings.append(
            f"a file of {launcher} sets LD_PRELOAD for ranks, which lack that library or "
            "cosched's; put it on the command line, or into LD_PRELOAD of cosched-run"
        )
    return warnings


def _guess_program(line: Line, environ: Mapping[str, str]) -> Program:
    """Guesses the MPI program in a launcher's command line.

    It is the first word that starts an MPI program, beginning with the program that the
    launcher starts: a script may start another one. Otherwise it is that one itself. A
    wrong guess affects the job's default name and the choice of compiler only.
    """
    guesses: list[Program] = []
    for context in line.all_contexts:
        words = context.program
        for index, word in enumerate(words):
            if len(guesses) == _GUESSES_MAX:
                break
            path = None if index and word.startswith("-") else which(word, environ)
            if path is None:
                continue
            program = inspect(words[index:], environ, path)
            if program.family is not None:
                return program
            guesses.append(program)
    return guesses[0] if guesses else Program(line.argv[1:], None, "job")
