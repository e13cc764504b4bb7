"""Keeps UCX quiet in a rank that ends before its job.

MPICH's MPI_Finalize closes the connections to the rank's own world only. UCX finds requests
of the connections to other worlds, and writes a warning for each to standard output. No MPI
call closes them.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Mapping

_LIBRARY = "libucs.so.0"


def silence_warnings(environ: Mapping[str, str]) -> None:
    """Lets UCX write errors only from now on. Does nothing in a process without UCX, and if
    the user has chosen UCX's level."""
    if "UCX_LOG_LEVEL" in environ:
        return
    try:
        library = ctypes.CDLL(_LIBRARY, mode=os.RTLD_NOLOAD)
        library.ucs_global_opts_set_value(b"LOG_LEVEL", b"error")
    except (OSError, AttributeError):
        return  # there is no UCX in this process, or one of another form
