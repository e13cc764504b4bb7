"""Compares the table of calls with the installed MPI libraries: the interposer wraps each
exported call, or docs/dev/calls.md gives the reason why it does not."""

from __future__ import annotations

import fnmatch
import os
import re
import subprocess
from pathlib import Path

import pytest

from cosched.launch.shim import plan_build
from tests.run.conftest import INSTALLED, ROOT

pytestmark = pytest.mark.mpi_job

PAGE = ROOT / "docs/dev/calls.md"
#: A call of the C interface; data such as MPI_F_STATUS_IGNORE is not a function.
CALL = re.compile(r"MPIX?_\w+")
FUNCTIONS = "TWi"
#: Only these libraries together have every call that the page names.
ALL_LIBRARIES = 4


def functions(library: Path) -> set[str]:
    """Returns the functions that a shared library exports."""
    listed = subprocess.run(
        ["nm", "-D", "--defined-only", "--format=posix", library],
        capture_output=True,
        text=True,
        check=True,
    )
    words = [line.split() for line in listed.stdout.splitlines()]
    return {word[0].partition("@")[0] for word in words if word[1] in FUNCTIONS}


def exported(library: Path) -> set[str]:
    """Returns its MPI functions, without those of the PMPI names."""
    return {name for name in functions(library) if CALL.fullmatch(name)}


def profiled(library: Path) -> set[str]:
    """Returns its PMPI functions, without the P."""
    return {name[1:] for name in functions(library) if name.startswith("PMPI")}


def is_elf(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(4) == b"\x7fELF"


def left_alone() -> dict[str, list[str]]:
    """Returns the names and patterns of the page's table, by group."""
    groups: dict[str, list[str]] = {}
    for line in PAGE.read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("|") and len(cells) == 3:
            groups[cells[0]] = re.findall(r"`(MPIX?_[\w*]+)`", cells[1])
    return {group: names for group, names in groups.items() if names}


def unexplained(calls: set[str], groups: dict[str, list[str]]) -> list[str]:
    """Returns the calls that are in no group."""
    patterns = [pattern for names in groups.values() for pattern in names]

    def has_place(call: str) -> bool:
        plain = call.removesuffix("_c")
        return any(fnmatch.fnmatchcase(plain, pattern) for pattern in patterns)

    return sorted(call for call in calls if not has_place(call))


def libraries(mpi) -> list[Path]:
    return [path for path in plan_build(mpi.mpicc, os.environ).libraries if is_elf(path)]


def test_exported_call_is_wrapped_or_explained(mpi, shim_for):
    served = exported(shim_for(mpi.mpicc))
    offered = set().union(*map(exported, libraries(mpi)))
    assert len(offered) > 400
    assert served <= offered
    found = unexplained(offered - served, left_alone())
    assert not found, f"neither in calls.h nor in docs/dev/calls.md: {' '.join(found)}"


def test_wrapped_call_is_not_listed_as_left_alone(mpi, shim_for):
    served = exported(shim_for(mpi.mpicc))
    assert unexplained(served, left_alone()) == sorted(served)


def test_wrapped_call_has_both_names(mpi, shim_for):
    shim = shim_for(mpi.mpicc)
    extensions = {name for name in exported(shim) if name.startswith("MPIX_")}
    assert profiled(shim) == exported(shim) - extensions


def test_page_names_only_existing_calls():
    if len(INSTALLED) < ALL_LIBRARIES:
        pytest.skip("an MPI library is missing")
    offered = set().union(
        *(exported(path) for mpi in INSTALLED.values() for path in libraries(mpi))
    )
    for group, patterns in left_alone().items():
        dead = [each for each in patterns if not fnmatch.filter(offered, each)]
        assert not dead, f"{group}: no library has {' '.join(dead)}"


def test_unknown_call_is_found():
    assert unexplained({"MPI_Send_somehow", "MPI_Put_c"}, left_alone()) == [
        "MPI_Send_somehow"
    ]
