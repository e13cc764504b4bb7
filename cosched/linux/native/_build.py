"""Builds ``_kick`` and ``_held_process`` from their headers and sources."""

from __future__ import annotations

from pathlib import Path

from cffi import FFI

HERE = Path(__file__).parent
BEGIN, END = "/* cdef: begin */", "/* cdef: end */"


def _builder(name: str, *flags: str) -> FFI:
    builder = FFI()
    builder.cdef((HERE / f"{name}.h").read_text().split(BEGIN)[1].split(END)[0])
    builder.set_source(
        f"cosched.linux.native._{name}",
        f'#include "{name}.h"',
        sources=[f"cosched/linux/native/{name}.c"],
        include_dirs=["cosched/linux/native"],
        extra_compile_args=["-std=gnu11", "-O2", "-Wall", "-Wextra", *flags],
        extra_link_args=list(flags),
    )
    return builder


kick = _builder("kick", "-pthread")
held_process = _builder("held_process")
