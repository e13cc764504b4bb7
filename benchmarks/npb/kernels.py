"""Compiles the C kernels of a benchmark, once, and keeps them.

cffi's API mode: the C compiler checks the declarations that Python calls by. A build goes
to a cache of the user's, under a fingerprint of everything that it depends on: sources,
flags, compiler, Python and cffi. It gets there by one rename, under a lock, so that the
ranks of a job that begin at once neither all compile nor load half a file.

Limits: nothing in the cache is ever removed. Compiled for the machine's whole family, not
for its very processor, so that nodes of one cluster can share the cache.
"""

from __future__ import annotations

import fcntl
import hashlib
import importlib.util
import os
import shlex
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import cffi
import numpy as np
from cffi.recompiler import make_c_source
from numpy.typing import NDArray

from cosched.core.errors import CoschedError
from cosched.linux.homes import cache_home

SOURCES = Path(__file__).parent / "c"
#: No -ffast-math: the published values hold for IEEE arithmetic.
FLAGS = ("-std=gnu11", "-O3", "-fPIC", "-fno-math-errno")
#: What more than ``c/NAME.c`` some benchmarks consist of.
SHARED = {"lu": ("fluid",), "sp": ("fluid",), "bt": ("fluid",)}
STRICT = ("-Wall", "-Wextra", "-Werror")


class Kernels:
    """The compiled functions of one benchmark, as ``lib``, and pointers for them."""

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
    """The kernels of benchmark ``name``, compiled if need be.

    ``cache``: where builds are kept, by default ``$XDG_CACHE_HOME/cosched/npb`` or
    ``~/.cache/cosched/npb``. CoschedError, in one line, when they cannot be built.
    """
    compiler = shlex.split(os.environ.get("CC", "")) or ["cc"]
    module = f"_npb_{name}"
    parts = (*SHARED.get(name, ()), name)
    root = default_cache(os.environ) if cache is None else cache
    folder = root / _fingerprint(compiler, name)
    library = folder / f"{module}.so"
    if not library.is_file():
        try:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            with _locked(folder):
                if not library.is_file():
                    _build(compiler, parts, module, library)
        except OSError as error:
            raise CoschedError(
                f"the cache of the NPB kernels, {folder}: {error.strerror}; "
                "set XDG_CACHE_HOME to a directory of yours"
            ) from None
    return Kernels(_import(module, library))


def declarations(header: str) -> str:
    """What cffi may read of a header: all but the lines of the preprocessor."""
    return "\n".join(line for line in header.splitlines() if not line.startswith("#"))


def default_cache(environ: Mapping[str, str]) -> Path:
    """Where this user's builds are kept."""
    return cache_home(environ) / "cosched" / "npb"


def _fingerprint(compiler: list[str], name: str) -> str:
    version = _run([*compiler, "--version"]).splitlines()[0]
    digest = hashlib.sha256()
    words = (*compiler, version, *FLAGS, sys.version, cffi.__version__, name)
    digest.update("\0".join(words).encode())
    for path in sorted(SOURCES.glob("*.[ch]")):
        digest.update(f"\0{path.name}\0".encode() + path.read_bytes())
    return digest.hexdigest()[:24]


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    with (folder / "lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _build(compiler: list[str], parts: tuple[str, ...], module: str, library: Path) -> None:
    ffi = cffi.FFI()
    for part in parts:
        ffi.cdef(declarations((SOURCES / f"{part}.h").read_text()))
    includes = "\n".join(f'#include "{part}.h"' for part in parts)
    with tempfile.TemporaryDirectory(prefix="build-", dir=library.parent) as scratch:
        call = [*compiler, *FLAGS, f"-I{SOURCES}"]
        made = []
        for part in parts:
            made.append(str(Path(scratch, f"{part}.o")))
            _run([*call, *STRICT, "-c", str(SOURCES / f"{part}.c"), "-o", made[-1]])
        glue = Path(scratch, f"{module}.c")
        make_c_source(ffi, module, includes, str(glue))
        made.append(str(Path(scratch, "glue.o")))
        python = f"-I{sysconfig.get_path('include')}"
        _run([*call, python, "-c", str(glue), "-o", made[-1]])
        linked = str(Path(scratch, "linked.so"))
        _run([*compiler, "-shared", *made, "-lm", "-o", linked])
        os.replace(linked, library)


def _run(words: list[str]) -> str:
    try:
        done = subprocess.run(words, capture_output=True, text=True, check=False)
    except OSError as error:
        raise CoschedError(f"no C compiler: {words[0]}: {error.strerror}; set CC") from None
    if done.returncode != 0:
        lines = done.stderr.strip().splitlines()
        said = next((line for line in lines if "error" in line), lines[0] if lines else "")
        raise CoschedError(f"{words[0]} cannot build the NPB kernels: {said}")
    return done.stdout


def _import(name: str, library: Path) -> Any:
    spec = importlib.util.spec_from_file_location(name, library)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
