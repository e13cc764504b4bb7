"""Makes domains for tests."""

import tempfile
from pathlib import Path

import pytest

from tests.domain.rig import Rig


@pytest.fixture
def make_rig(tmp_path):
    """Returns a function that makes a domain; all of them end with the test."""
    rigs = []

    def make(nodes, folder=None, **more):
        if folder is None:
            folder = tmp_path / str(len(rigs))
            folder.mkdir()
        rigs.append(Rig(folder, nodes, **more))
        return rigs[-1]

    yield make
    for rig in rigs:
        rig.close()


@pytest.fixture
def open_folder():
    """A folder that all users can enter."""
    with tempfile.TemporaryDirectory(dir="/tmp") as name:
        folder = Path(name)
        folder.chmod(0o755)
        yield folder


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    """A domain of two nodes that the tests of a file share."""
    rig = Rig(tmp_path_factory.mktemp("pair"), 2)
    rig.start()
    rig.until_up()
    yield rig
    rig.close()
