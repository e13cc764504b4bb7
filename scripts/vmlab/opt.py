"""Makes the disk that the nodes mount as /opt: this working tree's cosched.

    /opt/src      the files of the working tree
    /opt/wheels   the packages that cosched needs; the nodes have no package index
    /opt/cosched  cosched, installed by pip as docs/cluster.md has it, with a shim for each
                  MPI of the nodes; not in a fresh lab

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
from scripts.vmlab.debian import Image, make_disk, outdated, run
from scripts.vmlab.release import Release

REPOSITORY = Path(__file__).resolve().parents[2]
DISK_GIB = 2
#: The parts of the working tree that an installation reads.
PARTS = ("cosched", "daemons", "mpi_shim", "docs/man", "benchmarks/programs")
FILES = ("pyproject.toml", "setup.py", "README.md", "LICENSE")

#: Mounts nothing outside its own mount namespace; $1 is the image's root, $2 becomes /opt,
#: and $3 has the compilers of the MPIs, with blanks between them.
_INSIDE = """
mount --bind "$2" "$1/opt"
mount -t proc proc "$1/proc"
exec chroot "$1" /usr/bin/env COMPILERS="$3" sh -ec '
    python3 -m venv /opt/cosched
    /opt/cosched/bin/pip install --quiet /opt/src
    for mpicc in $COMPILERS; do
        /opt/cosched/bin/cosched shim build --site --mpicc "$mpicc"
    done
    install -m 644 /opt/cosched/lib/systemd/system/cosched.service /opt/cosched.service
'
"""


def disk(cache: Path, image: Image, release: Release, fresh: bool, log: Path) -> Path:
    """Returns the disk, from the cache if the working tree has not changed.

    ``fresh``: without /opt/cosched, for an operator who installs it.
    """
    files = tree(*PARTS, *FILES)
    kind = "fresh" if fresh else "opt"
    kept = cache / f"{kind}-{release.suite}-{_fingerprint(files, image, release)}"
    if kept.exists():
        return kept
    folder = cache / f"unfinished-{os.getpid()}"
    try:
        copy_sources(files, folder / "opt" / "src")
        shutil.copytree(wheels(cache, release, log), folder / "opt" / "wheels")
        if not fresh:
            words = ["unshare", "--mount", "--propagation", "private", "sh", "-ec", _INSIDE]
            places = (str(image.root), str(folder / "opt"))
            run([*words, "sh", *places, " ".join(release.compilers)], log)
        make_disk(folder / "opt", folder / "disk", DISK_GIB, log)
        for old in outdated(cache, kind, release):
            old.unlink()
        (folder / "disk").rename(kept)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return kept


def copy_sources(names: list[str], folder: Path) -> None:
    """Copies files of the working tree into a folder."""
    for name in names:
        place = folder / name
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(REPOSITORY / name, place)


def tree(*parts: str) -> list[str]:
    """Returns the files in these parts of the working tree that git tracks or would add."""
    words = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--"]
    done = subprocess.run(
        [*words, *parts], cwd=REPOSITORY, capture_output=True, check=False
    )
    if done.returncode != 0:
        raise CoschedError(f"git: {os.fsdecode(done.stderr).strip()}")
    names = sorted(set(os.fsdecode(done.stdout).split("\0")) - {""})
    return [name for name in names if (REPOSITORY / name).is_file()]


def _fingerprint(files: list[str], image: Image, release: Release) -> str:
    made = f"{image.folder.name}\n{_INSIDE}\n{release.compilers}"
    digest = hashlib.sha256(made.encode())
    for name in files:
        digest.update(name.encode() + b"\0" + (REPOSITORY / name).read_bytes())
    return digest.hexdigest()[:16]


def wheels(cache: Path, release: Release, log: Path) -> Path:
    """Returns a folder with the wheels of all packages that cosched needs."""
    needed = requirements()
    digest = hashlib.sha256("\n".join((*needed, *release.wheels)).encode()).hexdigest()
    kept = cache / f"wheels-{release.suite}-{digest[:16]}"
    if kept.exists():
        return kept
    for old in outdated(cache, "wheels", release):
        shutil.rmtree(old)
    folder = cache / f"wheels.{os.getpid()}"
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--dest", str(folder)]
    try:
        run([*pip, *release.wheels, *needed], log)
        folder.rename(kept)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return kept


def requirements() -> list[str]:
    """Returns what pyproject.toml requires, to build cosched and to run it."""
    project = read_toml(REPOSITORY / "pyproject.toml")
    built = project["build-system"]["requires"]
    return sorted({*built, *project["project"]["dependencies"]})
