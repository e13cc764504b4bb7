"""Requests and messages that the program finds by their handles."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.mpi(min_size=2)

WAYS = [("handle", "fromhandle"), ("toint", "fromint"), ("py2f", "f2py")]


def again(cls, this, way):
    """Returns another object for the same handle; skips if the MPI has no such handle."""
    out, back = way
    number = getattr(this, out)
    number = number() if callable(number) else number
    if number == -1:
        pytest.skip(f"this MPI has no {out}")
    return getattr(cls, back)(number)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("count", [3, 20_000])
def test_request_found_by_handle_completes(MPI, comm, left, right, way, count):
    room, status = bytearray(count + 5), MPI.Status()
    request = comm.Irecv(room, left)
    found = again(MPI.Request, request, way)
    assert found == request
    comm.Isend(b"r" * count, right).Wait()
    found.Wait(status)
    assert (room[:count], status.count) == (b"r" * count, count)
    assert not found


@pytest.mark.parametrize("way", WAYS)
def test_object_request_found_by_handle(MPI, comm, left, right, prefix, shadow, way):
    request = comm.irecv(source=left)
    found = again(MPI.Request, request, way)
    comm.send({"from": comm.rank}, right)
    # Where no status travels the pickle is mpi4py's, which keeps it with the first object.
    assert found.wait() == ({"from": left} if prefix or shadow else None)


@pytest.mark.parametrize("way", WAYS)
def test_persistent_request_found_by_handle(MPI, comm, left, right, needs_prefix, way):
    """mpi4py makes a Request of any handle; the wrapper returns a Prequest."""
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
def test_message_found_by_handle(MPI, comm, left, right, way, count):
    sending = comm.Isend(b"m" * count, right, 3)
    message, status = comm.Mprobe(left, 3), MPI.Status()
    found = again(MPI.Message, message, way)
    assert found == message
    room = bytearray(count)
    found.Recv(room, status)
    assert (room, status.count) == (b"m" * count, count)
    sending.Wait()


def test_reused_handle_is_another_request(MPI, raw, comm, left, right):
    """The library uses the handle of a request that is over for another one."""
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


def test_handle_of_plain_request(MPI, comm):
    request = comm.Send_init(b"", MPI.PROC_NULL)
    found = MPI.Prequest.fromhandle(request.handle)
    assert (type(found), found) == (MPI.Prequest, request)
    found.Free()


def test_null_handles(MPI):
    assert MPI.Request.fromhandle(MPI.REQUEST_NULL.handle) == MPI.REQUEST_NULL
    assert MPI.Message.fromhandle(MPI.MESSAGE_NULL.handle) == MPI.MESSAGE_NULL
