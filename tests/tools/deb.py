"""Gives tests the Debian package: built here, or the file that COSCHED_DEB names.

Such a file may be for another release. It is used as it is, so it may be older than this
tree.
"""

import os
import shutil
import subprocess

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


def suite_of(package):
    """Returns the name of the release of Debian for which a package is."""
    words = ["dpkg-deb", "--field", package, "Version"]
    version = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    return SUITES[version.strip().rpartition("~debian")[2]]
