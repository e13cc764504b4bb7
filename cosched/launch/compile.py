"""Compiles C files and keeps the results in a cache of the user.

Each result lies in a folder that is named by a fingerprint of everything it depends on.
One process at a time builds it, under a lock, so that the ranks of a job that start
together do not all compile. A finished result gets its place by one rename, so no process
ever sees half a file.

Limit: nothing in the cache is ever removed.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from cosched.core.digest import sha256
from cosched.core.errors import CoschedError
from cosched.core.named_tuples import NamedTuple
from cosched.linux.files.cache import check_cache
from cosched.linux.homes import with_home

if TYPE_CHECKING:
    import subprocess

COMPILE_TIMEOUT_S = 300
LOCK_NAME = "lock"
_SCRATCH = "build-"
#: A shell's exit status for a command that it does not find: MPICH's wrapper is a script.
NOT_FOUND = 127
#: Words of Open MPI's wrapper.
_NO_COMPILER = "unable to find the specified compiler"


class Compiler(NamedTuple):
    """A C compiler or an MPI's compiler wrapper."""

    words: tuple[str, ...]  #: its command line without options for one file
    product: str  #: the name of the result in error messages
    #: The environment to run it in.
    environ: Mapping[str, str]
    #: Advice for the user if there is no such compiler; empty: none.
    remedy: str = ""

    def run(self, *options: str) -> str:
        """Returns what the compiler prints; CoschedError, in one line, if it fails."""
        done = self.ask(*options)
        if done.returncode != 0:
            has_none = done.returncode == NOT_FOUND or _NO_COMPILER in done.stderr
            raise CoschedError(
                f"{self.words[0]} cannot build {self.product}: {first_error(done.stderr)}"
                f"{'; install a C compiler: apt install gcc' if has_none else ''}"
            )
        return done.stdout

    def ask(self, *options: str) -> subprocess.CompletedProcess[str]:
        """Runs the compiler, which may fail; CoschedError if it cannot be started."""
        import subprocess  # most starts compile nothing

        # A preloaded library is for the user's program, not for the compiler.
        environ = {k: v for k, v in self.environ.items() if k != "LD_PRELOAD"}
        try:
            return subprocess.run(
                [*self.words, *options],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=COMPILE_TIMEOUT_S,
                check=False,
                env={**with_home(environ), "LC_ALL": "C"},
            )
        except subprocess.TimeoutExpired:
            raise CoschedError(
                f"{self.words[0]} did not finish in {COMPILE_TIMEOUT_S} s; try it by hand"
            ) from None
        except OSError as error:
            raise CoschedError(
                f"no C compiler for {self.product}: {self.words[0]}: {error.strerror}"
                f"{self.remedy and '; '}{self.remedy}"
            ) from None


def first_error(output: str) -> str:
    """Returns the line that names the fault: the first error, otherwise the first line."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    errors = [line for line in lines if "error" in line or "not found" in line]
    return (errors or lines or ["it failed without a message"])[0]


def fingerprint(parts: Iterable[str | bytes]) -> str:
    """Returns a folder name that differs as soon as one of the parts differs."""
    whole = bytearray()
    for part in parts:
        data = os.fsencode(part) if isinstance(part, str) else part
        whole += len(data).to_bytes(8, "little") + data
    name: str = sha256(bytes(whole)).hexdigest()
    return name[:24]


def file_parts(paths: Iterable[Path]) -> Iterator[str | bytes]:
    """Returns name and contents of each file, for ``fingerprint``."""
    for path in paths:
        yield path.name
        yield path.read_bytes()


def file_stamp(path: Path) -> str:
    """Returns path, size and time of a file, for ``fingerprint``."""
    info = path.stat()
    return f"{path.absolute()} {info.st_size} {info.st_mtime_ns}"


def build_once(
    target: Path, build: Callable[[Path], Path], below: Path = Path("/")
) -> Path:
    """Returns ``target``, built first if it does not exist.

    ``build`` gets an empty folder and returns the file it made there. ``below``: a folder
    that is trusted with all that is above it. CoschedError if the cache cannot be written,
    or if users beside this one and root can change what is in it.
    """
    check_cache(target, below)
    made = _built(target, build)
    check_cache(made, below)
    return made


def _built(target: Path, build: Callable[[Path], Path]) -> Path:
    if target.is_file():
        return target
    import shutil  # most starts compile nothing
    import tempfile

    folder = target.parent
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o755)
        with locked(folder):
            if target.is_file():
                return target  # another process built it in the meantime
            for left in folder.glob(f"{_SCRATCH}*"):
                shutil.rmtree(left)  # from a build that was killed
            with tempfile.TemporaryDirectory(prefix=_SCRATCH, dir=folder) as scratch:
                made = build(Path(scratch))
                made.chmod(0o755)  # under any umask
                made.replace(target)
    except OSError as error:
        raise CoschedError(
            f"cannot write '{error.filename or folder}': {error.strerror}; "
            "set XDG_CACHE_HOME to a directory of yours"
        ) from None
    return target


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Holds a cache folder's lock; the kernel frees it if its holder dies."""
    with (folder / LOCK_NAME).open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
