"""Compiles the C kernels of a benchmark in Python, once, and keeps them.

cffi's API mode: the C compiler checks the declarations that Python uses. The kernels are
compiled for the machine's family, not for its exact processor, so that the nodes of one
cluster can share the cache.
"""

from __future__ import annotations

import importlib.util
import os
import shlex
import sys
import sysconfig
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import cffi
import numpy as np
from cffi.recompiler import make_c_source
from numpy.typing import NDArray

from cosched.launch.compile import (
    Compiler,
    build_once,
    file_parts,
    fingerprint,
)
from cosched.linux.files.cache import cache_folder

NPB = Path(__file__).parent
#: No -ffast-math and no contraction: the published values hold for IEEE arithmetic.
FLAGS = ("-std=gnu11", "-O3", "-fPIC", "-fno-math-errno", "-ffp-contract=off")
#: Benchmarks whose C files lie in ``fluid/c`` and share one more.
FLUID = ("lu", "sp", "bt")
#: Benchmarks that use the C files of another one.
SAME = {"btio": "bt"}
STRICT = ("-Wall", "-Wextra", "-Werror")


class Kernels:
    """The compiled functions of some C files, as ``lib``, and pointers for them."""

    def __init__(self, module: Any) -> None:
        self.lib = module.lib
        self._ffi = module.ffi

    def doubles(self, array: NDArray[Any]) -> Any:
        """A pointer into float64 or complex128; it keeps the array alive."""
        return self._pointer("double[]", array, (np.float64, np.complex128))

    def ints(self, array: NDArray[np.int32]) -> Any:
        """A pointer into int32; it keeps the array alive."""
        return self._pointer("int32_t[]", array, (np.int32,))

    def new(self, what: str, fields: Mapping[str, Any]) -> Any:
        """A C structure, given by its fields."""
        return self._ffi.new(what, dict(fields))

    def _pointer(self, what: str, array: NDArray[Any], kinds: tuple[type, ...]) -> Any:
        if array.dtype not in kinds:
            raise TypeError(f"an array of {array.dtype} where C wants {what}")
        return self._ffi.from_buffer(what, array, require_writable=True)


def load(name: str, cache: Path | None = None) -> Kernels:
    """Returns the kernels of benchmark ``name``, compiled if need be.

    ``cache``: where builds are kept, by default ``$XDG_CACHE_HOME/cosched/npb`` or
    ``~/.cache/cosched/npb``. CoschedError, in one line, if they cannot be built.
    """
    name = SAME.get(name, name)
    sources = NPB / "fluid" / "c" if name in FLUID else NPB / "c"
    parts = ("fluid", name) if name in FLUID else (name,)
    return compiled(f"_npb_{name}", sources, parts, cache)


def compiled(
    module: str, sources: Path, parts: Sequence[str], cache: Path | None = None
) -> Kernels:
    """Returns the functions of the C files ``parts`` in a folder, compiled if need be. The
    header of each declares them. ``cache`` and errors: as for ``load``."""
    words = tuple(shlex.split(os.environ.get("CC", "")) or ["cc"])
    compiler = Compiler(words, "the NPB kernels", os.environ, "set CC")
    version = compiler.run("--version").splitlines()[0]
    facts = (*words, version, *FLAGS, sys.version, cffi.__version__, module)
    files = file_parts(sorted(sources.glob("*.[ch]")))
    root = cache_folder(os.environ, "npb") if cache is None else cache
    library = build_once(
        root / fingerprint((*facts, *files)) / f"{module}.so",
        lambda scratch: _build(compiler, sources, parts, module, scratch),
    )
    return Kernels(_import(module, library))


def declarations(header: str) -> str:
    """Returns a header without the preprocessor's lines, which cffi cannot read."""
    return "\n".join(line for line in header.splitlines() if not line.startswith("#"))


def _build(
    compiler: Compiler, sources: Path, parts: Sequence[str], module: str, scratch: Path
) -> Path:
    ffi = cffi.FFI()
    made = []
    for part in parts:
        ffi.cdef(declarations((sources / f"{part}.h").read_text()))
        made.append(str(scratch / f"{part}.o"))
        compiler.run(*FLAGS, *STRICT, "-c", str(sources / f"{part}.c"), "-o", made[-1])
    glue = scratch / f"{module}.c"
    includes = "\n".join(f'#include "{part}.h"' for part in parts)
    make_c_source(ffi, module, includes, str(glue))
    made.append(str(scratch / "glue.o"))
    python = f"-I{sysconfig.get_path('include')}"
    compiler.run(*FLAGS, f"-I{sources}", python, "-c", str(glue), "-o", made[-1])
    linked = scratch / f"{module}.so"
    compiler.run("-shared", *made, "-lm", "-o", str(linked))
    return linked


def _import(name: str, library: Path) -> Any:
    spec = importlib.util.spec_from_file_location(name, library)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
