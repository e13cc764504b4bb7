"""The release of Debian on which the labs of these tests run: ``--release trixie``."""

import pytest

from scripts.vmlab.release import DEFAULT, RELEASES


def pytest_addoption(parser):
    parser.addoption("--release", choices=list(RELEASES), default=DEFAULT)


@pytest.fixture(scope="session")
def release(pytestconfig):
    return pytestconfig.getoption("--release", DEFAULT)
