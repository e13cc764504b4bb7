"""Gives tests the Debian package: built here, or the file that COSCHED_DEB names.

Such a file may be for another release. It is used as it is, so it may be older than this
tree.
"""

import os
import platform
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

from tests.places import ROOT

NAME = "cosched.deb"
SUITES = {"12": "bookworm", "13": "trixie"}


def given_package(folder):
    """Puts the package into a folder; returns its path."""
    package = folder / NAME
    if built := os.environ.get("COSCHED_DEB"):
        shutil.copy(built, package)
    else:
        subprocess.run([ROOT / "scripts/package", "deb", folder], check=True, timeout=1800)
        (made,) = folder.glob("cosched_*.deb")
        made.rename(package)
    return package


def package_for(suite, folder):
    """Puts the package for a release into a folder; skips where it is for another."""
    named = os.environ.get("COSCHED_DEB")
    if named:
        found = suite_of(named)
    else:
        found = platform.freedesktop_os_release().get("VERSION_CODENAME")
    if found != suite:
        pytest.skip(f"COSCHED_DEB must name a package for {suite}; this is for {found}")
    return given_package(folder)


def raise_version(package, raised):
    """Writes the package as RAISED, with a version above all; returns that version."""
    version = "9:" + field(package, "Version")
    with tempfile.TemporaryDirectory() as folder:
        files = Path(folder, "files")
        subprocess.run(["dpkg-deb", "-R", package, files], check=True)
        control = files / "DEBIAN/control"
        text = control.read_text()
        control.write_text(re.sub("^Version: .*$", f"Version: {version}", text, flags=re.M))
        words = ["dpkg-deb", "--root-owner-group", "-Znone", "--build", files, raised]
        subprocess.run(words, check=True, stdout=subprocess.DEVNULL)
    return version


def suite_of(package):
    """Returns the name of the release of Debian for which a package is."""
    return SUITES[field(package, "Version").rpartition("~debian")[2]]


def field(package, name):
    """Returns a field of a package's control file."""
    words = ["dpkg-deb", "--field", package, name]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    return done.stdout.strip()
