"""Gives tests the Debian package: built now, or the file that COSCHED_DEB names.

Such a file is used as it is, so it may be older than this tree.
"""

import os
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
    """Puts the package of this machine's release into a folder; returns its path."""
    return _package(folder, "deb")


def package_for(suite, folder):
    """Puts the package of a release into a folder; skips if COSCHED_DEB has another."""
    named = os.environ.get("COSCHED_DEB")
    if named and suite_of(named) != suite:
        pytest.skip(f"COSCHED_DEB is a package for {suite_of(named)}, not for {suite}")
    return _package(folder, "deb-for", suite)


def _package(folder, *words):
    package = folder / NAME
    if built := os.environ.get("COSCHED_DEB"):
        shutil.copy(built, package)
    else:
        command = [ROOT / "scripts/package", *words, folder]
        subprocess.run(command, check=True, timeout=1800)
        (made,) = folder.glob("cosched_*.deb")
        made.rename(package)
    return package


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
