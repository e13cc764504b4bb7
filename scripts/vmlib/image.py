"""Builds the machine's initial file system.

Collecting the base takes seconds, because ldd reads hundreds of modules. The base seldom
changes, so ``.cache/vm`` keeps it under a fingerprint of its inputs. Each start appends a
small archive: the working tree and the command to run.

Invariants: a file in the cache is complete, because it is renamed after it is written.
Nothing else stays behind, even after an interrupt.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import IO

from . import contents
from .contents import REPOSITORY, Python

CACHE = REPOSITORY / ".cache" / "vm"
XDG_CACHE = CACHE / "xdg"


def base_image(python: Python, kernel_release: str) -> Path:
    """The base archive, from the cache if nothing in it has changed."""
    archive = contents.base(python, kernel_release)
    path = CACHE / f"base-{archive.fingerprint()}.cpio"
    if path.exists():
        return path
    contents.compile_python(python, archive.sources())
    archive = contents.base(python, kernel_release)
    contents.add_libraries(archive)
    CACHE.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_suffix(f".{os.getpid()}")
    with unfinished.open("wb") as out:
        archive.write(out)
    for old in CACHE.glob("base-*.cpio"):
        old.unlink(missing_ok=True)
    unfinished.rename(path)
    return path


@contextlib.contextmanager
def image(
    base: Path, python: Python, command: Sequence[str], extra: Iterable[Path] = ()
) -> Iterator[IO[bytes]]:
    """The base, the working tree and the command, in a file that has no name."""
    archive = contents.tree(python, extra)
    archive.text("etc/command", _script(python, command), 0o755)
    with tempfile.TemporaryFile() as out, base.open("rb") as kept:
        shutil.copyfileobj(kept, out, 1 << 20)
        archive.write(out)
        out.flush()
        yield out


def _script(python: Python, command: Sequence[str]) -> str:
    """Returns the script that guest-init runs once the machine is up."""
    folders = f"{python.scripts}:/usr/sbin:/usr/bin:/sbin:/bin:/busybox"
    environment = {
        "PATH": folders,
        "HOME": "/root",
        "XDG_CACHE_HOME": str(XDG_CACHE),
        "LANG": "C.UTF-8",
        "TERM": os.environ.get("TERM", "dumb"),
        "COLUMNS": os.environ.get("COLUMNS", "80"),
        "COSCHED_VM": "1",
    }
    if not sys.stdout.isatty():
        environment["NO_COLOR"] = "1"
    lines = ["#!/busybox/busybox sh"]
    lines += [f"export {k}={shlex.quote(v)}" for k, v in environment.items()]
    lines += [f"cd {shlex.quote(str(REPOSITORY))}", f"exec {shlex.join(command)}"]
    return "\n".join(lines) + "\n"
