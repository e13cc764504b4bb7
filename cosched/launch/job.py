"""Turns the user's request into a job that can be started.

``resolve`` decides whose launcher starts the job, finds the MPI and says what does not
fit. ``Job.command`` is then pure: the same job with and without cosched's environment,
so that both arms of a comparison start the same way.
"""

from __future__ import annotations

import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from cosched.core.errors import CoschedError
from cosched.launch.command import (
    TRANSPORT_VARIABLES,
    Command,
    Layout,
    Site,
    binding_in,
    engine_by_name,
    is_launcher,
    job_command,
    make_layout,
    own_environment,
    wrapped_command,
)
from cosched.launch.environment import drops_environment, presets_preload
from cosched.launch.family import Engine, Family, Mpi
from cosched.launch.given.front import split_front
from cosched.launch.given.preload import ranks_are_alike
from cosched.launch.mpi import (
    Places,
    find_compiler,
    find_mpi,
    find_mpicc,
    launcher_version,
)
from cosched.launch.program import Program, inspect, require, which

_GUESSES_MAX = 3


@dataclass(frozen=True, slots=True)
class Request:
    """The user's request; None and () stand for the default."""

    argv: tuple[str, ...]
    ranks: int | None = None
    per_host: int | None = None
    mpi: str | None = None
    root: bool = False


@dataclass(frozen=True, slots=True)
class Job:
    """A job that can be started. ``layout`` is None behind a user's own launcher, whose
    command line is ``argv``; ``front`` are the words in front of it, such as ``time``.

    ``surely_shimmed``: each rank is started with what is put into its environment, as far
    as can be seen.
    """

    argv: tuple[str, ...]
    label: str
    engine: Engine
    mpi: Mpi | None
    mpicc: Path | None
    site: Site
    layout: Layout | None
    root: bool
    standard_abi: bool = False
    surely_shimmed: bool = True
    warnings: tuple[str, ...] = ()
    front: tuple[str, ...] = ()

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
        if self.layout is None or self.mpi is None:
            return wrapped_command(self.engine, self.argv, tasks, self.front)
        return job_command(
            self.mpi,
            self.site,
            self.layout,
            {**self.own_environment(), **tasks},
            self.argv,
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
        return signal.SIGKILL if self.engine is Engine.HYDRA else signal.SIGTERM


def resolve(request: Request, site: Site, places: Places) -> Job:
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
    return Job(
        argv=request.argv,
        label=program.label,
        engine=mpi.engine,
        mpi=mpi,
        mpicc=mpi.mpicc or find_compiler(program, places),
        site=replace(site, transport_chosen=chosen, binding=binding_in(environ, mpi)),
        layout=make_layout(
            request.ranks, request.per_host, len(site.addresses), site.slots
        ),
        root=request.root,
        standard_abi=program.standard_abi,
    )


def starts_ranks_itself(argv: Sequence[str]) -> bool:
    """Whether ``argv`` is a launcher's command line, perhaps behind ``time`` or ``env``."""
    return is_launcher(split_front(argv)[1][0])


def _resolve_wrapped(
    request: Request,
    front: tuple[str, ...],
    argv: tuple[str, ...],
    site: Site,
    places: Places,
) -> Job:
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
    program = _guess_program(argv[1:], places.environ)
    engine = engine_by_name(word)
    family = None
    if engine is None or engine is Engine.ORTE:
        version = launcher_version(launcher, places.environ)
        engine, family = version.engine, version.family
    elif engine is Engine.PRRTE:
        family = Family.OPENMPI
    warnings = tuple(_wrapped_warnings(front, argv, family, program, places.environ))
    return Job(
        argv=argv,
        label=program.label,
        engine=engine,
        mpi=None,
        mpicc=_wrapped_mpicc(launcher, family, program, places),
        site=site,
        layout=None,
        root=request.root,
        standard_abi=program.standard_abi,
        surely_shimmed=not warnings and ranks_are_alike(argv[1:], program, places.environ),
        warnings=warnings,
        front=front,
    )


def _wrapped_mpicc(
    launcher: Path, family: Family | None, program: Program, places: Places
) -> Path | None:
    """Returns the wrapper of the program's MPI if known, otherwise of the launcher's."""
    if program.library is None and family is not None:
        beside = find_mpicc(program, launcher, family)
        if beside is not None:
            return beside
    return find_compiler(program, places)


def _wrapped_warnings(
    front: Sequence[str],
    argv: Sequence[str],
    family: Family | None,
    program: Program,
    environ: Mapping[str, str],
) -> list[str]:
    warnings = []
    used = program.family
    if family is not None and used not in (None, family):
        assert used is not None
        warnings.append(
            f"{program.argv[0]} uses {used.title}, but {argv[0]} is {family.title}'s"
        )
    if drops_environment(argv, environ):
        warnings.append(
            f"{argv[0]} gives its ranks no variables (--export), so they are not "
            "coscheduled; use --export=ALL, or the partition's TaskProlog"
        )
    if any(word.startswith("LD_PRELOAD=") for word in front):
        warnings.append(f"{front[0]} sets LD_PRELOAD itself; the ranks get cosched's")
    if presets_preload(argv):
        warnings.append(f"{argv[0]} sets LD_PRELOAD itself, which may hide cosched's")
    return warnings


def _guess_program(words: Sequence[str], environ: Mapping[str, str]) -> Program:
    """Guesses the program in a launcher's command line, whose options are unknown here.

    It is the first word that starts an MPI program, otherwise the first that starts any
    program. A wrong guess affects the job's default name and the choice of compiler only.
    """
    guesses: list[Program] = []
    for index, word in enumerate(words):
        if len(guesses) == _GUESSES_MAX:
            break
        path = None if word.startswith("-") else which(word, environ)
        if path is None:
            continue
        program = inspect(words[index:], environ, path)
        if program.family is not None:
            return program
        guesses.append(program)
    return guesses[0] if guesses else Program(tuple(words), None, "job")
