"""Completion of requests: statuses, memory, and mixtures of requests."""

from __future__ import annotations

import gc
from array import array

import pytest

pytestmark = pytest.mark.mpi(min_size=2)


def test_waitall_and_statuses(MPI, comm, left, right):
    rooms = [bytearray(100) for _ in range(4)]
    receives = [comm.Irecv(room, left, tag) for tag, room in enumerate(rooms)]
    sends = [comm.Isend(b"s" * (10 * tag), right, tag) for tag in range(4)]
    statuses = [MPI.Status()]
    MPI.Request.Waitall(receives, statuses)
    assert [status.count for status in statuses] == [0, 10, 20, 30]
    assert [status.tag for status in statuses] == [0, 1, 2, 3]
    MPI.Request.Waitall(sends)
    assert all(request == MPI.REQUEST_NULL for request in receives + sends)


@pytest.mark.parametrize("form", ["Waitany", "Testany", "Waitsome", "Testsome", "Testall"])
def test_waitsome_and_statuses(MPI, comm, left, right, form):
    rooms = [bytearray(9) for _ in range(3)]
    receives = [comm.Irecv(room, left, tag) for tag, room in enumerate(rooms)]
    sends = [comm.Isend(b"x" * (tag + 1), right, tag) for tag in (1, 2, 0)]
    counts, status = {}, MPI.Status()
    while len(counts) < 3:
        if form == "Waitany":
            index = MPI.Request.Waitany(receives, status)
            counts[index] = status.count
        elif form == "Testany":
            index, done = MPI.Request.Testany(receives, status)
            if done:
                counts[index] = status.count
        elif form == "Testall":
            statuses = [MPI.Status() for _ in receives]
            if MPI.Request.Testall(receives, statuses):
                counts = {i: s.count for i, s in enumerate(statuses)}
        else:
            statuses = []
            indices = getattr(MPI.Request, form)(receives, statuses)
            counts.update((i, s.count) for i, s in zip(indices, statuses, strict=False))
    assert counts == {0: 1, 1: 2, 2: 3}
    MPI.Request.Waitall(sends)
    if form == "Waitany":
        assert MPI.Request.Waitany(receives) == MPI.UNDEFINED
    if form == "Waitsome":
        assert MPI.Request.Waitsome(receives) is None


def test_test_until_done(MPI, comm, left, right):
    room, status = bytearray(5), MPI.Status()
    request = comm.Irecv(room, left)
    comm.Barrier()
    assert not request.Test()
    comm.Barrier()
    sending = comm.Isend(b"abc", right)
    while not request.Test(status):
        pass
    assert (bytes(room), status.count) == (b"abc\0\0", 3)
    assert request == MPI.REQUEST_NULL
    assert request.Test()
    sending.Wait()


def test_get_status_does_not_complete(MPI, comm, left, right):
    room, status = bytearray(5), MPI.Status()
    request = comm.Irecv(room, left)
    sending = comm.Isend(b"abcd", right)
    while not request.Get_status(status):
        pass
    assert status.count == 4
    assert request.get_status(status)
    assert status.count == 4
    assert request != MPI.REQUEST_NULL
    request.Wait(status)
    assert status.count == 4
    sending.Wait()


def test_temporary_array_lives_with_its_request(comm, left, right):
    requests = [comm.Isend(array("d", [i] * 30_000), right, i) for i in range(4)]
    gc.collect()
    junk = [array("d", [-1.0] * 30_000) for _ in range(8)]
    for i in range(4):
        room = array("d", [0.0] * 30_000)
        comm.Recv(room, left, i)
        assert (room[0], room[-1]) == (i, i)
    for request in requests:
        request.Wait()
    assert junk


def test_copied_request_completes(MPI, comm, left, right):
    room, status = bytearray(4), MPI.Status()
    copy = MPI.Request(comm.Irecv(room, left))
    comm.Send(b"1234", right)
    copy.Wait(status)
    assert (bytes(room), status.count) == (b"1234", 4)


def test_cancelled_receive(MPI, comm):
    request, status = comm.Irecv(bytearray(3), comm.rank, 77), MPI.Status()
    request.Cancel()
    request.Wait(status)
    assert status.Is_cancelled()


def test_freed_requests_keep_their_memory(MPI, comm, left, right):
    room = bytearray(100)
    receiving = comm.Irecv(room, left, 1)
    mine = b"f" * 100
    comm.Isend(mine, right, 1).Free()
    receiving.Wait()
    assert room == mine
    # The request is kept until its message has come: mpi4py's receive buffer is freed
    # with it, and MPI would write into memory that is used for something else by then.
    freed = comm.irecv(source=left, tag=2)
    freed.Free()
    comm.send("to nobody", right, 2)
    comm.Barrier()
    assert comm.sendrecv("next", right, 2, None, left, 2) == "next"
    assert not freed


def test_collective_requests_mix_with_message_requests(MPI, comm, left, right):
    one, total = array("i", [1]), array("i", [0])
    requests = [
        comm.Ibarrier(),
        comm.Irecv(room := bytearray(3), left),
        comm.Isend(b"mix", right),
        comm.Iallreduce(one, total),
    ]
    assert all(isinstance(request, MPI.Request) for request in requests)
    MPI.Request.Waitall(requests)
    assert (bytes(room), total[0]) == (b"mix", comm.size)


def test_generalised_requests_mix_with_others(MPI, comm, left, right):
    generalised = MPI.Grequest.Start()
    receiving = comm.irecv(source=left)
    comm.send("mine", right)
    generalised.complete("theirs")
    assert MPI.Request.waitall([generalised, receiving]) == ["theirs", "mine"]
