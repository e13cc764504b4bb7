"""Runs the NAS benchmarks under each MPI."""

from __future__ import annotations

import functools
import json

import pytest

from tests.wrapper.sites import find_site

#: Far more than a run needs on an idle machine.
TIMEOUT_S = 300.0


@pytest.fixture(scope="session", params=["mpich", "openmpi"])
def site(request):
    """Yields each MPI."""
    found = find_site(request.param)
    if isinstance(found, str):
        pytest.skip(found)
    return found


@pytest.fixture(scope="session")
def any_site():
    """The first MPI found, for tests whose result does not depend on the MPI."""
    found = [find_site(family) for family in ("mpich", "openmpi")]
    sites = [site for site in found if not isinstance(site, str)]
    if not sites:
        pytest.skip(" and ".join(map(str, found)))
    return sites[0]


def runner(site):
    """Returns ``run(ranks, *arguments)``, which runs Python on some ranks."""
    return functools.partial(site.run, environ={}, timeout_s=TIMEOUT_S)


@pytest.fixture
def npb(site):
    """``npb(ranks, *arguments)`` runs ``python -m benchmarks.npb`` under each MPI."""
    run = runner(site)
    return lambda ranks, *arguments: run(ranks, "-m", "benchmarks.npb", *arguments)


@pytest.fixture
def run_once(any_site):
    """``run_once(ranks, *arguments)`` runs Python on some ranks under one MPI."""
    return runner(any_site)


def run_several(run, ranks, *runs):
    """Runs several command lines in one job. Returns the status that all ranks had, the
    output and the errors of each. runs: words, and a change of a constant or None."""
    done = run(ranks, "-m", "mpi4py", "-m", "tests.npb.several", json.dumps(runs))
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(done.stdout)
    assert len(found) == len(runs)
    for each in found:
        assert each["statuses"] == [each["statuses"][0]] * ranks, each
    return [(each["statuses"][0], each["out"], each["err"]) for each in found]


def check_class_s(text, benchmark, ranks):
    """Checks the output of a run with --json; returns what it contains."""
    found = json.loads(text)
    assert found["verified"] is True, benchmark
    assert found["failed"] == []
    assert (found["benchmark"], found["class"]) == (benchmark, "S")
    assert found["ranks"] == ranks
    assert found["seconds"] > 0
    assert found["mops"] > 0
    return found
