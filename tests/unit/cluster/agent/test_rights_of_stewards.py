"""A steward that does not get the rights of its job's user ends at once."""

import pwd

import msgspec
import pytest

from cosched.cluster.agent.frames import CannotStart
from tests.unit.cluster.agent.test_stewards import Home, Steward

USER = pwd.getpwnam("nobody")
#: A nursery of root, under a kernel that changes no rights but reports no error.
NO_CHANGE = """
import os
from cosched.cluster.agent import nursery
os.geteuid = lambda: 0
os.setgroups = os.setresgid = os.setresuid = lambda *_: None
nursery.main()
"""


@pytest.fixture
def home(tmp_path):
    home = Home(tmp_path)
    yield home
    home.close()


def start(home, uid, gid):
    """Returns the frames of a steward of root's nursery, until the steward has ended."""
    steward = Steward(home.nursery("-c", NO_CHANGE))
    frame = home.prepare(f"touch {home.folder}/ran")
    steward.send(msgspec.structs.replace(frame, uid=uid, gid=gid))
    found = []
    while (frames := steward.frames()) is not None:  # though the agent is still there
        found += frames
    steward.socket.close()
    return found


def test_a_steward_that_stays_root_ends_and_starts_nothing(home):
    reason = f"has other rights than those of user {USER.pw_uid}"
    assert start(home, USER.pw_uid, USER.pw_gid) == [CannotStart(reason)]
    assert not (home.folder / "ran").exists()


@pytest.mark.parametrize("ids", [(-1, USER.pw_gid), (2**32 - 1, USER.pw_gid)])
def test_a_steward_takes_no_number_that_means_unchanged(home, ids):
    assert start(home, *ids) == []
    assert not (home.folder / "ran").exists()
