"""Builds ``cosched.shm._native`` from the C headers that the shim includes.

The declarations are cut from the headers between their ``cdef`` markers, so there is
no second copy of the layout to keep in step; the C compiler checks the rest.
"""

from __future__ import annotations

import re
from pathlib import Path

from cffi import FFI

HERE = Path(__file__).parent
INCLUDE = HERE / "include"


def declarations(header: str) -> str:
    """The text of ``include/cosched/<header>`` that cffi may read."""
    text = (INCLUDE / "cosched" / header).read_text()
    parts = re.findall(r"/\* cdef: begin \*/(.*?)/\* cdef: end \*/", text, re.S)
    if not parts:
        raise ValueError(f"{header}: no cdef markers")
    return "".join(parts)


ffibuilder = FFI()
ffibuilder.cdef(declarations("layout.h"))
ffibuilder.cdef(declarations("task.h"))
ffibuilder.cdef(declarations("daemon.h"))
ffibuilder.cdef(declarations("guard.h"))
ffibuilder.set_source(
    "cosched.shm._native",
    """
    #include "cosched/layout.h"
    #include "cosched/task.h"
    #include "cosched/daemon.h"
    #include "cosched/guard.h"
    """,
    sources=[f"cosched/shm/{name}.c" for name in ("task", "register", "daemon", "guard")],
    include_dirs=[str(INCLUDE.relative_to(Path.cwd()))]
    if INCLUDE.is_relative_to(Path.cwd())
    else [str(INCLUDE)],
    extra_compile_args=["-std=gnu11", "-O2", "-Wall", "-Wextra"],
)
