"""Makes the nodes' image: a Debian from its packages alone, and its kernel.

mmdebstrap unpacks and configures the packages of ``guest/packages``, runs
``guest/customize`` inside, and mkfs.ext4 writes the disk. That takes some two minutes, so
the result is kept in the cache under a fingerprint of its inputs.

Invariant: a folder in the cache is complete, since it is renamed after it is written.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from cosched.core.errors import CoschedError
from scripts.vmlab.release import RELEASES, Release

GUEST = Path(__file__).with_name("guest")
INSIDE = "/usr/lib/vm-lab"
LEFT_OUT = ("man", "doc", "locale", "info")
DISK_GIB = 6
ROOM_GIB = 5
TOOLS = {
    "mmdebstrap": "mmdebstrap",
    "mkfs.ext4": "e2fsprogs",
    "qemu-system-x86_64": "qemu-system-x86",
    "ssh": "openssh-client",
    "unshare": "util-linux",
}


@dataclass(frozen=True, slots=True)
class Image:
    """An image: ``root`` has its files, and ``disk`` the same for qemu."""

    folder: Path  #: folder with the files and the disk

    @property
    def root(self) -> Path:
        return self.folder / "root"

    @property
    def disk(self) -> Path:
        return self.folder / "disk"

    @property
    def kernel(self) -> Path:
        return self._newest("vmlinuz-*")

    @property
    def initrd(self) -> Path:
        return self._newest("initrd.img-*")

    def _newest(self, pattern: str) -> Path:
        found = sorted((self.root / "boot").glob(pattern), key=os.path.getmtime)
        if not found:
            raise CoschedError(f"{self.root}/boot has no {pattern}: remove {self.folder}")
        return found[-1]


def require_tools() -> None:
    """CoschedError that names the packages of missing programs."""
    missing = {tool: package for tool, package in TOOLS.items() if not shutil.which(tool)}
    if missing:
        raise CoschedError(
            f"{', '.join(missing)} not found: apt-get install {' '.join(missing.values())}"
        )


def image(cache: Path, release: Release, log: Path, report: Callable[[str], None]) -> Image:
    """Returns the image, from the cache if nothing in it has changed."""
    kept = Image(cache / f"debian-{release.suite}-{fingerprint(release)}")
    if kept.folder.exists():
        return kept
    for old in outdated(cache, "debian", release):
        shutil.rmtree(old)
    require_room(cache)
    unfinished = Image(cache / f"unfinished-{os.getpid()}")
    unfinished.root.mkdir(parents=True)
    report(f"making the image from the packages of {release.suite}: some 2 minutes")
    try:
        run(bootstrap(unfinished.root, release), log)
        make_disk(unfinished.root, unfinished.disk, DISK_GIB, log)
        unfinished.folder.rename(kept.folder)
    finally:
        shutil.rmtree(unfinished.folder, ignore_errors=True)
    return kept


def outdated(cache: Path, kind: str, release: Release) -> list[Path]:
    """Returns what the cache has of this kind, except what belongs to other releases."""
    others = tuple(f"{kind}-{suite}-" for suite in RELEASES if suite != release.suite)
    return [old for old in cache.glob(f"{kind}-*") if not old.name.startswith(others)]


def fingerprint(release: Release) -> str:
    """Returns a name for the image: it changes with the packages and the files."""
    digest = hashlib.sha256("\n".join((*release.mirrors, *LEFT_OUT)).encode())
    others = {f"packages.{suite}" for suite in RELEASES if suite != release.suite}
    for file in sorted(GUEST.iterdir()):
        if file.name not in others:
            digest.update(file.name.encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()[:16]


def packages(release: Release) -> list[str]:
    """Returns the names of the packages: those of all releases, and its own."""
    files = (GUEST / "packages", GUEST / f"packages.{release.suite}")
    lines = [line for file in files for line in file.read_text().splitlines()]
    return [line for line in lines if line and not line.startswith("#")]


def bootstrap(root: Path, release: Release) -> list[str]:
    """Returns the command that makes the files of an image."""
    without = [f"--dpkgopt=path-exclude=/usr/share/{name}/*" for name in LEFT_OUT]
    return [
        *("mmdebstrap", "--mode=root", "--variant=minbase", *without),
        f"--include={','.join(packages(release))}",
        f"--customize-hook=mkdir -p $1{INSIDE}",
        f"--customize-hook=cp {GUEST}/* $1{INSIDE}/",
        f"--customize-hook=chroot $1 sh {INSIDE}/customize",
        *(release.suite, str(root), *release.mirrors),
    ]


def make_disk(files: Path, disk: Path, gib: int, log: Path) -> None:
    """Writes an ext4 disk with the files; no journal, since no lab keeps its disks."""
    with disk.open("wb") as out:
        out.truncate(gib << 30)
    options = ["-q", "-F", "-O", "^has_journal", "-E", "lazy_itable_init=1"]
    run(["mkfs.ext4", *options, "-d", str(files), str(disk)], log)


def require_room(folder: Path) -> None:
    """CoschedError unless an image fits into the folder's file system."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    free_gib = shutil.disk_usage(folder).free / 2**30
    if free_gib < ROOM_GIB:
        raise CoschedError(
            f"the image needs {ROOM_GIB} GiB in {folder}, and {free_gib:.1f} GiB are free: "
            "make room, or set XDG_CACHE_HOME"
        )


def run(command: Sequence[str], log: Path) -> None:
    """Runs a step of the making; CoschedError with the last line of its output."""
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as out:
        began = out.tell()
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, stdout=out, stderr=out, check=False
        )
    if done.returncode != 0:
        with log.open("rb") as lines:
            lines.seek(began)
            said = lines.read().decode(errors="replace").strip().splitlines()
        reason = said[-1] if said else f"status {done.returncode}"
        raise CoschedError(f"{command[0]} failed: {reason} (see {log})")
