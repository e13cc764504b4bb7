"""Which MPI module the program gets: mpi4py's own or the wrapped one."""

from __future__ import annotations

import ctypes
import os
from types import ModuleType

from mpi_shim.wrapper.task.environment import read_settings

INTERPOSER_SYMBOL = "cosched_interposer_active"


def interposer_is_active() -> bool:
    """Whether the C interposer is loaded into this process and does the work itself."""
    ask = getattr(ctypes.CDLL(None), INTERPOSER_SYMBOL, None)
    return ask is not None and bool(ask())


def choose() -> ModuleType:
    """mpi4py.MPI outside a job or below the interposer, else the wrapped module."""
    settings = read_settings(os.environ, os.uname().nodename)
    if settings is None or interposer_is_active():
        from mpi4py import MPI

        return MPI
    from mpi_shim.wrapper.module import build_module

    return build_module(settings)
