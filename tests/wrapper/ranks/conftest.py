"""Fixtures for tests that run on each rank."""

from __future__ import annotations

import sys

import pytest

from tests.wrapper.per_rank import choose_node


def pytest_ignore_collect(collection_path, config):
    """Collects nothing outside mpiexec."""
    return None if config.getoption("--with-mpi") else True


def pytest_runtest_logreport(report):
    """Ends the job if one rank fails: the others would wait for it."""
    if report.failed:
        from mpi4py import MPI

        print(f"rank {MPI.COMM_WORLD.rank}: {report.nodeid}", file=sys.stderr)
        print(report.longreprtext, file=sys.stderr, flush=True)
        MPI.COMM_WORLD.Abort(1)


@pytest.fixture(scope="session")
def MPI():
    """Returns the wrapped module."""
    choose_node()
    from mpi_shim import MPI

    return MPI


@pytest.fixture(scope="session")
def raw():
    """Returns mpi4py's own module."""
    from mpi4py import MPI

    return MPI


@pytest.fixture(scope="session")
def prefix(MPI):
    """Whether messages carry the status byte in this run."""
    from mpi_shim.wrapper.task.link import task

    return task.prefix


@pytest.fixture(scope="session")
def shadow(MPI):
    """Whether the status travels beside the messages in this run."""
    from mpi_shim.wrapper.status.shadow import shadow

    return shadow.on


@pytest.fixture
def needs_prefix(prefix):
    if not prefix:
        pytest.skip("this run has no status bytes (COSCHED_STATUS)")


@pytest.fixture(scope="module")
def module_comm(MPI):
    """Makes a communicator for one test module."""
    own = MPI.COMM_WORLD.Dup()
    yield own
    own.Free()


@pytest.fixture
def comm(module_comm):
    """Returns the module's communicator; a barrier follows each test."""
    yield module_comm
    module_comm.Barrier()


@pytest.fixture
def left(comm):
    return (comm.rank - 1) % comm.size


@pytest.fixture
def right(comm):
    return (comm.rank + 1) % comm.size
