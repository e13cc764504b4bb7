"""Builds the MPI interposer for the MPI at hand, once, and keeps it.

The interposer has one source and one build for each MPI library. The site's own compiler
wrapper builds it, because only that always finds the right headers. The build's
fingerprint covers our sources, the wrapper's command line and the MPI library itself: its
size, time and build id.

Limit: a cache holds code that the user's programs will load, so it must belong to the user
that runs them, or to root, with all folders above it (``linux/files/cache.py``). Root
builds into the installation's own cache, where all users find the build.
"""

from __future__ import annotations

import importlib.util
import os
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import cosched.shm
from cosched.core.errors import CoschedError
from cosched.core.named_tuples import NamedTuple
from cosched.launch import intel
from cosched.launch.compile import (
    Compiler,
    build_once,
    file_parts,
    file_stamp,
    fingerprint,
    first_error,
)
from cosched.launch.elf import build_id
from cosched.launch.remembered import remembered
from cosched.linux.files.cache import can_be_preloaded, choose_cache, problem_with

Progress = Callable[[int, int], None]

LIBRARY_NAME = "libcosched_mpi.so"
STANDARD_ABI_WORD = "-lmpi_abi"
#: The part of cosched/shm that a task runs, the same in the mpi4py wrapper.
TASK_SOURCES = (
    *("task", "register", "environment", "spin_or_sleep", "sharing", "join", "roll"),
    *("rundir", "guard", "arrivals", "spin_limit"),
)
#: The folder of the distribution's own libraries.
_SYSTEM = Path("/usr/lib") / str(getattr(sys.implementation, "_multiarch", ""))
COMPILERS_AT_ONCE = 4
_PRODUCT = "the MPI interposer"

FLAGS = (
    "-std=gnu11",
    "-O2",
    "-g1",
    "-fPIC",
    "-U_FORTIFY_SOURCE",  # its functions are glibc's own
    "-fvisibility=hidden",
    "-ftls-model=initial-exec",
    "-Wall",
    "-Wextra",
)
#: The library must load without libmpi, because shells load it too.
LINK_FLAGS = ("-shared", "-Wl,-z,defs", f"-Wl,-soname,{LIBRARY_NAME}")
#: With these checks, gcc takes MPI_STATUSES_IGNORE for an empty buffer.
SANITIZE_FLAGS = (
    "-Werror",
    "-Wno-error=stringop-overflow",
    "-fsanitize=address,undefined",
    "-fno-sanitize-recover=undefined",
    "-fno-omit-frame-pointer",
)


class ShimBuild(NamedTuple):
    """The inputs of one build, and the place of its result."""

    mpicc: Path  #: the MPI's compiler wrapper
    options: tuple[str, ...]  #: options for the wrapper in each call; (): none
    compiler: str  #: the program that the wrapper calls
    show: str  #: the wrapper's command line, as ``-show`` prints it
    libraries: tuple[Path, ...]  #: the files of the MPI library that the wrapper links
    fingerprint: str  #: the name of the result's folder, from all inputs
    library: Path  #: the file of the result
    sanitize: bool  #: whether it has sanitizers, and warnings are errors
    #: The user's environment, for the wrapper and the compiler.
    environ: Mapping[str, str]
    remark: str = ""  #: why the result is not in the usual place; empty: it is there

    @property
    def is_built(self) -> bool:
        return self.library.is_file()


def plan_build(
    mpicc: Path,
    environ: Mapping[str, str],
    *,
    standard_abi: bool = False,
    cache: Path | None = None,
    sanitize: bool = False,
) -> ShimBuild:
    """Returns the build of the interposer for the MPI of ``mpicc``; ``make_shim`` makes it.

    ``environ``: the user's, for the compiler. ``standard_abi``: the interposer is for
    programs that follow MPI 5's own ABI; some wrappers need an option for it. ``cache``:
    where builds are kept. By default it is the installation's if it has the build,
    otherwise ``$XDG_CACHE_HOME/cosched/shim`` or ``~/.cache/cosched/shim``. ``sanitize``:
    build with the address and undefined-behaviour sanitizers, and with warnings as errors.
    """
    options = (intel.ABI_OPTION,) if standard_abi and intel.is_intel_wrapper(mpicc) else ()
    show = remembered(
        (str(mpicc), "-show", *options),
        (mpicc,),
        environ,
        lambda: _show(mpicc, options, environ),
    )
    words = _words(mpicc, show)
    if standard_abi and STANDARD_ABI_WORD not in words:
        raise CoschedError(
            f"{mpicc}: not for MPI 5's standard ABI; name that MPI's mpicc_abi with --mpicc"
        )
    libraries = _mpi_libraries(words)
    flags = FLAGS + (SANITIZE_FLAGS if sanitize else ())
    name = remembered(
        (str(mpicc), "fingerprint", show, *flags),
        (*_inputs(), *libraries),
        environ,
        lambda: _fingerprint(show, libraries, flags),
    )
    remark, library = "", None
    if cache is None:
        library = _site_build(mpicc, name, libraries, flags, environ)
        if library is None:
            cache, remark = choose_cache(environ, "shim")
    if library is None:
        assert cache is not None
        library = cache / name / LIBRARY_NAME
    return ShimBuild(
        *(mpicc, options, words[0], show, libraries, name, library, sanitize, environ),
        remark=remark,
    )


