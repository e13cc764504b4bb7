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
are split as a shell splits them; no shell runs. The other keys of a job:

    count      the number of instances
    first      the number of its first node, from 1; the job runs there and on later nodes
    start      the seconds from the beginning of a run to the job's submission
    timeout    the seconds after its start at which the job counts as failed
    cwd        its working directory, relative to the workload file; by default the bench's
    model      facts about the program for a simulation (see models.py), such as
               ``{ pattern = "wavefront" }``

An ``[arrivals]`` table draws the times of submission (arrivals.py); no job then has a
``start``.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from cosched.bench.simulate.models import Model, parse_model
from cosched.bench.workload import fields
from cosched.bench.workload.arrivals import Arrivals, parse_arrivals
from cosched.bench.workload.fields import Table
from cosched.core.errors import CoschedError
from cosched.documents import decode_toml, read_document
from cosched.shm.paths import check_job_name

DEFAULT_TIMEOUT_S = 600.0
A_YEAR_S = 366 * 86400.0
RANKS_MAX = 1 << 20
COUNT_MAX = 1000

_FILE_KEYS = ("title", "description", "arrivals", "job")
_JOB_KEYS = (
    "name",
    "command",
    "source",
    "module",
    "args",
    "ranks",
    "count",
    "start",
    "ppn",
    "first",
    "env",
    "cwd",
    "timeout",
    "model",
)
_WHAT_RUNS = ("command", "source", "module")


@dataclass(frozen=True, slots=True)
class JobSpec:
    """One ``[[job]]`` table. Exactly one of ``command`` and ``source`` is set; a module has
    become a command."""

    name: str
    ranks: int
    command: tuple[str, ...] = ()
    source: Path | None = None
    args: tuple[str, ...] = ()
    count: int = 1
    start_s: float = 0.0
    ppn: int | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    cwd: Path | None = None
    timeout_s: float = DEFAULT_TIMEOUT_S
    model: Model = field(default_factory=Model)
    first: int = 1

    def place(self, nodes: int) -> range:
        """Returns the places of its nodes, from 0. They end above ``nodes`` if the job does
        not fit."""
        before = self.first - 1
        ppn = self.ppn or -(-self.ranks // max(1, nodes - before))
        return range(before, before + -(-self.ranks // ppn))


@dataclass(frozen=True, slots=True)
class JobInstance:
    """One job as it is submitted: ``name`` is unique in the workload, ``start_s`` counts
    from the beginning of a run."""

    name: str
    spec: JobSpec
    start_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Workload:
    """A parsed workload file. ``origin`` names it in errors. ``arrivals``: None if the
    jobs have fixed times of submission."""

    title: str
    description: str
    jobs: tuple[JobSpec, ...]
    origin: str = "workload"
    arrivals: Arrivals | None = None

    def instances(self) -> tuple[JobInstance, ...]:
        """Returns every job instance, in order of submission."""
        instances = [
            JobInstance(
                f"{spec.name}.{n}" if spec.count > 1 else spec.name, spec, spec.start_s
            )
            for spec in self.jobs
            for n in range(1, spec.count + 1)
        ]
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
    table = decode_toml(text, origin)
    reader = Table(table, origin, _FILE_KEYS)
    none: Sequence[Mapping[str, object]] = ()
    tables = reader.get("job", fields.table_list, none)
    if not tables:
        raise CoschedError(f"{origin}: no jobs; add at least one [[job]] table")
    jobs = tuple(
        _parse_job(job, f"{origin}, job {number}", folder)
        for number, job in enumerate(tables, 1)
    )
    _check_names(jobs, origin)
    return Workload(
        title=reader.get("title", fields.one_line, Path(origin).stem),
        description=reader.get("description", fields.one_line, ""),
        jobs=jobs,
        origin=origin,
        arrivals=_parse_arrivals(reader, tables),
    )


def _parse_arrivals(reader: Table, jobs: Sequence[Mapping[str, object]]) -> Arrivals | None:
    table = reader.get("arrivals", fields.table, None)
    if table is None:
        return None
    for number, job in enumerate(jobs, 1):
        if "start" in job:
            raise CoschedError(
                f"{reader.where}, job {number}: 'start' and [arrivals] exclude each "
                "other; leave one of them out"
            )
    return parse_arrivals(table, f"{reader.where}, arrivals")


def _parse_job(table: Mapping[str, object], where: str, folder: Path) -> JobSpec:
    name = table.get("name")
    if isinstance(name, str) and name.isprintable():
        where += f" ('{name}')"
    reader = Table(table, where, _JOB_KEYS)
    if sum(key in table for key in _WHAT_RUNS) != 1:
        raise CoschedError(
            f"{where}: give exactly one of 'command' (what to run), 'source' (a C file "
            "to build and run) and 'module' (of Python)"
        )
    if "args" in table and "command" in table:
        raise CoschedError(
            f"{where}: 'args' belongs to 'source' and 'module'; write arguments into "
            "'command'"
        )
    source = reader.get("source", fields.text, "")
    module = reader.get("module", fields.text, "")
    no_words: tuple[str, ...] = ()
    args = reader.get("args", fields.words, no_words)
    command = reader.get("command", fields.command, no_words)
    if module:
        command = (sys.executable, "-m", module, *args)
    cwd = reader.get("cwd", fields.text, "")
    nothing: Mapping[str, object] = {}
    model = reader.get("model", fields.table, nothing)
    return JobSpec(
        name=reader.require("name", _job_name),
        ranks=reader.require("ranks", fields.whole(1, RANKS_MAX)),
        command=command,
        source=folder / source if source else None,
        args=args if source else (),
        count=reader.get("count", fields.whole(1, COUNT_MAX), 1),
        start_s=reader.get("start", fields.seconds(0.0, A_YEAR_S), 0.0),
        ppn=reader.get("ppn", fields.whole(1, RANKS_MAX), None),
        env=reader.get("env", fields.environment, {}),
        cwd=folder / cwd if cwd else None,
        timeout_s=reader.get("timeout", fields.seconds(0.001, A_YEAR_S), DEFAULT_TIMEOUT_S),
        model=parse_model(model, f"{where}, model"),
        first=reader.get("first", fields.whole(1, RANKS_MAX), 1),
    )


def _check_names(jobs: tuple[JobSpec, ...], origin: str) -> None:
    seen: set[str] = set()
    for instance in Workload("", "", jobs).instances():
        try:
            check_job_name(instance.name)
        except CoschedError as error:
            raise CoschedError(f"{origin}: {error}") from error
        if instance.name in seen:
            raise CoschedError(
                f"{origin}: two jobs are called '{instance.name}'; "
                "rename one, or use 'count' for instances"
            )
        seen.add(instance.name)


def _job_name(value: object) -> str:
    try:
        return check_job_name(fields.text(value))
    except CoschedError as error:
        raise fields.Mismatch(
            "a job name: use 1 to 63 characters of letters, digits, '.', '_', '-'"
        ) from error
