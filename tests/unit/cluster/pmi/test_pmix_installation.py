"""Finding the libpmix of an Open MPI, and the variables of one that was moved."""

from __future__ import annotations

import pytest

from cosched.cluster.pmi import pmix_installation
from cosched.cluster.pmi.pmix_installation import find_installation

OPAL, PMIX = "libopen-pal.so.80", "libpmix.so.2"


@pytest.fixture
def prefix(tmp_path):
    """The prefix of an Open MPI."""
    prefix = tmp_path / "openmpi"
    prefix.mkdir()
    for folder in ("bin", "lib"):
        (prefix / folder).mkdir()
    (prefix / "lib/libmpi.so.40").touch()
    return prefix


@pytest.fixture
def loads(prefix, monkeypatch):
    """Makes libmpi load these files of the prefix, built for ``built``."""

    def load(*files, built="/opt/openmpi"):
        for file in files:
            (prefix / file).write_bytes(b"\x7fELF\0" + str(built).encode() + b"\0more")
        found = [(file.rpartition("/")[2], str(prefix / file)) for file in files]
        monkeypatch.setattr(pmix_installation, "loaded_libraries", lambda *_: found)

    return load


def test_no_open_mpi_at_all(tmp_path):
    assert find_installation(tmp_path / "bin/mpiexec", {}) is None


def test_open_mpi_4_is_none_even_with_a_libpmix(prefix, loads):
    loads("lib/libopen-rte.so.40", "lib/libopen-pal.so.40", f"lib/{PMIX}")
    assert find_installation(prefix / "bin/mpiexec", {}) is None


def test_open_mpi_without_libpmix_is_none(prefix, loads):
    loads(f"lib/{OPAL}")
    assert find_installation(prefix / "bin/mpiexec", {}) is None


def test_moved_open_mpi_needs_variables(prefix, loads):
    loads(f"lib/{OPAL}", f"lib/{PMIX}")
    found = find_installation(prefix / "bin/mpiexec", {})
    assert found.libpmix == prefix / "lib" / PMIX
    assert found.variables == {"OPAL_PREFIX": str(prefix), "PMIX_PREFIX": str(prefix)}


def test_open_mpi_at_its_place_needs_none(prefix, loads):
    loads(f"lib/{OPAL}", f"lib/{PMIX}", built=prefix)
    assert find_installation(prefix / "bin/mpiexec", {}).variables == {}


def test_libpmix_of_the_system_was_not_moved(prefix, loads):
    loads(f"lib/{OPAL}", f"../{PMIX}")
    found = find_installation(prefix / "bin/mpiexec", {})
    assert found.variables == {"OPAL_PREFIX": str(prefix)}


def test_prefix_of_the_user_stays(prefix, loads):
    loads(f"lib/{OPAL}", f"lib/{PMIX}")
    found = find_installation(prefix / "bin/mpiexec", {"OPAL_PREFIX": "/mine"})
    assert found.variables == {"PMIX_PREFIX": str(prefix)}


def test_launcher_may_be_a_link(prefix, loads, tmp_path_factory):
    loads(f"lib/{OPAL}", f"lib/{PMIX}", built=prefix)
    (prefix / "bin/mpiexec").touch()
    link = tmp_path_factory.mktemp("links") / "mpiexec"
    link.symlink_to(prefix / "bin/mpiexec")
    assert find_installation(link, {}).libpmix == prefix / "lib" / PMIX
