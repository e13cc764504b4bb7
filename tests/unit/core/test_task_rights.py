"""A task gets the rights that the user database of its node gives to its user."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cosched.cluster.agent.frames import FrameReader, Prepare, encode_frame
from cosched.cluster.messages import GiveInput, UserRequest, decode, encode
from cosched.core.cluster.startup.jobobject import JobObject, decode_object, encode_object
from cosched.core.decoding import Malformed
from cosched.core.errors import CoschedError
from cosched.core.task_rights import ROOT, Account, Identity, check_ids, identify

LARGEST = 2**32 - 2
#: A database: a user with a group of a project and one of the system, and another user.
ACCOUNTS = {
    1002: Account("anna", frozenset({1002, 5000, 998})),
    1003: Account("bert", frozenset({1003})),
}
SHADOW, PROJECT, DOCKER = 42, 5000, 998

ids = st.integers(0, LARGEST)
odd_ids = st.one_of(st.integers(max_value=-1), st.integers(min_value=LARGEST + 1))


@given(ids, ids)
def test_numbers_that_a_user_can_have_are_taken(uid, gid):
    check_ids(uid, gid)


@given(odd_ids, ids)
def test_other_numbers_are_refused(odd, good):
    for uid, gid in ((odd, good), (good, odd), (odd, odd)):
        with pytest.raises(Malformed, match="not the number of a"):
            check_ids(uid, gid)
        with pytest.raises(Malformed):
            identify(uid, gid, Account("anna", frozenset({gid})))


def job_of(uid, gid):
    return JobObject(
        *("job", uid, gid, ("./app",), {}, "/", 0o22, (1,), "none", ""),
        *(False, "/dev/null", "out", "", False, 1.0),
    )


def prepare_of(uid, gid):
    return Prepare(
        *("job", uid, gid, 0, (), {}, {}, "/", 0o22, 0, ("n1",), (1,), (), "none", ""),
        *("/", "none", "/dev/null", "out", "", False, 1.0),
    )


#: Each message from another process that names a user, encoded and decoded.
CARRIERS = {
    "request": lambda uid, gid: decode(encode(UserRequest(1, uid, gid, b""))),
    "input": lambda uid, gid: decode(
        encode(GiveInput(1, 1, 1, uid + 0 * gid, 0, b"", False))
    ),
    "job": lambda uid, gid: decode_object(encode_object(job_of(uid, gid))),
    "steward": lambda uid, gid: list(
        FrameReader().feed(encode_frame(prepare_of(uid, gid)))
    ),
}


@pytest.mark.parametrize("carrier", CARRIERS)
@given(st.one_of(st.integers(-(2**63), -1), st.integers(LARGEST + 1, 2**64 - 1)))
def test_no_message_carries_a_number_that_no_user_has(carrier, odd):
    carry = CARRIERS[carrier]
    carry(LARGEST, LARGEST)
    for uid, gid in [(odd, 5)] + [(5, odd)] * (carrier != "input"):
        with pytest.raises(CoschedError):
            carry(uid, gid)


def test_user_has_all_groups_of_the_database():
    for gid in (1002, PROJECT, DOCKER):  # the last one is of the system, and is the user's
        assert identify(1002, gid, ACCOUNTS[1002]) == Identity(
            1002, gid, frozenset({1002, PROJECT, DOCKER})
        )


@pytest.mark.parametrize(
    ("uid", "gid", "problem"),
    [
        (1003, SHADOW, r"user bert \(1003\) is not in group 42 here"),
        (1003, DOCKER, r"user bert \(1003\) is not in group 998 here"),
        (1003, PROJECT, r"user bert \(1003\) is not in group 5000 here"),
        (1003, 0, r"user bert \(1003\) is not in group 0 here"),
        (1004, 1004, "user 1004 is not in the user database of this node"),
    ],
)
def test_what_the_database_does_not_have_is_refused(uid, gid, problem):
    with pytest.raises(CoschedError, match=problem):
        identify(uid, gid, ACCOUNTS.get(uid))


@given(st.integers(1, LARGEST), ids, st.frozensets(ids, max_size=5))
def test_no_user_gets_a_group_of_others(uid, gid, groups):
    try:
        found = identify(uid, gid, Account("x", groups))
    except CoschedError:
        assert gid not in groups
    else:
        assert found == Identity(uid, gid, groups)
        assert gid in groups


def test_root_may_have_any_group_also_without_an_account():
    assert identify(ROOT, 7, None) == Identity(ROOT, 7, frozenset({7}))
    account = Account("root", frozenset({0}))
    assert identify(ROOT, 7, account) == Identity(ROOT, 7, frozenset({0, 7}))
