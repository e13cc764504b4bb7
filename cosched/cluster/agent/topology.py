"""Writes the hardware of this node as hwloc's XML.

Each task of MPICH, and each PMIx server, looks at the whole hardware. That takes several
milliseconds of CPU, and more with many cores; tasks of a node take turns. They read a file
in its place if there is one, as tasks of MPICH do under its ``mpiexec``.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from cosched.cluster.agent._hwloc import ffi

#: The library of hwloc 2.
_LIBRARY = "libhwloc.so.15"
_KEEP_ALL = 0


def write_topology(path: Path) -> bool:
    """Writes the file, which appears as a whole. False without hwloc on this machine.

    hwloc may load plugins with threads, so this is for a process of its own.
    """
    try:
        hwloc: Any = ffi.dlopen(_LIBRARY)
    except OSError:
        return False
    topology: Any = ffi.new("hwloc_topology_t *")
    unfinished = path.with_suffix(".new")
    done = (
        hwloc.hwloc_topology_init(topology) == 0
        and hwloc.hwloc_topology_set_io_types_filter(topology[0], _KEEP_ALL) == 0
        and hwloc.hwloc_topology_load(topology[0]) == 0
        and hwloc.hwloc_topology_export_xml(topology[0], os.fsencode(unfinished), 0) == 0
    )
    if done:
        unfinished.chmod(0o644)
        unfinished.rename(path)
    return bool(done)
