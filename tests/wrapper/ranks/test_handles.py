"""Requests and messages that the program finds again by their handles."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.mpi(min_size=2)

WAYS = [("handle", "fromhandle"), ("toint", "fromint"), ("py2f", "f2py")]


def again(cls, this, way):
    """Another object for the same thing; skips where the MPI has no such handle."""
    out, back = way
    number = getattr(this, out)
    number = number() if callable(number) else number
    if number == -1:
        pytest.skip(f"this MPI has no {out}")
    return getattr(cls, back)(number)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("count", [3, 20_000])
def test_requests(MPI, comm, left, right, way, count):
    room, status = bytearray(count + 5), MPI.Status()
    request = comm.Irecv(room, left)
    found = again(MPI.Request, request, way)
    assert found == request
    comm.Isend(b"r" * count, right).Wait()
    found.Wait(status)
    assert (room[:count], status.count) == (b"r" * count, count)
    assert not found


@pytest.mark.parametrize("way", WAYS)
def test_requests_of_objects(MPI, comm, left, right, prefix, shadow, way):
    request = comm.irecv(source=left)
    found = again(MPI.Request, request, way)
    comm.send({"from": comm.rank}, right)
    # Where no status travels the pickle is mpi4py's, which keeps it with the first object.
    assert found.wait() == ({"from": left} if prefix or shadow else None)


@pytest.mark.parametrize("way", WAYS)
def test_persistent_requests(MPI, comm, left, right, needs_prefix, way):
    """Here the wrapper can do more than mpi4py, which makes a Request of any handle."""
    room, status = bytearray(9), MPI.Status()
    request = comm.Recv_init(room, left)
    found = again(MPI.Prequest, request, way)
    assert isinstance(found, MPI.Prequest)
    for turn in (b"one", b"three"):
        found.Start()
        comm.Send(turn, right)
        found.Wait(status)
        assert (room[: len(turn)], status.count) == (turn, len(turn))
    found.Free()


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("count", [5, 20_000])
def test_messages(MPI, comm, left, right, way, count):
    sending = comm.Isend(b"m" * count, right, 3)
    message, status = comm.Mprobe(left, 3), MPI.Status()
    found = again(MPI.Message, message, way)
    assert found == message
    room = bytearray(count)
    found.Recv(room, status)
    assert (room, status.count) == (b"m" * count, count)
    sending.Wait()


def test_a_number_used_again_is_somebody_else(MPI, raw, comm, left, right):
    """A handle that was told belongs to a request that is over; its number comes back."""
    room = bytearray(1)
    request = comm.Irecv(room, left)
    old = request.handle
    comm.Send(b"1", right)
    request.Wait()
    foreign = [raw.Comm.Irecv(raw.COMM_SELF, bytearray(1), 0, 99) for _ in range(8)]
    for each in foreign:
        found = MPI.Request.fromhandle(each.handle)
        assert found._operation is None, (each.handle, old)
        each.Cancel()
        each.Wait()


def test_a_handle_with_nothing_left_to_do(MPI, comm):
    request = comm.Send_init(b"", MPI.PROC_NULL)
    found = MPI.Prequest.fromhandle(request.handle)
    assert (type(found), found) == (MPI.Prequest, request)
    found.Free()


def test_handles_of_nothing(MPI):
    assert MPI.Request.fromhandle(MPI.REQUEST_NULL.handle) == MPI.REQUEST_NULL
    assert MPI.Message.fromhandle(MPI.MESSAGE_NULL.handle) == MPI.MESSAGE_NULL
