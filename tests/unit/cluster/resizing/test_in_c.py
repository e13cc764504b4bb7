"""The C library makes the same plan as the Python library, of the same bytes."""

from __future__ import annotations

import errno
import re
import subprocess

import cffi
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cosched.core.cluster.resizing.change import (
    Arrival,
    Change,
    decode_change,
    encode_change,
)
from cosched.core.cluster.resizing.plan import Rank, Spot, plan
from cosched.core.decoding import Malformed
from cosched.core.errors import CoschedError
from tests.places import ROOT

NATIVE = ROOT / "cosched" / "malleable" / "native"
NAMES = ("change", "plan")
ffi = cffi.FFI()
for _name in NAMES:
    _text = (NATIVE / f"{_name}.h").read_text()
    ffi.cdef(re.search(r"cdef: begin \*/(.*?)/\* cdef: end", _text, re.S)[1])

places = st.integers(0, 9)
arrivals = st.builds(Arrival, places, st.sampled_from(["", "n1", "x" * 255]), places)
changes = st.builds(
    Change,
    st.integers(1, (1 << 62) - 1),
    st.lists(places, max_size=20).map(tuple),
    st.lists(arrivals.filter(lambda each: each.ranks), max_size=20).map(tuple),
)
jobs = st.lists(
    st.builds(Rank, st.integers(0, 4), st.builds(Spot, places, st.sampled_from("ab"))),
    min_size=1,
    max_size=20,
)


@pytest.fixture(scope="module")
def lib(tmp_path_factory):
    made = tmp_path_factory.mktemp("native") / "plan.so"
    sources = [NATIVE / f"{name}.c" for name in NAMES]
    flags = ("-std=gnu11", "-O1", "-shared", "-fPIC", "-Wall", "-Wextra", "-Werror")
    subprocess.run(["gcc", *flags, *sources, "-o", made], check=True)
    return ffi.dlopen(str(made))


def decode(lib, data):
    """Returns what the C library reads: an error, and the change; the caller frees it."""
    change = ffi.new("struct cosched_change *")
    return lib.cosched_change_decode(change, data, len(data)), change


def spot_of(found):
    return Spot(found.place, ffi.string(found.host).decode())


def read(change):
    arriving = change.arriving[0 : change.arriving_count]
    return Change(
        change.generation,
        tuple(change.leaving[0 : change.leaving_count]),
        tuple(Arrival(a.spot.place, spot_of(a.spot).host, a.ranks) for a in arriving),
    )


@given(change=changes)
def test_change_is_read_as_it_was_written(lib, change):
    error, found = decode(lib, encode_change(change))
    assert error == 0
    assert read(found) == change
    lib.cosched_change_free(found)


@given(change=changes, place=st.integers(0, 1 << 20), byte=st.integers(0, 255))
def test_changed_bytes_are_read_alike(lib, change, place, byte):
    data = bytearray(encode_change(change))
    data[place % len(data)] = byte
    check_bytes(lib, bytes(data))


@given(change=changes, end=st.integers(0, 1 << 20), more=st.binary(max_size=9))
def test_cut_bytes_are_read_alike(lib, change, end, more):
    data = encode_change(change)
    check_bytes(lib, data[: end % len(data)] + more)


scalars = st.none() | st.booleans() | st.floats() | st.integers(-(1 << 63), (1 << 64) - 1)
values = st.recursive(
    scalars | st.text(max_size=9) | st.binary(max_size=300),
    lambda each: st.lists(each, max_size=20) | st.dictionaries(st.text(max_size=3), each),
    max_leaves=20,
)


@given(change=changes, name=st.text(max_size=9), value=values)
def test_unknown_fields_are_skipped(lib, change, name, value):
    fields = msgspec.to_builtins(change)
    check_bytes(lib, msgspec.msgpack.encode({name: value, **fields}))


@given(data=st.binary(max_size=40))
def test_any_bytes_are_read_alike(lib, data):
    check_bytes(lib, data)


def check_bytes(lib, data):
    """The C library takes each change that the Python library takes. It does not look at
    the letters of a host, which end at a 0 byte for it."""
    error, found = decode(lib, data)
    try:
        expected = decode_change(data)
    except Malformed:
        expected = None
    if error == 0 and expected is not None:
        assert read(found) == expected
    elif error:
        assert error == -errno.EBADMSG
        long = [a for a in getattr(expected, "arriving", ()) if len(a.host.encode()) > 255]
        assert expected is None or long
    lib.cosched_change_free(found)


@given(ranks=jobs, change=changes)
def test_plans_are_the_same(lib, ranks, change):
    error, wanted = decode(lib, encode_change(change))
    assert error == 0
    before = ffi.new("struct cosched_rank[]", len(ranks))
    for each, rank in zip(before, ranks, strict=True):
        each.world, each.spot.place = rank.world, rank.spot.place
        each.spot.host = rank.spot.host.encode()
    found, why = ffi.new("struct cosched_plan *"), ffi.new("char[256]")
    error = lib.cosched_plan_make(found, before, len(ranks), wanted, why)
    lib.cosched_change_free(wanted)
    if error:
        assert error == -errno.EINVAL
        line = re.escape(ffi.string(why).decode())
        if len(set(change.leaving) - {rank.spot.place for rank in ranks}) > 1:
            line = "node "  # each library may name another one
        with pytest.raises(CoschedError, match=line):
            plan(ranks, change)
        return
    expected = plan(ranks, change)
    assert tuple(map(spot_of, found.spawned_spots[0 : found.spawned])) == expected.spawned
    assert tuple(found.order[0 : found.after]) == expected.order
    after = [Rank(rank.world, spot_of(rank.spot)) for rank in found.ranks[0 : found.after]]
    assert tuple(after) == expected.ranks
    assert frozenset(found.ended_worlds[0 : found.ended]) == expected.ended_worlds
    stays = set(expected.order)
    assert expected.ends == tuple(each not in stays for each in range(len(ranks)))
    lib.cosched_plan_free(found)


def test_job_without_ranks_after_the_change_is_refused_with_one_line(lib):
    before, why = ffi.new("struct cosched_rank[1]"), ffi.new("char[256]")
    change = ffi.new("struct cosched_change *")
    leaving = ffi.new("uint32_t[1]", [0])
    change.leaving, change.leaving_count = leaving, 1
    found = ffi.new("struct cosched_plan *")
    assert lib.cosched_plan_make(found, before, 1, change, why) == -errno.EINVAL
    assert ffi.string(why) == b"no rank of the job would stay"
