"""``cosched shim``: finds, builds and checks the interposer for an MPI."""

from __future__ import annotations

import json
import os
import sys
import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import click

from cosched.cli.declared import Command, argument, command, flag, option
from cosched.cli.groups import Group
from cosched.cli.options import PATH, json_option, mpi_option
from cosched.cli.printing import show_progress
from cosched.cli.tools import shim_check
from cosched.core.config.words import CARRIERS
from cosched.core.errors import CoschedError
from cosched.launch.mpi import SearchPath
from cosched.launch.shim import for_all_users, for_release, make_shim, plan_build
from cosched.launch.target import Target, find_target
from cosched.tables import WIDTH

_LABEL = 10
#: The words after the program are its own.
_PROGRAM_LAST: dict[str, Any] = {"context_settings": {"allow_interspersed_args": False}}


@click.group("shim", cls=Group)
def shim() -> None:
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


@dataclass(frozen=True)
class OfMpi(Command):
    """The options that choose the MPI: PROGRAM's, --mpicc's, --mpi's, or the usual one."""

    mpicc: Path | None = option(type=PATH, help="The MPI's compiler wrapper.")
    mpi: str | None = mpi_option("An mpiexec, a prefix, mpich or openmpi.")
    argv: tuple[str, ...] = argument(
        nargs=-1, type=click.UNPROCESSED, metavar="[PROGRAM]..."
    )

    def __post_init__(self) -> None:
        if self.mpicc is not None and (self.argv or self.mpi is not None):
            raise click.UsageError("--mpicc cannot be combined with --mpi or PROGRAM.")

    def target(self) -> Target:
        """Returns the MPI that the options choose."""
        places = SearchPath(Path(sys.executable).parent, os.environ)
        return find_target(self.argv, self.mpi, self.mpicc, places)


@dataclass(frozen=True)
class _OfMpi(OfMpi):
    """The same, of a command that can print JSON."""

    as_json: bool = json_option()


@command("build", of=shim, short_help="Build the interposer for an MPI.", **_PROGRAM_LAST)
class Build(_OfMpi):
    """Build the interposer for an MPI unless it is built already; print its path.

    \b
    Examples:
      cosched shim build
      cosched shim build ./app
      cosched shim build --mpicc /opt/openmpi/bin/mpicc
      sudo /opt/cosched/bin/cosched shim build --site
    """

    site: bool = flag(help="Into this installation, for all users.")
    release: bool = flag(
        help="The same, and for later builds of this MPI with the same interface."
    )
    sanitize: bool = flag(help="With sanitizers, for developers.")

    def run(self) -> None:
        target = self.target()
        plan = target.build
        if self.sanitize:
            plan = plan_build(
                plan.mpicc, os.environ, standard_abi=target.standard_abi, sanitize=True
            )
        if self.site or self.release:
            os.umask(0o022)  # all users read the folders that the build makes
            plan = for_release(plan) if self.release else for_all_users(plan)
        library = make_shim(plan, _progress(target))
        if self.as_json:
            click.echo(json.dumps({**_facts(target), "shim": str(library)}, indent=2))
        else:
            click.echo(library)


@command("info", of=shim, short_help="Show an MPI and its interposer.", **_PROGRAM_LAST)
class Info(_OfMpi):
    """Show the usual MPI, or the one of PROGRAM, and its interposer.

    PROGRAM may also be a launcher. Nothing is built.

    \b
    Examples:
      cosched shim info
      cosched shim info ./app
      cosched shim info python app.py
      cosched shim info --mpicc mpicc.mpich --json
    """

    def run(self) -> None:
        _show(self.target(), self.as_json)


@command(
    "check", of=shim, short_help="Try the interposer with an MPI program.", **_PROGRAM_LAST
)
class Check(_OfMpi):
    """Run a small MPI program with and without the interposer; print what works.

    Two ranks exchange messages by all kinds of MPI calls. Private daemons count the
    messages that the interposer saw. PROGRAM only selects the MPI; it does not run.

    \b
    Examples:
      cosched shim check
      cosched shim check ./app
      cosched shim check --mpi /opt/intel/oneapi/mpi/latest
    """

    def run(self) -> int:
        target = self.target()
        if target.mpi is None:
            raise CoschedError(f"{target.build.mpicc}: no launcher of this MPI was found")
        library = make_shim(target.build, _progress(target))
        if not self.as_json:
            click.echo(_line("mpi", f"{target.title}, ABI: {target.abi}"))
        outcomes = []
        for outcome in shim_check.outcomes(target, library):
            outcomes.append(outcome)
            if not self.as_json:
                click.echo(_line(outcome.carrier, shim_check.text(outcome)))
        failed = [outcome.carrier for outcome in outcomes if not outcome.ok]
        if self.as_json:
            runs = [shim_check.facts(outcome) for outcome in outcomes]
            click.echo(
                json.dumps({**_facts(target), "ok": not failed, "runs": runs}, indent=2)
            )
        if failed:
            raise CoschedError(f"{target.title}: {', '.join(failed)}: does not work")
        return 0


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
    return partial(show_progress, f"building for {target.title}")


def _line(name: str, text: str) -> str:
    """Returns ``name`` and ``text`` beside it, in lines that fit."""
    head = f"{name:<{_LABEL}}"
    return textwrap.fill(text, WIDTH, initial_indent=head, subsequent_indent=" " * _LABEL)
