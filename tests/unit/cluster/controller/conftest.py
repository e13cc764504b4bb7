"""Makes stores for tests of the controller."""

import pytest

from cosched.cluster.store import JobStore


@pytest.fixture
def store(tmp_path, request):
    """A new store for the nodes ``NODES`` of the test's module."""
    store = JobStore(tmp_path / "jobs.sqlite", request.module.NODES)
    yield store
    store.close()
