"""Sending and receiving in one call, with one buffer or two.

Without a status these calls are the library's own: the non-blocking one of MPICH leaves its
status empty, that of Open MPI loses a truncation.
"""

from __future__ import annotations

from array import array

import pytest

pytestmark = pytest.mark.mpi(min_size=2)

COUNTS = [0, 1, 3, 600, 50_000]


def numbers(count, rank):
    return array("d", [rank + i / 8 for i in range(count)])


@pytest.fixture
def has_status(prefix):
    """Returns whether the status of a non-blocking call is right."""
    return lambda call: prefix or not call.startswith("I")


@pytest.mark.parametrize("count", COUNTS)
def test_isendrecv(MPI, comm, left, right, count, has_status):
    room, status = array("d", bytes(8 * (count + 2))), MPI.Status()
    request = comm.Isendrecv(numbers(count, comm.rank), right, 4, room, left, 4)
    assert isinstance(request, MPI.Request)
    request.Wait(status)
    assert room == numbers(count, left) + array("d", [0, 0])
    if has_status("Isendrecv"):
        assert (status.source, status.tag, status.count) == (left, 4, 8 * count)


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("call", ["Isendrecv_replace", "Sendrecv_replace"])
def test_isendrecv_replace(MPI, comm, left, right, call, count, has_status):
    data, status = numbers(count, comm.rank), MPI.Status()
    if call == "Isendrecv_replace":
        comm.Isendrecv_replace(data, right, 5, left, 5).Wait(status)
    else:
        comm.Sendrecv_replace(data, right, 5, left, 5, status)
    assert data == numbers(count, left)
    if has_status(call):
        assert (status.source, status.tag, status.count) == (left, 5, 8 * count)


def test_several_isendrecv_at_once(MPI, comm, left, right, has_status):
    rooms = [bytearray(n) for n in (1, 4_095, 4_096, 70_000)]
    requests = [
        comm.Isendrecv(bytes([n % 251]) * len(room), right, n, room, left, n)
        for n, room in enumerate(rooms)
    ]
    statuses = [MPI.Status() for _ in rooms]
    MPI.Request.Waitall(requests, statuses)
    if has_status("Isendrecv"):
        assert [status.count for status in statuses] == [len(room) for room in rooms]
    assert rooms == [bytearray([n % 251]) * len(room) for n, room in enumerate(rooms)]


def test_isendrecv_matches_send_and_receive(comm, left, right):
    """One side calls Isendrecv, the other Isend and Irecv."""
    if comm.size % 2:
        pytest.skip("needs an even number of ranks")
    room = bytearray(3)
    if comm.rank % 2:
        comm.Isendrecv(b"odd", left, 6, room, left, 7).Wait()
        assert room == b"evn"
    else:
        sending, receiving = comm.Isend(b"evn", right, 7), comm.Irecv(room, right, 6)
        sending.Wait()
        receiving.Wait()
        assert room == b"odd"


@pytest.mark.parametrize("call", ["Isendrecv", "Isendrecv_replace", "Sendrecv_replace"])
def test_isendrecv_with_proc_null(MPI, comm, call, has_status):
    """The ranks form a line: the first receives nothing, the last sends nothing."""
    right = comm.rank + 1 if comm.rank + 1 < comm.size else MPI.PROC_NULL
    left = comm.rank - 1 if comm.rank else MPI.PROC_NULL
    mine, room, status = bytearray([comm.rank]), bytearray(b"\xff"), MPI.Status()
    if call == "Isendrecv":
        comm.Isendrecv(mine, right, 0, room, left, 0).Wait(status)
    elif call == "Isendrecv_replace":
        comm.Isendrecv_replace(room := mine, right, 0, left, 0).Wait(status)
    else:
        comm.Sendrecv_replace(room := mine, right, 0, left, 0, status)
    if left == MPI.PROC_NULL:
        expected = (MPI.PROC_NULL, 0)
        assert room == (b"\xff" if call == "Isendrecv" else b"\0")
    else:
        expected = (left, 1)
        assert room == bytes([left])
    if has_status(call):
        assert (status.source, status.count) == expected


@pytest.mark.parametrize("call", ["Isendrecv_replace", "Sendrecv_replace"])
@pytest.mark.parametrize("stride", [2, 9_000])
@pytest.mark.parametrize("sent", [1, 3])
def test_isendrecv_of_datatype_outside_buffer(
    MPI, comm, left, right, call, stride, sent, has_status
):
    """Absolute addresses; ``sent`` elements of three, so the last may stay as it was."""
    if not has_status(call):
        pytest.skip("MPICH's own Isendrecv_replace copies what is at address 0")
    data = numbers(3 * stride, comm.rank)
    address = MPI.Get_address(data)
    types = [
        MPI.Datatype.Create_hindexed_block(
            MPI.DOUBLE, 1, [address + 8 * stride * i for i in range(count)]
        ).Commit()
        for count in (3, sent)
    ]
    status = MPI.Status()
    odd = comm.rank % 2 and comm.size % 2 == 0
    if odd:
        # The plain way, to and from who replaces.
        room = array("d", [-1.0] * 3)
        receiving = comm.Irecv(room, left)
        comm.Send([MPI.BOTTOM, 1, types[1]], left)
        receiving.Wait(status)
        assert list(room) == list(numbers(3 * stride, left))[::stride]
    else:
        peers = (right, 0, right, 0) if comm.size % 2 == 0 else (right, 0, left, 0)
        whole = [MPI.BOTTOM, 1, types[0]]
        if call == "Isendrecv_replace":
            comm.Isendrecv_replace(whole, *peers).Wait(status)
        else:
            comm.Sendrecv_replace(whole, *peers, status)
        got = sent if comm.size % 2 == 0 else 3
        theirs = numbers(3 * stride, peers[2])
        expected = numbers(3 * stride, comm.rank)
        for i in range(got):
            expected[stride * i] = theirs[stride * i]
        assert data == expected
        assert status.count == 8 * got
    for datatype in types:
        datatype.Free()


def test_long_datatype_outside_buffer_is_refused(MPI, comm, needs_prefix):
    data = numbers(10_000, comm.rank)
    address = MPI.Get_address(data)
    whole = MPI.Datatype.Create_hindexed(MPI.DOUBLE, [10_000], [address]).Commit()
    message = [MPI.BOTTOM, 1, whole]
    for call in ("Isendrecv_replace", "Isendrecv"):
        into = () if call == "Isendrecv_replace" else (bytearray(9),)
        with pytest.raises(NotImplementedError, match=f"^mpi_shim: {call} .*; use Isend"):
            getattr(comm, call)(message, comm.rank, 0, *into, comm.rank, 0)
    comm.Sendrecv_replace(message, comm.rank, 0, comm.rank, 0)
    assert data == numbers(10_000, comm.rank)
    whole.Free()


def test_truncated_message_is_an_error(MPI, comm, left, right, needs_prefix):
    request = comm.Isendrecv(b"elevenbytes", right, 0, bytearray(10), left, 0)
    with pytest.raises(MPI.Exception) as caught:
        request.Wait()
    assert caught.value.Get_error_class() == MPI.ERR_TRUNCATE


def test_wrong_arguments_are_mpi_errors(MPI, comm):
    with pytest.raises(MPI.Exception):
        comm.Isendrecv(b"x", comm.size + 3, 0, bytearray(1), comm.rank, 98)
