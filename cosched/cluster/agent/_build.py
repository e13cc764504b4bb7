"""Builds ``_hwloc``: the functions of hwloc 2 that write the hardware of a node."""

from __future__ import annotations

from cffi import FFI

#: Without a source it becomes a module of Python: a nursery loads it in a millisecond, and
#: needs no parser of C.
hwloc = FFI()
hwloc.cdef("""
typedef struct hwloc_topology *hwloc_topology_t;
int hwloc_topology_init(hwloc_topology_t *);
int hwloc_topology_set_io_types_filter(hwloc_topology_t, int filter);
int hwloc_topology_load(hwloc_topology_t);
int hwloc_topology_export_xml(hwloc_topology_t, const char *path, unsigned long flags);
""")
hwloc.set_source("cosched.cluster.agent._hwloc", None)
