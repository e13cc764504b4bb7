"""``cosched shim``: finds, builds and checks the interposer for an MPI."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from cosched.cli.groups import Group
from cosched.cli.options import json_option
from cosched.core.config.schema import CARRIERS
from cosched.core.errors import CoschedError
from cosched.launch.mpi import Places
from cosched.launch.shim import for_all_users, make_shim, plan_build
from cosched.launch.target import Target, find_target

F = TypeVar("F", bound=Callable[..., Any])
_COLUMNS = 80
_LABEL = 10


@click.group("shim", cls=Group)
def command() -> None:
    """Inspect, build or check the MPI interposer.

    cosched-run builds it on the first run with an MPI. Build it by hand where compute
    nodes have no compiler, or to see why a build fails.

    \b
    Examples:
      cosched shim info
      cosched shim info ./app
      cosched shim build --mpicc /opt/openmpi/bin/mpicc
      cosched shim check --mpi openmpi
    """


def _target_options(function: F) -> F:
    """Options that choose the MPI: PROGRAM's, --mpicc's, --mpi's, or the usual one."""
    for decorate in (
        click.argument("argv", nargs=-1, type=click.UNPROCESSED, metavar="[PROGRAM]..."),
        click.option(
            "--mpi", metavar="MPI", help="An mpiexec, a prefix, mpich or openmpi."
        ),
        click.option(
            "--mpicc",
            type=click.Path(path_type=Path),
            help="The MPI's compiler wrapper.",
        ),
    ):
        function = decorate(function)
    return function


@command.command(
    "info",
    short_help="Show an MPI and its interposer.",
    context_settings={"allow_interspersed_args": False},
)
@_target_options
@json_option
def info(argv: tuple[str, ...], mpi: str | None, mpicc: Path | None, as_json: bool) -> None:
    """Show the usual MPI, or the one of PROGRAM, and its interposer.

    PROGRAM may also be a launcher. Nothing is built.

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
@click.option("--site", is_flag=True, help="Into this installation, for all users.")
@click.option("--sanitize", is_flag=True, help="With sanitizers, for developers.")
@json_option
def build(
    argv: tuple[str, ...],
    mpi: str | None,
    mpicc: Path | None,
    site: bool,
    sanitize: bool,
    as_json: bool,
) -> None:
    """Build the interposer for an MPI unless it is built already; print its path.

    \b
    Examples:
      cosched shim build
      cosched shim build ./app
      cosched shim build --mpicc /opt/openmpi/bin/mpicc
      sudo /opt/cosched/bin/cosched shim build --site
    """
    target = _find(argv, mpi, mpicc)
    plan = target.build
    if sanitize:
        plan = plan_build(
            plan.mpicc, os.environ, standard_abi=target.standard_abi, sanitize=True
        )
    if site:
        os.umask(0o022)  # all users read the folders that the build makes
        plan = for_all_users(plan)
    library = make_shim(plan, _progress(target))
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
    """Run a small MPI program with and without the interposer; print what works.

    Two ranks exchange messages by all kinds of MPI calls. Private daemons count the
    messages that the interposer saw. PROGRAM only selects the MPI; it does not run.

    \b
    Examples:
      cosched shim check
      cosched shim check ./app
      cosched shim check --mpi /opt/intel/oneapi/mpi/latest
    """
    from cosched.cli.tools import shim_check

    target = _find(argv, mpi, mpicc)
    if target.mpi is None:
        raise CoschedError(f"{target.build.mpicc}: no launcher of this MPI was found")
    shim = make_shim(target.build, _progress(target))
    if not as_json:
        click.echo(_line("mpi", f"{target.title}, ABI: {target.abi}"))
    outcomes = []
    for outcome in shim_check.outcomes(target, shim):
        outcomes.append(outcome)
        if not as_json:
            click.echo(_line(outcome.carrier, shim_check.text(outcome)))
    failed = [outcome.carrier for outcome in outcomes if not outcome.ok]
    if as_json:
        runs = [shim_check.facts(outcome) for outcome in outcomes]
        click.echo(json.dumps({**_facts(target), "ok": not failed, "runs": runs}, indent=2))
    if failed:
        raise CoschedError(f"{target.title}: {', '.join(failed)}: does not work")
    return 0


def _find(argv: tuple[str, ...], mpi: str | None, mpicc: Path | None) -> Target:
    given = [bool(argv), mpi is not None, mpicc is not None]
    if given[2] and sum(given) > 1:
        raise click.UsageError("--mpicc cannot be combined with --mpi or PROGRAM.")
    places = Places(Path(sys.executable).parent, os.environ)
    return find_target(argv, mpi, mpicc, places)


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
        "carriers": list(CARRIERS),
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
    """Returns a function that shows a build's progress, on a terminal only."""

    def show(done: int, total: int) -> None:
        end = "\n" if done == total else ""
        click.echo(
            f"\rbuilding for {target.title}: {done}/{total}{end}", nl=False, err=True
        )

    def keep_quiet(done: int, total: int) -> None:
        pass

    return show if sys.stderr.isatty() else keep_quiet


def _line(name: str, text: str) -> str:
    """Returns ``name`` and ``text`` in one line, cut to fit."""
    line = f"{name:<{_LABEL}}{text}"
    return line if len(line) <= _COLUMNS else line[: _COLUMNS - 3] + "..."
