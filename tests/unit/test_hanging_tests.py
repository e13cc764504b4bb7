"""A test that hangs becomes one failed test, and the others run."""

import os
import subprocess
import sys

from tests.places import ROOT

CONFTEST = """
from tests.limits import Limits

def pytest_configure(config):
    config.pluginmanager.register(Limits(grace_s=1))
"""
TESTS = """
import contextlib, time
import pytest

@pytest.fixture
def fixture():
    yield
    print("the fixture ends")

@pytest.mark.timeout(2)
def test_hangs(fixture):
    time.sleep(60)

@pytest.mark.timeout(2)
def test_hangs_for_good():
    with contextlib.suppress(BaseException):
        time.sleep(60)
    time.sleep(60)

@pytest.fixture
def fixture_that_hangs():
    yield
    time.sleep(60)

@pytest.mark.timeout(2)
def test_fails_before_its_fixture_hangs(fixture_that_hangs):
    assert False

def test_works():
    pass
"""


def test_each_test_that_hangs_fails_alone(tmp_path):
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "test_it.py").write_text(TESTS)
    words = [sys.executable, "-m", "pytest", "-n", "1", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [*words, "-p", "no:hypothesispytest", "-rA", "-q"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join((str(ROOT), *sys.path))},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    shown = done.stdout.splitlines()
    assert "FAILED test_it.py::test_hangs - Failed: Timeout (>2.0s) from" in done.stdout
    assert "the fixture ends" in shown
    for name in ("test_hangs_for_good", "test_fails_before_its_fixture_hangs"):
        assert f"crashed while running 'test_it.py::{name}'" in done.stdout
    assert "PASSED test_it.py::test_works" in shown
    assert "Timeout (0:00:03)!" in done.stderr
    assert 'test_it.py", line 18 in test_hangs_for_good' in done.stderr
