"""Builds ``cosched.linux._kick`` from its header and its source."""

from __future__ import annotations

from pathlib import Path

from cffi import FFI

HERE = Path(__file__).parent
BEGIN, END = "/* cdef: begin */", "/* cdef: end */"

ffibuilder = FFI()
ffibuilder.cdef((HERE / "kick.h").read_text().split(BEGIN)[1].split(END)[0])
ffibuilder.set_source(
    "cosched.linux._kick",
    '#include "kick.h"',
    sources=["cosched/linux/kick.c"],
    include_dirs=["cosched/linux"],
    extra_compile_args=["-std=gnu11", "-O2", "-Wall", "-Wextra", "-pthread"],
    extra_link_args=["-pthread"],
)