def _show(mpicc: Path, options: Sequence[str], environ: Mapping[str, str]) -> str:
    """Returns the wrapper's command line."""
    done = _wrapper(mpicc, options, environ).ask("-show")
    if done.returncode != 0:
        raise CoschedError(f"{mpicc} -show: {first_error(done.stderr)}")
    return done.stdout.strip()


def _words(mpicc: Path, show: str) -> list[str]:
    try:
        words, problem = shlex.split(show), "no output"
    except ValueError as error:
        words, problem = [], str(error)
    if not words:
        raise CoschedError(f"{mpicc} -show: {problem}; is it an MPI compiler wrapper?")
    return words


def site_cache() -> Path:
    """Returns the folder of the builds that this installation has for all users."""
    return Path(sys.prefix) / "lib" / "cosched" / "shim"


def for_all_users(build: ShimBuild) -> ShimBuild:
    """Returns the same build, kept in the installation's cache."""
    return build._replace(library=site_cache() / build.fingerprint / LIBRARY_NAME)


def for_release(build: ShimBuild) -> ShimBuild:
    """Returns the same build, kept in the installation's cache for each build of this MPI
    with the same interface: the same file name with all numbers, in the same folder. So a
    package has it for nodes without a compiler, before and after a security update. For an
    MPI inside the installation the build serves exactly these files, wherever the
    installation is: pip puts both there from wheels."""
    flags = FLAGS + (SANITIZE_FLAGS if build.sanitize else ())
    return build._replace(library=_of_release(_release_name(build.libraries, flags)))


def make_shim(build: ShimBuild, progress: Progress | None = None) -> Path:
    """Builds the planned interposer, if need be, and returns its path.

    ``progress`` is called after each compiled source, with the number of compiled sources
    and of all sources. CoschedError, in one line, if the build fails, or if other users can
    change the place of its result.
    """
    return build_once(
        build.library,
        lambda scratch: _compile(build, scratch, progress or _ignore),
        _trusted(build.library),
    )


def compile_program(build: ShimBuild, source: Path, program: Path) -> Path:
    """Compiles a C program with the wrapper of ``build``; CoschedError if that fails."""
    wrapper = _wrapper(build.mpicc, build.options, build.environ, source.name)
    wrapper.run("-O1", str(source), "-o", str(program), "-ldl")
    return program


def sources() -> tuple[Path, ...]:
    """Returns the interposer's C files; CoschedError if they are not installed."""
    shm, interposer = _source_folders()
    shared = tuple(shm / f"{name}.c" for name in TASK_SOURCES)
    found = (*sorted(interposer.rglob("*.c")), *shared)
    if len(found) == len(shared) or not all(file.is_file() for file in shared):
        raise CoschedError(f"the interposer's sources are missing from {interposer}")
    return found


def _source_folders() -> tuple[Path, Path]:
    # Found without an import: importing mpi_shim would load the mpi4py wrapper.
    spec = importlib.util.find_spec("mpi_shim")
    assert cosched.shm.__file__ is not None
    assert spec is not None
    assert spec.origin is not None
    return Path(cosched.shm.__file__).parent, Path(spec.origin).parent / "interposer"


def _wrapper(
    mpicc: Path,
    options: Sequence[str],
    environ: Mapping[str, str],
    product: str = _PRODUCT,
) -> Compiler:
    added = intel.wrapper_environment(mpicc, environ)
    return Compiler((str(mpicc), *options), product, {**environ, **added})


