"""Makes the disk that the nodes mount as /opt: this working tree's cosched.

    /opt/src      the files of the working tree
    /opt/wheels   the packages that cosched needs; the nodes have no package index
    /opt/cosched  cosched, installed by pip as docs/cluster.md has it, with a shim for the
                  nodes' MPICH; not in a fresh lab

pip and the compiler run inside the image, where they are the nodes' own.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

from cosched.core.errors import CoschedError
from cosched.documents import read_toml
from scripts.vmlab.debian import Image, make_disk, run

REPOSITORY = Path(__file__).resolve().parents[2]
DISK_GIB = 2
#: The parts of the working tree that an installation reads.
PARTS = ("cosched", "daemons", "mpi_shim", "docs/man", "benchmarks/programs")
FILES = ("pyproject.toml", "setup.py", "README.md", "LICENSE")
#: Debian 12's Python and C library, for which pip fetches wheels.
PYTHON = ("--python-version=3.11", "--implementation=cp", "--only-binary=:all:")
PLATFORMS = tuple(
    f"--platform=manylinux{tag}_x86_64"
    for tag in ("_2_36", "_2_34", "_2_28", "_2_17", "2014", "_2_12", "2010", "_2_5", "1")
)

#: Mounts nothing outside its own mount namespace; $1 is the image's root, $2 becomes /opt.
_INSIDE = """
mount --bind "$2" "$1/opt"
mount -t proc proc "$1/proc"
exec chroot "$1" sh -ec '
    python3 -m venv /opt/cosched
    /opt/cosched/bin/pip install --quiet /opt/src
    /opt/cosched/bin/cosched shim build --site --mpicc mpicc.mpich
    install -m 644 /opt/cosched/lib/systemd/system/cosched.service /opt/cosched.service
'
"""


def disk(cache: Path, image: Image, fresh: bool, log: Path) -> Path:
    """Returns the disk, from the cache if the working tree has not changed.

    ``fresh``: without /opt/cosched, for an operator who installs it.
    """
    files = tree()
    kind = "fresh" if fresh else "opt"
    kept = cache / f"{kind}-{_fingerprint(files, image)}"
    if kept.exists():
        return kept
    folder = cache / f"unfinished-{os.getpid()}"
    try:
        for name in files:
            place = folder / "opt" / "src" / name
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(REPOSITORY / name, place)
        shutil.copytree(_wheels(cache, log), folder / "opt" / "wheels")
        if not fresh:
            words = ["unshare", "--mount", "--propagation", "private", "sh", "-ec", _INSIDE]
            run([*words, "sh", str(image.root), str(folder / "opt")], log)
        make_disk(folder / "opt", folder / "disk", DISK_GIB, log)
        for old in cache.glob(f"{kind}-*"):
            old.unlink()
        (folder / "disk").rename(kept)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return kept


def tree() -> list[str]:
    """Returns the files of the working tree that git tracks or would add."""
    words = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--"]
    done = subprocess.run(
        [*words, *PARTS, *FILES], cwd=REPOSITORY, capture_output=True, check=False
    )
    if done.returncode != 0:
        raise CoschedError(f"git: {os.fsdecode(done.stderr).strip()}")
    names = sorted(set(os.fsdecode(done.stdout).split("\0")) - {""})
    return [name for name in names if (REPOSITORY / name).is_file()]


def _fingerprint(files: list[str], image: Image) -> str:
    digest = hashlib.sha256(f"{image.folder.name}\n{_INSIDE}".encode())
    for name in files:
        digest.update(name.encode() + b"\0" + (REPOSITORY / name).read_bytes())
    return digest.hexdigest()[:16]


def _wheels(cache: Path, log: Path) -> Path:
    """Returns a folder with the wheels of all packages that cosched needs."""
    needed = requirements()
    digest = hashlib.sha256("\n".join((*needed, *PYTHON)).encode()).hexdigest()
    kept = cache / f"wheels-{digest[:16]}"
    if kept.exists():
        return kept
    for old in cache.glob("wheels-*"):
        shutil.rmtree(old)
    folder = cache / f"wheels.{os.getpid()}"
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--dest", str(folder)]
    try:
        run([*pip, *PYTHON, *PLATFORMS, *needed], log)
        folder.rename(kept)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return kept


def requirements() -> list[str]:
    """Returns what pyproject.toml requires, to build cosched and to run it."""
    project = read_toml(REPOSITORY / "pyproject.toml")
    built = project["build-system"]["requires"]
    return sorted({*built, *project["project"]["dependencies"]})
