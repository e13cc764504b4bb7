"""Recognising families of MPI by library names and by what launchers say."""

from __future__ import annotations

import pytest

from cosched.launch.family import (
    Family,
    LauncherKind,
    family_of_library,
    is_mpi_library,
    read_version,
)
from tests.unit.launch import launch_fakes as fakes


@pytest.mark.parametrize(
    ("name", "family"),
    [
        ("libmpi.so.12", Family.MPICH),
        ("libmpich.so.12", Family.MPICH),
        ("libmpich.so.12.2.1", Family.MPICH),
        ("libmpifort.so.12", Family.MPICH),
        ("libmpi_gnu_91.so.12", Family.MPICH),
        ("libmpi.so.40", Family.OPENMPI),
        ("libmpi.so.40.30.4", Family.OPENMPI),
        ("libmpi_mpifh.so.40", Family.OPENMPI),
        ("libmpi.so.20", Family.OPENMPI),
        ("libmpi.so.1", None),
        ("libmpi.so", None),
        ("libmpi_abi.so.1", None),
        ("libm.so.6", None),
        ("", None),
    ],
)
def test_library_name_gives_the_family(name, family):
    assert family_of_library(name) is family


def test_standard_abi_has_no_family():
    assert is_mpi_library("libmpi_abi.so.1")
    assert not is_mpi_library("libc.so.6")


@pytest.mark.parametrize(
    ("text", "family", "engine", "number"),
    [
        (fakes.HYDRA, Family.MPICH, LauncherKind.HYDRA, "5.0.2"),
        (fakes.INTEL, Family.MPICH, LauncherKind.HYDRA, "2021.10"),
        (fakes.OPEN_MPI_5, Family.OPENMPI, LauncherKind.PRRTE, "5.0.11"),
        (fakes.OPEN_MPI_4, Family.OPENMPI, LauncherKind.ORTE, "4.1.4"),
        ("mpirun (Open MPI) 4.1.6", Family.OPENMPI, LauncherKind.ORTE, "4.1.6"),
        ("prte (PRRTE) 3.0.8", Family.OPENMPI, LauncherKind.PRRTE, "3.0.8"),
        ("slurm 23.02.3", None, LauncherKind.INHERIT, ""),
        ("", None, LauncherKind.INHERIT, ""),
    ],
)
def test_launcher_version_gives_the_family(text, family, engine, number):
    version = read_version(text)
    assert (version.family, version.engine, version.number) == (family, engine, number)
