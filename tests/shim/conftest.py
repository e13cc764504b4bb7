"""Builds the interposer for each installed MPI."""

from __future__ import annotations

import functools
import hashlib
import os
from pathlib import Path

import pytest

from cosched.core.errors import CoschedError
from cosched.launch.compile import build_once
from cosched.launch.shim import make_shim, plan_build
from tests.run.conftest import INSTALLED, served, shared_node, wrapper_works
from tests.shim.jobs import compile_program
from tests.wrapper.conftest import job_environ, run_dir, site

__all__ = ["job_environ", "run_dir", "served", "shared_node", "site"]


@pytest.fixture(scope="session", params=sorted(INSTALLED) or ["none"])
def mpi(request):
    """Yields each installed MPI."""
    if not INSTALLED:
        pytest.skip("no MPI is installed")
    with wrapper_works(INSTALLED[request.param]) as found:
        yield found


@pytest.fixture(scope="session")
def shim_for():
    """Builds the interposer for an mpicc, once for all tests and their jobs; skips where
    the MPI has no compiler."""

    @functools.cache  # asking a compiler for its libraries takes half a second
    def build(mpicc):
        try:
            return make_shim(plan_build(mpicc, os.environ))
        except CoschedError as error:
            pytest.skip(str(error))

    return build


@pytest.fixture(scope="session")
def build(mpi, session_folder):
    """Compiles one of the programs for ``mpi``, once for all workers."""

    @functools.cache
    def compiled(name, *flags):
        words = " ".join((str(mpi.mpicc), name, *flags))
        folder = (
            session_folder / f"{name}-{hashlib.sha256(words.encode()).hexdigest()[:12]}"
        )
        return str(
            build_once(
                folder / name,
                lambda scratch: Path(compile_program(mpi, name, scratch, *flags)),
                session_folder,
            )
        )

    return compiled
