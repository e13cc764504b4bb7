"""Builds ``cosched.shm._native`` from the C headers that the shim includes.

cffi reads the text of the headers between their ``cdef`` markers. There is no second copy
of the layout, and the C compiler checks the rest.
"""

from __future__ import annotations

import re
from pathlib import Path

from cffi import FFI

HERE = Path(__file__).parent
INCLUDE = HERE / "include"


def declarations(header: str) -> str:
    """Returns the part of ``include/cosched/<header>`` that cffi reads."""
    text = (INCLUDE / "cosched" / header).read_text()
    parts = re.findall(r"/\* cdef: begin \*/(.*?)/\* cdef: end \*/", text, re.S)
    if not parts:
        raise ValueError(f"{header}: no cdef markers")
    return "".join(parts)


def wrapper_functions() -> str:
    """Returns the declarations of the wrapper's functions: one for each member of ``struct
    cosched_mpi_calls``, with its name behind ``cosched_wrapper_``."""
    members = re.findall(r"int \(\*(\w+)\)\(([^)]*)\);", declarations("mpi_calls.h"))
    return "".join(
        f'extern "Python" int cosched_wrapper_{name}({parameters});\n'
        for name, parameters in members
    )


HEADERS = (
    *("layout", "register", "arrivals", "task", "spin_limit", "spin_or_sleep", "sharing"),
    *("environment",),
    *("mpi_calls", "join", "roll", "daemon", "guard", "page"),
)
SOURCES = (
    *("task", "register", "spin_or_sleep", "sharing", "join", "roll", "environment"),
    *("rundir", "daemon", "guard", "arrivals", "spin_limit", "page"),
)

ffibuilder = FFI()
for name in HEADERS:
    ffibuilder.cdef(declarations(f"{name}.h"))
ffibuilder.cdef(wrapper_functions())
ffibuilder.cdef('extern "Python" void cosched_wrapper_on_memory_wait(const char *reason);')
ffibuilder.set_source(
    "cosched.shm._native",
    "".join(f'#include "cosched/{name}.h"\n' for name in HEADERS),
    sources=[f"cosched/shm/{name}.c" for name in SOURCES],
    include_dirs=[str(INCLUDE.relative_to(Path.cwd()))]
    if INCLUDE.is_relative_to(Path.cwd())
    else [str(INCLUDE)],
    extra_compile_args=["-std=gnu11", "-O2", "-Wall", "-Wextra"],
)
