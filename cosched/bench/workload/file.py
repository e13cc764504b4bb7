"""Reads workload files: the jobs that a bench runs.

A workload is TOML. Each job needs its name, its ranks and its program; all other keys are
optional::

    title = "wavefront4"
    description = "four pipelines at once"

    [[job]]
    name = "wavefront"
    source = "../../programs/wavefront.c"
    args = "--preset demo"
    ranks = 2
    count = 4

    [[job]]
    name = "analysis"
    command = ["python3", "analyse.py", "--fast"]
    ranks = 4
    ppn = 2
    start = 1.5
    timeout = 300
    env = { OMP_NUM_THREADS = "1" }
    cwd = "analysis"

    [[job]]
    name = "solver"
    module = "package.solver"
    args = "--class W"
    ranks = 2

A job has one of three kinds of program:

    command    any command, found in PATH as by a shell
    source     a C file, relative to the workload file; the bench compiles it with mpicc
    module     a Python module, run as ``python -m`` by the Python that runs the bench

``source`` and ``module`` get ``args``. ``command`` and ``args`` are lists, or strings that
are split as a shell splits them; no shell runs. ``JobSpec`` has all keys of a job.

An ``[arrivals]`` table draws the times of submission (arrivals.py); no job then has a
``start``.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from cosched.bench.simulate.models import Model
from cosched.bench.workload.arrivals import Arrivals
from cosched.core.config.kinds import (
    LINE,
    TEXT,
    WORDS,
    Kind,
    list_of,
    mapping,
    seconds,
    shown,
    whole,
)
from cosched.core.config.mistakes import Mistake
from cosched.core.config.tables import (
    REQUIRED,
    key,
    optional_table,
    table,
    table_kind,
)
from cosched.core.errors import CoschedError
from cosched.documents import parse_text, read_document
from cosched.rundir.paths import check_job_name

A_YEAR_S = 366 * 86400.0
RANKS_MAX = 1 << 20
COUNT_MAX = 1000
_WHAT_RUNS = ("command", "source", "module")


def _parse_name(raw: Any) -> str:
    try:
        return check_job_name(TEXT.parse(raw))
    except CoschedError:
        raise CoschedError(
            f"{shown(raw)} is not a job name: use 1 to 63 characters of letters, digits, "
            "'.', '_', '-'"
        ) from None


def _parse_path(raw: Any) -> Path:
    text = TEXT.parse(raw)
    if not text:
        raise CoschedError(f"{shown(raw)} is not a path")
    return Path(text)


def _parse_command(raw: Any) -> tuple[str, ...]:
    words = WORDS.parse(raw)
    if not words or not words[0]:
        raise CoschedError(f"{shown(raw)} is not a command: it is empty")
    return words


_NAME = Kind("1 to 63 letters, digits, `.`, `_`, `-`", _parse_name, str)
_PATH = Kind("path", _parse_path, str)
_COMMAND = Kind(WORDS.form, _parse_command, list)


@dataclass(frozen=True, slots=True)
class JobSpec:
    """One ``[[job]]`` table. Exactly one of ``command`` and ``source`` is set: a module
    has become a command."""

    name: str = key(_NAME, REQUIRED, "The job's name.")
    ranks: int = key(whole(1, RANKS_MAX), REQUIRED, "MPI ranks of the job.")
    command: tuple[str, ...] = key(_COMMAND, (), "The program with its arguments.")
    source: Path | None = key(_PATH, None, "A C file, relative to the workload file.")
    args: tuple[str, ...] = key(WORDS, (), "Arguments of source or module.")
    count: int = key(whole(1, COUNT_MAX), 1, "How many such jobs are submitted.")
    start_s: float = key(seconds(0.0, A_YEAR_S), 0.0, "When the job is submitted.")
    #: None: as the nodes have room.
    ppn: int | None = key(whole(1, RANKS_MAX), None, "At most so many ranks on a node.")
    env: Mapping[str, str] = key(
        mapping("table of text", TEXT), {}, "Variables that the job gets."
    )
    #: None: the directory of the bench.
    cwd: Path | None = key(_PATH, None, "Where it runs, relative to the workload file.")
    timeout_s: float = key(
        seconds(0.001, A_YEAR_S), 600.0, "A job that runs longer counts as failed."
    )
    model: Model = table(Model)
    first: int = key(whole(1, RANKS_MAX), 1, "Its first node.")
    module: str = key(TEXT, "", "A Python module that the bench's Python runs.")

    def contradictions(self) -> Iterator[Mistake]:
        """Yields keys that exclude or need each other."""
        if sum(bool(getattr(self, each)) for each in _WHAT_RUNS) != 1:
            text = (
                "give exactly one of 'command' (what to run), 'source' (a C file to build "
                "and run) and 'module' (of Python)"
            )
            yield Mistake("", text)
        if self.args and self.command:
            text = "belongs to 'source' and 'module'; write arguments into 'command'"
            yield Mistake("args", text)
        for name in self.env:
            if not name or "=" in name or "\0" in name:
                yield Mistake("env", f"{shown(name)} is not the name of a variable")

    def found_in(self, folder: Path) -> JobSpec:
        """Returns the job of a workload file in ``folder``."""
        spec = self
        if spec.module:
            command = (sys.executable, "-m", spec.module, *spec.args)
            spec = replace(spec, module="", command=command, args=())
        return replace(
            spec,
            source=folder / spec.source if spec.source else None,
            cwd=folder / spec.cwd if spec.cwd else None,
        )

    def place(self, nodes: int) -> range:
        """Returns the places of its nodes, from 0. They end above ``nodes`` if the job does
        not fit."""
        before = self.first - 1
        ppn = self.ppn or -(-self.ranks // max(1, nodes - before))
        return range(before, before + -(-self.ranks // ppn))


@dataclass(frozen=True, slots=True)
class JobInstance:
    """One job as it is submitted."""

    name: str  #: unique in the workload
    spec: JobSpec  #: its ``[[job]]`` table
    start_s: float = 0.0  #: its submission, from the begin of a run


_JOBS = list_of("list of tables", table_kind("table", JobSpec))


@dataclass(frozen=True, slots=True)
class Workload:
    """A parsed workload file."""

    title: str = key(LINE, REQUIRED, "The name of the file's runs.", in_file="")
    description: str = key(LINE, REQUIRED, "Shown with the results.", in_file="")
    jobs: tuple[JobSpec, ...] = key(_JOBS, REQUIRED, "The jobs.", name="job", in_file=())
    origin: str = "workload"  #: names the file in errors
    #: Draws the times of submission; None: each job has a fixed one.
    arrivals: Arrivals | None = optional_table(Arrivals)

    def contradictions(self) -> Iterator[Mistake]:
        """Yields names that are not unique, and times that arrivals exclude."""
        if not self.jobs:
            yield Mistake("", "no jobs; add at least one [[job]] table")
        for number, spec in enumerate(self.jobs, 1):
            if self.arrivals is not None and spec.start_s:
                text = "excludes [arrivals]; leave one of them out"
                yield Mistake(f"job.{number}.start", text)
        seen: set[str] = set()
        for number, spec in enumerate(self.jobs, 1):
            where = f"job.{number}.name"
            for name in _instance_names(spec):
                try:
                    check_job_name(name)
                except CoschedError as error:
                    yield Mistake(where, str(error))
                if name in seen:
                    text = "rename one, or use 'count' for instances"
                    yield Mistake(where, f"two jobs are called '{name}'; {text}")
                seen.add(name)

    def instances(self) -> tuple[JobInstance, ...]:
        """Returns every job instance, in order of submission."""
        instances = _instances(self.jobs)
        if self.arrivals is not None:
            starts_s = self.arrivals.starts_s(len(instances))
            pairs = zip(instances, starts_s, strict=True)
            instances = [replace(instance, start_s=start_s) for instance, start_s in pairs]
        return tuple(sorted(instances, key=lambda instance: instance.start_s))

    def programs(self) -> tuple[JobInstance, ...]:
        """Returns the first instance of each ``[[job]]``, in order of the file; each is
        submitted at once, to run alone."""
        first = {instance.spec.name: instance for instance in reversed(self.instances())}
        return tuple(replace(first[spec.name], start_s=0.0) for spec in self.jobs)


def load_workload(path: Path) -> Workload:
    """Reads the workload in the file ``path``."""
    return parse_workload(read_document(path), str(path), path.parent)


def parse_workload(text: str, origin: str, folder: Path) -> Workload:
    """Reads the workload in ``text``; ``origin`` names it in errors.

    Sources are relative to ``folder``.
    """
    workload = parse_text(text, origin, Workload)
    return replace(
        workload,
        title=workload.title or Path(origin).stem,
        jobs=tuple(spec.found_in(folder) for spec in workload.jobs),
        origin=origin,
    )


def _instances(jobs: tuple[JobSpec, ...]) -> list[JobInstance]:
    return [
        JobInstance(name, spec, spec.start_s)
        for spec in jobs
        for name in _instance_names(spec)
    ]


def _instance_names(spec: JobSpec) -> list[str]:
    if spec.count == 1:
        return [spec.name]
    return [f"{spec.name}.{n}" for n in range(1, spec.count + 1)]
