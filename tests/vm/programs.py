"""MPI programs that scripts/vm has compiled outside."""

from __future__ import annotations

import pytest

from tests.places import ROOT

FOLDER = ROOT / ".cache" / "vm" / "programs"


def program(name: str) -> str:
    """The path of a program; skips where there was no compiler for it."""
    path = FOLDER / name
    if not path.exists():
        pytest.skip(f"no {name}: scripts/vm had no mpicc to compile it")
    return str(path)
