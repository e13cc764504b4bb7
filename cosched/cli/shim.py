"""``cosched shim``: build the MPI interposer, or say what would be built."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import click

from cosched.cli.options import json_option
from cosched.core.errors import CoschedError
from cosched.launch.mpi import Places, find_mpi
from cosched.launch.program import Program
from cosched.launch.shim import ShimBuild, build_shim, plan_build


@click.group("shim")
def command() -> None:
    """Build or inspect the MPI interposer.

    cosched-run builds it by itself on the first run with an MPI. Build it by hand
    where compute nodes have no compiler, or to see what goes wrong.

    \b
    Examples:
      cosched shim build
      cosched shim build --mpicc /opt/openmpi/bin/mpicc
      cosched shim info --json
    """


def _mpicc_option() -> click.Option:
    return click.Option(
        ["--mpicc"],
        type=click.Path(path_type=Path),
        help="The compiler wrapper of the MPI to build for; by default that of the "
        "mpiexec that cosched-run would use.",
    )


def _find_mpicc(asked: Path | None) -> Path:
    if asked is not None:
        return asked
    places = Places(Path(sys.executable).parent, os.environ)
    mpi = find_mpi(Program((), None, ""), None, places)
    if mpi.mpicc is None:
        raise CoschedError(f"no mpicc beside {mpi.mpiexec}; name one with --mpicc")
    return mpi.mpicc


def _show(build: ShimBuild, as_json: bool) -> None:
    facts = {
        "library": str(build.library),
        "built": build.is_built,
        "fingerprint": build.fingerprint,
        "mpicc": str(build.mpicc),
        "compiler": build.compiler,
        "mpi": [str(path) for path in build.libraries],
    }
    if as_json:
        click.echo(json.dumps(facts, indent=2))
        return
    facts["built"] = "yes" if build.is_built else "no"
    for name, value in facts.items():
        text = " ".join(value) if isinstance(value, list) else value
        click.echo(f"{name:<12} {text}")


@command.command("build", params=[_mpicc_option()])
@click.option("--sanitize", is_flag=True, help="With sanitizers, for developers.")
@json_option
def build(mpicc: Path | None, sanitize: bool, as_json: bool) -> None:
    """Build the interposer for an MPI, if that was not done yet.

    \b
    Examples:
      cosched shim build
      cosched shim build --mpicc /opt/openmpi/bin/mpicc
    """
    wrapper = _find_mpicc(mpicc)
    build_shim(wrapper, sanitize=sanitize)
    _show(plan_build(wrapper, sanitize=sanitize), as_json)


@command.command("info", params=[_mpicc_option()])
@json_option
def info(mpicc: Path | None, as_json: bool) -> None:
    """Say which library belongs to an MPI and whether it is built.

    \b
    Examples:
      cosched shim info
      cosched shim info --mpicc mpicc.mpich --json
    """
    _show(plan_build(_find_mpicc(mpicc)), as_json)
