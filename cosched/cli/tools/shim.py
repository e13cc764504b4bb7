"""``cosched shim``: which interposer belongs to an MPI; build it; see whether it works."""

from __future__ import annotations

import contextlib
import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from cosched.cli.groups import Group
from cosched.cli.options import json_option
from cosched.core.errors import CoschedError
from cosched.launch.mpi import Places
from cosched.launch.shim import build_shim, make_shim
from cosched.launch.target import Target, find_target

if TYPE_CHECKING:
    from cosched.launch.job import Job
    from cosched.launch.selfcheck import JobsOf, Outcome

F = TypeVar("F", bound=Callable[..., Any])
_COLUMNS = 80
_LABEL = 10


@click.group("shim", cls=Group)
def command() -> None:
    """Inspect, build or check the MPI interposer.

    cosched-run builds it by itself on the first run with an MPI. Build it by hand
    where compute nodes have no compiler, or to see what goes wrong.

    \b
    Examples:
      cosched shim info
      cosched shim info ./app
      cosched shim build --mpicc /opt/openmpi/bin/mpicc
      cosched shim check --mpi openmpi
    """


def _target_options(function: F) -> F:
    """Which MPI is meant: PROGRAM's, --mpicc's, --mpi's, or the one at hand."""
    for decorate in (
        click.argument("argv", nargs=-1, type=click.UNPROCESSED, metavar="[PROGRAM]..."),
        click.option(
            "--mpi", metavar="MPI", help="An mpiexec, a prefix, mpich or openmpi."
        ),
        click.option(
            "--mpicc",
            type=click.Path(path_type=Path),
            help="The compiler wrapper of the MPI that is meant.",
        ),
    ):
        function = decorate(function)
    return function


@command.command(
    "info",
    short_help="Say which MPI is at hand, and its shim.",
    context_settings={"allow_interspersed_args": False},
)
@_target_options
@json_option
def info(argv: tuple[str, ...], mpi: str | None, mpicc: Path | None, as_json: bool) -> None:
    """Say which MPI is at hand, or is PROGRAM's, and which interposer it has.

    PROGRAM may be a launcher as well. Nothing is built.

    \b
    Examples:
      cosched shim info
      cosched shim info ./app
      cosched shim info python app.py
      cosched shim info --mpicc mpicc.mpich --json
    """
    _show(_find(argv, mpi, mpicc), as_json)


@command.command(
    "build",
    short_help="Build the interposer for an MPI.",
    context_settings={"allow_interspersed_args": False},
)
@_target_options
@click.option("--sanitize", is_flag=True, help="With sanitizers, for developers.")
@json_option
def build(
    argv: tuple[str, ...],
    mpi: str | None,
    mpicc: Path | None,
    sanitize: bool,
    as_json: bool,
) -> None:
    """Build the interposer for an MPI, if that was not done yet, and print its path.

    \b
    Examples:
      cosched shim build
      cosched shim build ./app
      cosched shim build --mpicc /opt/openmpi/bin/mpicc
    """
    target = _find(argv, mpi, mpicc)
    if sanitize:
        plan = target.build
        library = build_shim(
            plan.mpicc, os.environ, standard_abi=target.standard_abi, sanitize=True
        )
    else:
        library = make_shim(target.build, _progress(target))
    if as_json:
        click.echo(json.dumps({**_facts(target), "shim": str(library)}, indent=2))
    else:
        click.echo(library)


@command.command(
    "check",
    short_help="Try the interposer with an MPI program.",
    context_settings={"allow_interspersed_args": False},
)
@_target_options
@json_option
@click.pass_context
def check(
    ctx: click.Context,
    argv: tuple[str, ...],
    mpi: str | None,
    mpicc: Path | None,
    as_json: bool,
) -> int:
    """Run a small MPI program with and without the interposer; say what works.

    Two ranks send each other messages in every way there is. Private daemons count
    what the interposer saw of them. PROGRAM is not run: its MPI is what is checked.

    \b
    Examples:
      cosched shim check
      cosched shim check ./app
      cosched shim check --mpi /opt/intel/oneapi/mpi/latest
    """
    target = _find(argv, mpi, mpicc)
    if target.mpi is None:
        raise CoschedError(f"{target.build.mpicc}: no launcher of this MPI is at hand")
    shim = make_shim(target.build, _progress(target))
    if not as_json:
        click.echo(_line("mpi", f"{target.title}, ABI: {target.abi}"))
    outcomes = []
    for outcome in _outcomes(target, shim):
        outcomes.append(outcome)
        if not as_json:
            click.echo(_said_of(outcome))
    failed = [outcome.carrier for outcome in outcomes if not outcome.ok]
    if as_json:
        runs = [_run_facts(outcome) for outcome in outcomes]
        click.echo(json.dumps({**_facts(target), "ok": not failed, "runs": runs}, indent=2))
    if failed:
        raise CoschedError(f"{target.title}: {', '.join(failed)}: does not work")
    return 0


def carriers() -> tuple[str, ...]:
    """How a message may carry its sender's status, as cosched-run's --carrier names it."""
    from cosched.cli.run.main import command as run

    (option,) = (option for option in run.params if option.name == "carrier")
    assert isinstance(option.type, click.Choice)
    return tuple(choice for choice in option.type.choices if choice != "auto")


