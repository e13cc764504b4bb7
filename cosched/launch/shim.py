"""Builds the MPI interposer for the MPI at hand, once, and keeps it.

The interposer has one source and one build for each MPI library. Building it with the
site's own compiler wrapper always gets the right headers; the result goes to a cache of
the user's, under a fingerprint of everything that it depends on: our sources, how the
wrapper compiles, and the MPI library itself: its size, time and build id. What is in the
cache was put there by one rename, so that nobody ever sees a build that is half done, and
under a lock, so that the ranks of a job that start at once do not all compile.

Limits: the cache holds code that the user's programs will load, so it must belong to the
user who runs them; nothing in it is ever removed.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import importlib.util
import os
import shlex
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import cosched.shm
from cosched.core.errors import CoschedError
from cosched.launch import intel
from cosched.launch.elf import build_id
from cosched.linux.homes import cache_home

Progress = Callable[[int, int], None]

LIBRARY_NAME = "libcosched_mpi.so"
LOCK_NAME = "lock"
STANDARD_ABI_WORD = "-lmpi_abi"
#: The part of cosched/shm that a task runs, the same in the mpi4py wrapper.
TASK_SOURCES = ("task", "register", "environment", "waiting", "sharing", "join")
COMPILE_TIMEOUT_S = 120
COMPILERS_AT_ONCE = 4

FLAGS = (
    "-std=gnu11",
    "-O2",
    "-g1",
    "-fPIC",
    "-fvisibility=hidden",
    "-ftls-model=initial-exec",
    "-Wall",
    "-Wextra",
)
#: Nothing of libmpi may be needed to load the library: it reaches shells, too.
LINK_FLAGS = ("-shared", "-Wl,-z,defs", f"-Wl,-soname,{LIBRARY_NAME}")
#: With checks in between, gcc takes MPI_STATUSES_IGNORE for a buffer of no bytes.
SANITIZE_FLAGS = (
    "-Werror",
    "-Wno-error=stringop-overflow",
    "-fsanitize=address,undefined",
    "-fno-sanitize-recover=undefined",
    "-fno-omit-frame-pointer",
)


@dataclass(frozen=True, slots=True)
class ShimBuild:
    """What a build depends on, and where its result is or will be.

    environ: what the wrapper and the compiler run in.
    """

    mpicc: Path
    options: tuple[str, ...]
    compiler: str
    show: str
    libraries: tuple[Path, ...]
    fingerprint: str
    library: Path
    sanitize: bool
    environ: Mapping[str, str] = field(compare=False, repr=False)

    @property
    def is_built(self) -> bool:
        return self.library.is_file()


def build_shim(
    mpicc: Path,
    environ: Mapping[str, str],
    *,
    standard_abi: bool = False,
    cache: Path | None = None,
    sanitize: bool = False,
) -> Path:
    """The interposer for the MPI that ``mpicc`` compiles for, built if need be.

    ``environ``: the user's, for the compiler. ``standard_abi``: for programs that follow
    MPI 5's own ABI, which some wrappers have to be told. ``cache``: where builds are kept,
    by default ``$XDG_CACHE_HOME/cosched/shim`` or ``~/.cache/cosched/shim``.
    ``sanitize``: with the address and undefined-behaviour sanitizers, and warnings as
    errors. CoschedError, in one line, when it cannot be built.
    """
    build = plan_build(
        mpicc, environ, standard_abi=standard_abi, cache=cache, sanitize=sanitize
    )
    return make_shim(build)


def plan_build(
    mpicc: Path,
    environ: Mapping[str, str],
    *,
    standard_abi: bool = False,
    cache: Path | None = None,
    sanitize: bool = False,
) -> ShimBuild:
    """What ``build_shim`` would build, without building it."""
    options = (intel.ABI_OPTION,) if standard_abi and intel.is_intel_wrapper(mpicc) else ()
    show = _ask_wrapper(mpicc, options, environ)
    words = shlex.split(show)
    if not words:
        raise CoschedError(f"{mpicc} -show: says nothing; is it an MPI compiler wrapper?")
    if standard_abi and STANDARD_ABI_WORD not in words:
        raise CoschedError(
            f"{mpicc}: not for MPI 5's standard ABI; name that MPI's mpicc_abi with --mpicc"
        )
    libraries = _mpi_libraries(words)
    flags = FLAGS + (SANITIZE_FLAGS if sanitize else ())
    fingerprint = _fingerprint(show, libraries, flags)
    root = default_cache(environ) if cache is None else cache
    library = root / fingerprint / LIBRARY_NAME
    return ShimBuild(
        mpicc, options, words[0], show, libraries, fingerprint, library, sanitize, environ
    )


def make_shim(build: ShimBuild, progress: Progress | None = None) -> Path:
    """Builds what ``plan_build`` planned, if need be.

    ``progress`` is called with how many of the sources are compiled, and how many there
    are, whenever one more is. CoschedError, in one line, when it cannot be built.
    """
    if not build.is_built:
        _make(build, progress or _say_nothing)
    _check_owner(build.library)
    return build.library


def compile_program(build: ShimBuild, source: Path, program: Path) -> Path:
    """A C program by the wrapper of ``build``; CoschedError if it does not compile."""
    wrapper = [str(build.mpicc), *build.options]
    words = ["-O1", str(source), "-o", str(program), "-ldl"]
    done = _run([*wrapper, *words], build.compiler, _wrapper_environ(build))
    if done.returncode != 0:
        raise CoschedError(
            f"{build.mpicc} cannot build {source.name}: {_first_line(done.stderr)}"
        )
    return program


def default_cache(environ: Mapping[str, str]) -> Path:
    """Where the builds of this user are kept."""
    return cache_home(environ) / "cosched" / "shim"


def sources() -> tuple[Path, ...]:
    """The C files that make up the interposer; CoschedError if they are not installed."""
    shm, interposer = _source_folders()
    tasks_side = tuple(shm / f"{name}.c" for name in TASK_SOURCES)
    found = (*sorted(interposer.rglob("*.c")), *tasks_side)
    if len(found) == len(tasks_side) or not all(file.is_file() for file in tasks_side):
        raise CoschedError(f"the interposer's sources are missing from {interposer}")
    return found


def _source_folders() -> tuple[Path, Path]:
    # Found without importing it: mpi_shim is the mpi4py wrapper, too.
    spec = importlib.util.find_spec("mpi_shim")
    assert cosched.shm.__file__ is not None
    assert spec is not None
    assert spec.origin is not None
    return Path(cosched.shm.__file__).parent, Path(spec.origin).parent / "interposer"


def _ask_wrapper(mpicc: Path, options: Sequence[str], environ: Mapping[str, str]) -> str:
    added = intel.wrapper_environment(mpicc, environ)
    done = _run([str(mpicc), *options, "-show"], str(mpicc), {**environ, **added})
    if done.returncode != 0:
        raise CoschedError(f"{mpicc} -show: {_first_line(done.stderr)}")
    return done.stdout.strip()


def _mpi_libraries(words: Sequence[str]) -> tuple[Path, ...]:
    """The files of the MPI library that the wrapper links, in a fixed order."""
    folders = [word[2:] for word in words if word.startswith("-L") and len(word) > 2]
    names = [word[2:] for word in words if word.startswith("-lmpi")]
    found = {
        path.resolve()
        for folder in folders or ["/usr/lib", "/usr/lib64"]
        for name in names
        for path in Path(folder).glob(f"lib{name}.so*")
        if path.is_file()
    }
    return tuple(sorted(found))


def _fingerprint(show: str, libraries: Sequence[Path], flags: Sequence[str]) -> str:
    digest = hashlib.sha256()
    digest.update("\0".join((show, *flags, *LINK_FLAGS)).encode())
    for library in libraries:
        info = library.stat()
        digest.update(f"\0{library}\0{info.st_size}\0{info.st_mtime_ns}\0".encode())
        # Some installations give every file the same time.
        digest.update(build_id(library))
    shm, interposer = _source_folders()
    for path in (*sources(), *sorted(interposer.rglob("*.h")), *_headers(shm)):
        digest.update(f"\0{path.name}\0".encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()[:24]


def _headers(shm: Path) -> Iterator[Path]:
    yield from sorted((shm / "include" / "cosched").glob("*.h"))


def _make(build: ShimBuild, progress: Progress) -> None:
    """Compiles and links beside the final place, then moves it there."""
    folder = build.library.parent
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        with _locked(folder):
            if build.is_built:
                return  # by whoever had the lock
            for left in folder.glob("build-*"):
                shutil.rmtree(left)  # by a build that was killed
            with tempfile.TemporaryDirectory(prefix="build-", dir=folder) as scratch:
                made = _compile(build, Path(scratch), progress)
                made.chmod(0o755)  # whatever the umask
                os.replace(made, build.library)
    except OSError as error:
        raise CoschedError(
            f"the interposer's cache {folder}: {error.strerror}; "
            "set XDG_CACHE_HOME to a directory of yours"
        ) from None


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """One build at a time; the kernel gives the lock back when a builder dies."""
    with (folder / LOCK_NAME).open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _compile(build: ShimBuild, scratch: Path, progress: Progress) -> Path:
    extra = SANITIZE_FLAGS if build.sanitize else ()
    shm, interposer = _source_folders()
    includes = (f"-I{interposer}", f"-I{shm / 'include'}")
    wrapper = [str(build.mpicc), *build.options]
    environ = _wrapper_environ(build)

    def compile_one(source: Path) -> str:
        made = str(scratch / f"{source.stem}.o")
        options = [*FLAGS, *extra, *includes, "-c", str(source), "-o", made]
        _require(_run([*wrapper, *options], build.compiler, environ), build)
        return made

    workers = min(COMPILERS_AT_ONCE, os.cpu_count() or 1)
    with ThreadPoolExecutor(workers) as pool:
        objects = []
        todo = sources()
        for made in pool.map(compile_one, todo):
            objects.append(made)
            progress(len(objects), len(todo))
    linked = scratch / LIBRARY_NAME
    # By the compiler itself: the wrapper would add the MPI library.
    options = [*LINK_FLAGS, *extra, *objects, "-o", str(linked), "-ldl", "-lpthread"]
    _require(_run([build.compiler, *options], build.compiler, build.environ), build)
    return linked


def _say_nothing(done: int, total: int) -> None:
    pass


def _wrapper_environ(build: ShimBuild) -> dict[str, str]:
    return {**build.environ, **intel.wrapper_environment(build.mpicc, build.environ)}


def _run(
    command: Sequence[str], what: str, environ: Mapping[str, str]
) -> subprocess.CompletedProcess[str]:
    environ = {k: v for k, v in environ.items() if k != "LD_PRELOAD"}
    try:
        return subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=COMPILE_TIMEOUT_S,
            check=False,
            env={**environ, "LC_ALL": "C"},
        )
    except subprocess.TimeoutExpired:
        raise CoschedError(f"{what}: not finished after {COMPILE_TIMEOUT_S} s") from None
    except OSError as error:
        raise CoschedError(
            f"no C compiler for the MPI interposer: {what}: {error.strerror}"
        ) from None


def _require(done: subprocess.CompletedProcess[str], build: ShimBuild) -> None:
    if done.returncode != 0:
        raise CoschedError(
            f"{build.mpicc} cannot build the MPI interposer: {_first_line(done.stderr)}"
        )


def _first_line(text: str) -> str:
    """The line that says what is wrong: the first error, else the first line."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    errors = [line for line in lines if "error" in line or "not found" in line]
    return (errors or lines or ["it failed without a word"])[0]


def _check_owner(library: Path) -> None:
    """Code from a place where somebody else could have put it is not loaded."""
    for path in (library, library.parent):
        info = path.stat()
        if info.st_uid != os.geteuid() or info.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            raise CoschedError(
                f"{path}: others may change it; remove it, or set XDG_CACHE_HOME "
                "to a directory of yours"
            )
