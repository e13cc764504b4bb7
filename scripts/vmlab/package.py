"""Makes the Debian package of a release inside its image, whose files stay as they are.

The compiler, Python and MPIs are those of the release. The image has no package index, so
pip takes wheels that the host has fetched.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

from scripts.vmlab import debian, opt
from scripts.vmlab.lab import require_root
from scripts.vmlab.release import Release

#: Mounts nothing outside its own mount namespace. $1 is the image's root, $2 has the
#: folders that the package is made from and goes to.
_INSIDE = """
cd "$2"
mkdir changed work root
mount -t overlay overlay -o "lowerdir=$1,upperdir=changed,workdir=work" root
mount -t proc proc root/proc
mount --rbind /dev root/dev
mkdir root/build
mount --bind "$2" root/build
exec chroot root /usr/bin/env -i HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin \
    PIP_NO_INDEX=1 PIP_FIND_LINKS=/build/wheels \
    COSCHED_DEB_SUFFIX="$COSCHED_DEB_SUFFIX" /build/src/scripts/package deb /build/made
"""


def make_package(
    cache: Path, release: Release, folder: Path, report: Callable[[str], None]
) -> Path:
    """Writes the package of the working tree into a folder; returns its path.

    CoschedError with the last line of the step that failed.
    """
    log = cache / "log"
    require_root()
    debian.require_tools()
    image = debian.image(cache, release, log, report)
    report("making the package: some 2 minutes")
    work = cache / f"unfinished-{os.getpid()}"
    try:
        opt.copy_sources(opt.tree("."), work / "src")
        shutil.copytree(opt.wheels(cache, release, log), work / "wheels")
        inside = ["unshare", "--mount", "--propagation", "private", "sh", "-ec", _INSIDE]
        debian.run([*inside, "sh", str(image.root), str(work)], log)
        (made,) = (work / "made").glob("cosched_*.deb")
        folder.mkdir(parents=True, exist_ok=True)
        return Path(shutil.move(made, folder / made.name))
    finally:
        shutil.rmtree(work, ignore_errors=True)
