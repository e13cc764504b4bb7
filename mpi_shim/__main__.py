"""``python -m mpi_shim [-m module | -c command | program.py] [argument ...]``

Runs a program unchanged with the wrapped module. Before the program starts, that module
takes the place of mpi4py.MPI, also for the libraries that the program imports.
"""

from __future__ import annotations

import os
import runpy
import sys
from types import ModuleType

import mpi4py

USAGE = "usage: python -m mpi_shim [-m module | -c command | program.py] [argument ...]"


def main(arguments: list[str]) -> None:
    """Runs the program that ``arguments`` name."""
    if not arguments or (arguments[0] in ("-m", "-c") and len(arguments) < 2):
        raise SystemExit(USAGE)
    from mpi_shim import MPI

    sys.modules["mpi4py.MPI"] = MPI
    mpi4py.MPI = MPI
    if arguments[0] == "-m":
        sys.argv, sys.path[0] = arguments[1:], os.getcwd()
        runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
    elif arguments[0] == "-c":
        sys.argv, sys.path[0] = ["-c", *arguments[2:]], ""
        # pickle looks for the functions of the program in this module.
        program = sys.modules["__main__"] = ModuleType("__main__")
        # The future statement of this file does not hold for the program.
        exec(compile(arguments[1], "<string>", "exec", dont_inherit=True), vars(program))
    else:
        if not os.path.exists(arguments[0]):
            raise SystemExit(f"python -m mpi_shim: {arguments[0]}: no such file")
        path = os.path.abspath(arguments[0])  # the program may change the directory
        sys.argv, sys.path[0] = arguments, os.path.dirname(os.path.realpath(path))
        runpy.run_path(path, run_name="__main__")


main(sys.argv[1:])