def _mpi_libraries(words: Sequence[str]) -> tuple[Path, ...]:
    """Returns the files of the MPI library that the wrapper links, in a fixed order."""
    folders = [word[2:] for word in words if word.startswith("-L") and len(word) > 2]
    names = [word[2:] for word in words if word.startswith("-lmpi")]
    found = {
        path.resolve()
        for folder in folders or ["/usr/lib", "/usr/lib64"]
        for name in names
        for path in Path(folder).glob(f"lib{name}.so*")
        if path.is_file()
    }
    return tuple(sorted(found)) or _installed_libraries(names)


def _installed_libraries(names: Sequence[str]) -> tuple[Path, ...]:
    """Returns the files among the system's libraries. A node without the packages for
    compiling has no links to them in the folders of the wrapper."""
    found = {path.resolve() for name in names for path in _SYSTEM.glob(f"lib{name}.so.*")}
    return tuple(sorted(found))


def _release_name(libraries: Sequence[Path], flags: Sequence[str]) -> str:
    """Returns a name that depends on the interface of the MPI and on our sources."""
    parts: list[str | bytes] = ["release", *flags, *LINK_FLAGS]
    for library in libraries:
        parts += _interface(library)
    return fingerprint((*parts, *file_parts(_inputs())))


def _interface(library: Path) -> tuple[str | bytes, ...]:
    """Returns the path of a library. Inside the installation it is the path from there,
    with size and build id: the names of libraries that pip installs have fewer numbers."""
    installation = Path(sys.prefix).resolve()
    if not library.is_relative_to(installation):
        return (str(library),)
    inside, size = library.relative_to(installation), library.stat().st_size
    return str(inside), str(size), build_id(library)


def _of_release(name: str) -> Path:
    return site_cache() / "release" / name / LIBRARY_NAME


def _fingerprint(show: str, libraries: Sequence[Path], flags: Sequence[str]) -> str:
    parts: list[str | bytes] = [show, *flags, *LINK_FLAGS]
    for library in libraries:
        # Some installations give every file the same time.
        parts += [file_stamp(library), build_id(library)]
    return fingerprint((*parts, *file_parts(_inputs())))


def _inputs() -> tuple[Path, ...]:
    """Returns all files of ours that are compiled."""
    shm, interposer = _source_folders()
    headers = (
        *sorted(interposer.rglob("*.h")),
        *sorted((shm / "include" / "cosched").glob("*.h")),
    )
    return (*sources(), *headers)


def _compile(build: ShimBuild, scratch: Path, progress: Progress) -> Path:
    from concurrent.futures import ThreadPoolExecutor  # most starts compile nothing

    extra = SANITIZE_FLAGS if build.sanitize else ()
    shm, interposer = _source_folders()
    includes = (f"-I{interposer}", f"-I{shm / 'include'}")
    wrapper = _wrapper(build.mpicc, build.options, build.environ)

    def compile_one(source: Path) -> str:
        made = str(scratch / f"{source.stem}.o")
        wrapper.run(*FLAGS, *extra, *includes, "-c", str(source), "-o", made)
        return made

    workers = min(COMPILERS_AT_ONCE, os.cpu_count() or 1)
    with ThreadPoolExecutor(workers) as pool:
        objects = []
        todo = sources()
        for made in pool.map(compile_one, todo):
            objects.append(made)
            progress(len(objects), len(todo))
    linked = scratch / LIBRARY_NAME
    # The compiler itself links: the wrapper would add the MPI library.
    linker = Compiler((build.compiler,), _PRODUCT, build.environ)
    linker.run(*LINK_FLAGS, *extra, *objects, "-o", str(linked), "-ldl", "-lpthread")
    return linked


def _ignore(done: int, total: int) -> None:
    pass


def _site_build(
    mpicc: Path,
    name: str,
    libraries: Sequence[Path],
    flags: Sequence[str],
    environ: Mapping[str, str],
) -> Path | None:
    """Returns the installation's build if it has one that can be trusted: the one of
    exactly this MPI, or the one for each build of it."""
    candidates = [site_cache() / name / LIBRARY_NAME]
    if libraries and (site_cache() / "release").is_dir():
        of_release = remembered(
            (str(mpicc), "release", *map(str, libraries), *flags),
            (*_inputs(), *libraries),
            environ,
            lambda: _release_name(libraries, flags),
        )
        candidates.append(_of_release(of_release))
    for built in filter(can_be_preloaded, candidates):
        if built.is_file() and problem_with(built, _trusted(built)) is None:
            return built
    return None


def _trusted(library: Path) -> Path:
    """Returns the folder above a library that is trusted: the installation, which this
    program is itself part of, or the root of the file system."""
    return Path(sys.prefix if library.is_relative_to(site_cache()) else "/")
