"""``cosched malleable``: prints compiler options for malleable C or Fortran programs."""

from __future__ import annotations

import shlex

import click

from cosched.cli.declared import command, flag
from cosched.cli.tools.shim import OfMpi
from cosched.launch.malleable import make_library


@command("malleable", short_help="Print what compilers need for malleable programs.")
class Malleable(OfMpi):
    """Print the words with which a compiler builds a malleable program.

    They name cosched/malleable.h and a library, which is built for the MPI on the first
    use. Programs in Python need neither.

    \b
    Examples:
      mpicc heat.c $(cosched malleable) -o heat
      mpif90 $(cosched malleable --fortran) heat.f90 -o heat
      cosched malleable --mpicc /opt/openmpi/bin/mpicc
    """

    fortran: bool = flag(help="For Fortran.")

    def run(self) -> None:
        click.echo(shlex.join(make_library(self.target().build).words(self.fortran)))
