"""Names the releases of Debian that a lab can have, and what differs between them. Pure.

The packages of a release are those of ``guest/packages`` and of ``guest/packages.SUITE``.
"""

from __future__ import annotations

from dataclasses import dataclass

from cosched.core.errors import CoschedError

#: Tags of wheels that every release's C library takes, the newest first.
_OLDER = ("_2_28", "_2_17", "2014", "_2_12", "2010", "_2_5", "1")


@dataclass(frozen=True, slots=True)
class Release:
    """Describes a release of Debian as a lab has it."""

    suite: str  #: name in the archive, and of ``--release``.
    python: str  #: version of its Python.
    #: minor versions of glibc 2 whose wheels it takes, newest first.
    glibc: tuple[int, ...]
    compilers: tuple[str, ...]  #: ``mpicc`` of each MPI that gets a shim

    @property
    def mirrors(self) -> tuple[str, ...]:
        """Returns the lines of apt's sources."""
        return (
            f"deb http://deb.debian.org/debian {self.suite} main",
            f"deb http://deb.debian.org/debian {self.suite}-updates main",
            f"deb http://deb.debian.org/debian-security {self.suite}-security main",
        )

    @property
    def wheels(self) -> tuple[str, ...]:
        """Returns the options with which pip fetches wheels for its Python and glibc."""
        tags = (*(f"_2_{minor}" for minor in self.glibc), *_OLDER)
        return (
            f"--python-version={self.python}",
            "--implementation=cp",
            "--only-binary=:all:",
            *(f"--platform=manylinux{tag}_x86_64" for tag in tags),
        )


RELEASES = {
    release.suite: release
    for release in (
        Release("bookworm", "3.11", (36, 34), ("mpicc.mpich",)),
        Release("trixie", "3.13", (41, 39, 36, 34), ("mpicc.mpich", "mpicc.openmpi")),
    )
}
DEFAULT = "bookworm"


def release_of(suite: str) -> Release:
    """Returns a release by its name; CoschedError that names those that exist."""
    if suite not in RELEASES:
        raise CoschedError(f"no release '{suite}'; the releases are {', '.join(RELEASES)}")
    return RELEASES[suite]
