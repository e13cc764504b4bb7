"""Chooses the MPI module that the program gets: mpi4py's own or the wrapped one."""

from __future__ import annotations

import ctypes
import sys
from types import ModuleType

INTERPOSER_SYMBOL = "cosched_interposer_active"


def interposer_is_active() -> bool:
    """Whether the C interposer is loaded into this process and does the work."""
    is_active = getattr(ctypes.CDLL(None), INTERPOSER_SYMBOL, None)
    return is_active is not None and bool(is_active())


def choose() -> ModuleType:
    """Returns mpi4py.MPI outside a job or below the interposer, otherwise the wrapped one.

    It fails open: if cosched's native module cannot be loaded, one line on standard error
    reports it, and the program gets mpi4py's own."""
    from mpi4py import MPI

    try:
        from mpi_shim.wrapper.task.environment import Environment
    except ImportError as error:
        sys.stderr.write(f"cosched: messages are not wrapped: {error}\n")
        return MPI
    environment = Environment()
    if not environment.takes_part or interposer_is_active():
        return MPI
    from mpi_shim.wrapper.module import build_module

    return build_module(environment)