def _find(argv: tuple[str, ...], mpi: str | None, mpicc: Path | None) -> Target:
    given = [bool(argv), mpi is not None, mpicc is not None]
    if given[2] and sum(given) > 1:
        raise click.UsageError("--mpicc leaves nothing to choose by --mpi or PROGRAM.")
    return find_target(argv, mpi, mpicc, _places())


def _places() -> Places:
    return Places(Path(sys.executable).parent, os.environ)


def _facts(target: Target) -> dict[str, Any]:
    build, mpi = target.build, target.mpi
    return {
        "mpi": target.title,
        "abi": target.abi,
        "family": None if target.family is None else target.family.value,
        "launcher": None if mpi is None else str(mpi.mpiexec),
        "engine": None if mpi is None else mpi.engine.value,
        "mpicc": str(build.mpicc),
        "compiler": build.compiler,
        "library": None if target.library is None else str(target.library),
        "libraries": [str(path) for path in build.libraries],
        "fingerprint": build.fingerprint,
        "shim": str(build.library),
        "built": build.is_built,
        "carriers": list(carriers()),
    }


def _show(target: Target, as_json: bool) -> None:
    facts = _facts(target)
    if as_json:
        click.echo(json.dumps(facts, indent=2))
        return
    launcher, engine = facts["launcher"], facts["engine"]
    lines = {
        "mpi": facts["mpi"],
        "abi": facts["abi"],
        "launcher": "none" if launcher is None else f"{launcher} ({engine})",
        "mpicc": f"{facts['mpicc']} ({facts['compiler']})",
        "library": facts["library"] or "not found",
        "shim": facts["shim"],
        "built": "yes" if facts["built"] else "no",
        "carriers": " ".join(facts["carriers"]),
    }
    for name, value in lines.items():
        click.echo(f"{name:<{_LABEL}}{value}")


def _progress(target: Target) -> Callable[[int, int], None]:
    """Tells people at a terminal how far a build has come."""

    def tell(done: int, total: int) -> None:
        end = "\n" if done == total else ""
        click.echo(
            f"\rbuilding for {target.title}: {done}/{total}{end}", nl=False, err=True
        )

    def keep_quiet(done: int, total: int) -> None:
        pass

    return tell if sys.stderr.isatty() else keep_quiet


def _outcomes(target: Target, shim: Path) -> Iterator[Outcome]:
    """Of one run without the shim, then of one under each carrier."""
    from cosched.launch.command import Site
    from cosched.launch.job import Request, resolve
    from cosched.launch.selfcheck import PLAIN, RANKS, compile_selftest, run_selftest

    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="cosched-")))
        program = compile_selftest(target.build, folder)

        def run(carrier: str, jobs_of: JobsOf) -> Outcome:
            return run_selftest(
                program,
                start,
                carrier,
                environ=os.environ,
                shim=shim,
                run_dir=folder,
                jobs_of=jobs_of,
            )

        def start(words: Sequence[str]) -> Job:
            assert target.mpi is not None
            launcher, root = str(target.mpi.mpiexec), os.geteuid() == 0
            request = Request(tuple(words), RANKS, mpi=launcher, root=root)
            return resolve(request, Site(), _places())

        yield run(PLAIN, tuple)
        jobs_of = stack.enter_context(_private_node(folder))
        for carrier in carriers():
            yield run(carrier, jobs_of)


@contextlib.contextmanager
def _private_node(run_dir: Path) -> Iterator[JobsOf]:
    """Daemons of our own; yields what asks them for their jobs."""
    from cosched.cli.run.site import connect
    from cosched.launch.nodes import lease_node
    from cosched.node.service.lifecycle import stop_node
    from cosched.shm.paths import NodePaths

    here = NodePaths(run_dir, os.environ.get("COSCHED_NODE") or os.uname().nodename)
    lease = lease_node(here, connect, uid=os.geteuid(), job="check")
    try:
        yield lambda: lease.request("status")["jobs"]
    finally:
        lease.close()
        stop_node(here)


def _run_facts(outcome: Outcome) -> dict[str, Any]:
    return {
        "carrier": outcome.carrier,
        "ok": outcome.ok,
        "why": outcome.why,
        "standard": outcome.standard,
        "messages": outcome.messages,
        "counters": list(outcome.counters),
    }


def _said_of(outcome: Outcome) -> str:
    ranks = len(outcome.counters)
    seen = sum(each["sent"] + each["received"] for each in outcome.counters)
    if not outcome.ok:
        what = f"FAILED: {outcome.why}"
    elif not outcome.counters:
        what = f"MPI {outcome.standard}, {2 * outcome.messages} messages, all right"
    elif seen:
        what = f"{ranks} ranks registered, {seen // 2} messages seen, all right"
    else:
        what = f"{ranks} ranks registered, waits seen and no messages, all right"
    return _line(outcome.carrier, what)


def _line(name: str, text: str) -> str:
    """``name`` and ``text`` in one line that fits."""
    line = f"{name:<{_LABEL}}{text}"
    return line if len(line) <= _COLUMNS else line[: _COLUMNS - 3] + "..."
