"""Messages of buffers in a ring: each kind of send, receive and datatype."""

from __future__ import annotations

from array import array

import pytest

pytestmark = pytest.mark.mpi(min_size=2)

COUNTS = [0, 1, 512, 513, 40_000]


def numbers(count, rank):
    return array("d", [rank + i / 8 for i in range(count)])


@pytest.mark.parametrize("send", ["Send", "Ssend", "Isend", "Issend"])
@pytest.mark.parametrize("receive", ["Recv", "Irecv"])
def test_each_send_matches_each_receive(MPI, comm, left, right, send, receive):
    for count in COUNTS:
        room, status = array("d", bytes(8 * (count + 3))), MPI.Status()
        pending = []

        def do_send(count=count, pending=pending):
            request = getattr(comm, send)(numbers(count, comm.rank), right, 7)
            if request is not None:
                pending.append(request)

        def do_receive(room=room, status=status):
            if receive == "Recv":
                comm.Recv(room, left, 7, status)
            else:
                comm.Irecv(room, left, 7).Wait(status)

        first = comm.rank == 0
        for step in (do_send, do_receive) if first else (do_receive, do_send):
            step()
        MPI.Request.Waitall(pending)
        assert room[:count] == numbers(count, left)
        assert room[count:] == array("d", [0, 0, 0])
        assert (status.source, status.tag, status.count) == (left, 7, 8 * count)
        assert status.Get_count(MPI.DOUBLE) == count
        assert status.Get_elements(MPI.DOUBLE) == count


def test_ready_sends(MPI, comm, left, right):
    rooms = [array("i", [0] * 2000) for _ in range(3)]
    requests = [comm.Irecv(room, left, tag) for tag, room in enumerate(rooms)]
    comm.Barrier()
    comm.Rsend(array("i", [1]), right, 0)
    comm.Rsend(array("i", [2] * 2000), right, 1)
    comm.Irsend(array("i", [3]), right, 2).Wait()
    MPI.Request.Waitall(requests)
    assert [room[0] for room in rooms] == [1, 2, 3]
    assert rooms[1][1999] == 2


def test_buffered_sends_fit_the_programs_buffer(MPI, comm, left, right):
    messages, nbytes = 9, 64
    size = messages * (nbytes + MPI.BSEND_OVERHEAD)
    mine = bytearray(size)
    MPI.Attach_buffer(mine)
    for i in range(messages):
        comm.Bsend(bytes([i]) * nbytes, right, i)
    room = bytearray(nbytes)
    for i in range(messages):
        comm.Recv(room, left, i)
        assert room == bytes([i]) * nbytes
    comm.Ibsend(b"x" * nbytes, right).Wait()
    comm.Recv(room, left)
    assert MPI.Detach_buffer() is mine


def test_small_and_large_messages_keep_order(comm, left, right):
    sizes = [8, 200_000, 16, 5_000, 4_096, 4_095, 0, 1]
    sends = [comm.Isend(bytes([i]) * n, right, 1) for i, n in enumerate(sizes)]
    for i, n in enumerate(sizes):
        room = bytearray(n)
        comm.Recv(room, left, 1)
        assert room == bytes([i]) * n
    for request in sends:
        request.Wait()


def test_crossing_receives(comm, left, right):
    a, b = bytearray(300_000), bytearray(300_000)
    first = comm.Irecv(a, left, 1)
    sends = [comm.Isend(bytes([tag]) * 300_000, right, tag) for tag in (1, 2)]
    comm.Recv(b, left, 2)
    first.Wait()
    assert (a[-1], b[-1]) == (1, 2)
    for request in sends:
        request.Wait()


def test_strided_data_arrives_strided(MPI, comm, left, right):
    column = MPI.DOUBLE.Create_vector(5, 1, 4).Commit()
    mine, room = numbers(20, comm.rank), array("d", [-1.0] * 20)
    request = comm.Irecv([room, 1, column], left)
    comm.Send([mine, 1, column], right)
    status = MPI.Status()
    request.Wait(status)
    assert room[::4] == numbers(20, left)[::4]
    assert room[1::4] == array("d", [-1.0] * 5)
    assert status.Get_count(column) == 1
    assert status.Get_elements(MPI.DOUBLE) == 5
    column.Free()


def test_datatypes_with_holes(MPI, comm, left, right):
    pair = MPI.SHORT_INT
    extent = pair.Get_extent()[1]
    mine, room = bytearray(range(3 * extent)), bytearray(3 * extent)
    comm.Sendrecv([mine, 3, pair], right, 0, [room, 3, pair], left)
    assert (room[0:2], room[4:8]) == (mine[0:2], mine[4:8])
    assert room[-4:] == mine[-4:]


def test_absolute_addresses(MPI, comm, left, right):
    mine, room = numbers(3, comm.rank), array("d", [0.0] * 3)
    types = [
        MPI.Datatype.Create_hindexed(MPI.DOUBLE, [3], [MPI.Get_address(data)]).Commit()
        for data in (mine, room)
    ]
    comm.Sendrecv([MPI.BOTTOM, 1, types[0]], right, 0, [MPI.BOTTOM, 1, types[1]], left)
    assert room == numbers(3, left)
    for datatype in types:
        datatype.Free()


@pytest.mark.parametrize(
    "form",
    [
        lambda MPI, data: data,
        lambda MPI, data: [data, MPI.INT],
        lambda MPI, data: (data, "i"),
        lambda MPI, data: [data, 4],
        lambda MPI, data: [data, 4, MPI.INT],
        lambda MPI, data: [data, (4, 0), MPI.INT],
        lambda MPI, data: [data, 4, 0, MPI.INT],
        lambda MPI, data: [data, (4, 0)],
    ],
)
def test_message_forms(MPI, comm, left, right, form):
    mine, room = array("i", [comm.rank, 1, 2, 3]), array("i", [9] * 4)
    comm.Sendrecv(form(MPI, mine), right, 0, form(MPI, room), left)
    assert room == array("i", [left, 1, 2, 3])


def test_displacement(MPI, comm, left, right):
    mine, room = array("i", [7, 8, comm.rank, 9]), array("i", [0] * 4)
    comm.Sendrecv([mine, (1, 2), MPI.INT], right, 0, [room, (1, 3), MPI.INT], left)
    assert room == array("i", [0, 0, 0, left])


def test_message_errors_equal_mpi4pys(MPI, raw, comm):
    cases = [
        (b"x", 1, 2, 3, 4, 5),
        [b"x", -1, MPI.BYTE],
        [b"x", (1, -1), MPI.BYTE],
        [b"x", (1, 9), MPI.BYTE],
        [b"xyz", MPI.INT],
        [b"x", 1, MPI.DATATYPE_NULL],
        [None, 1, MPI.BYTE],
        [b"x", "no such type"],
        17,
        "text",
        memoryview(b"abcdef")[::2],
    ]
    for case in cases:
        with pytest.raises(Exception) as theirs:  # noqa: PT011
            raw.Comm.Isend(comm, case, comm.rank, 99)
        with pytest.raises(theirs.type):
            comm.Isend(case, comm.rank, 99)
    with pytest.raises((BufferError, TypeError)):
        comm.Irecv(b"read only", comm.rank, 99)


def test_truncated_message_is_an_error(MPI, comm, left, right):
    room = bytearray(10)
    request = comm.Irecv(room, left)
    comm.Send(b"elevenbytes", right)
    with pytest.raises(MPI.Exception) as caught:
        request.Wait()
    assert caught.value.Get_error_class() == MPI.ERR_TRUNCATE


def test_truncated_message_overwrites_no_memory_of_the_wrapper(MPI, comm, needs_prefix):
    """Open MPI reads a contiguous message of 4 KiB past the end of a shorter buffer."""
    room = memoryview(bytearray(5000))[:10]
    for nbytes in (3900, 4000, 4050, 4096, 4200):
        if comm.rank % 2 == 0:
            comm.Send(b"\7" * nbytes, comm.rank + 1)
            continue
        filler = [bytearray(11) for _ in range(1000)]
        del filler[::2]
        with pytest.raises(MPI.Exception) as caught:
            comm.Recv(room, comm.rank - 1)
        assert caught.value.Get_error_class() == MPI.ERR_TRUNCATE
        assert not any(map(any, filler))


def test_wrong_arguments_are_mpi_errors(MPI, comm):
    with pytest.raises(MPI.Exception):
        comm.Send(b"x", comm.size + 3)
    with pytest.raises(MPI.Exception):
        comm.Isend(bytes(100_000), comm.size + 3)
    with pytest.raises(MPI.Exception):
        comm.Sendrecv(b"x", comm.size + 3, 0, bytearray(1), comm.rank, 98)


def test_proc_null(MPI, comm):
    status = MPI.Status()
    comm.Send(b"x", MPI.PROC_NULL)
    comm.Recv(bytearray(3), MPI.PROC_NULL, 4, status)
    assert (status.source, status.count) == (MPI.PROC_NULL, 0)
    comm.Sendrecv(b"x", MPI.PROC_NULL, 0, None, MPI.PROC_NULL, 0, status)
    comm.Isend(b"x", MPI.PROC_NULL).Wait()
    comm.Probe(MPI.PROC_NULL, 0, status)
    assert status.count == 0
    message = comm.Mprobe(MPI.PROC_NULL)
    assert message == MPI.MESSAGE_NO_PROC
    message.Recv(bytearray(1), status)
    assert (status.source, status.count) == (MPI.PROC_NULL, 0)


@pytest.mark.parametrize("count", [0, 3, 2000])
def test_sendrecv_replace(MPI, comm, left, right, count):
    data, status = numbers(count, comm.rank), MPI.Status()
    comm.Sendrecv_replace(data, right, 3, left, 3, status)
    assert data == numbers(count, left)
    assert status.count == 8 * count


def test_sendrecv_replace_of_strided_data(MPI, comm, left, right):
    column = MPI.INT.Create_vector(3, 1, 2).Create_resized(0, 24).Commit()
    data = array("i", [comm.rank, -1] * 6)
    comm.Sendrecv_replace([data, 2, column], right, 0, left)
    assert data == array("i", [left, -1] * 6)
    column.Free()


def test_probes_count_the_users_bytes(MPI, comm, left, right):
    status = MPI.Status()
    request = comm.Isend(b"12345", right, 11)
    comm.Probe(left, 11, status)
    assert (status.source, status.tag, status.count) == (left, 11, 5)
    assert comm.Iprobe(left, 11)
    assert comm.Iprobe(MPI.ANY_SOURCE, MPI.ANY_TAG, status)
    assert status.count == 5
    room = bytearray(status.count)
    comm.Recv(room, status.source, status.tag)
    assert room == b"12345"
    assert not comm.Iprobe(left, 11)
    request.Wait()


@pytest.mark.parametrize("blocking", [True, False])
@pytest.mark.parametrize("count", [0, 5, 70_000])
def test_matched_messages(MPI, comm, left, right, blocking, count):
    status = MPI.Status()
    request = comm.Isend(b"m" * count, right, 12)
    if blocking:
        message = comm.Mprobe(left, 12, status)
    else:
        while (message := comm.Improbe(left, 12, status)) is None:
            pass
    assert isinstance(message, MPI.Message)
    assert status.count == count
    room = bytearray(count)
    if blocking:
        message.Recv(room, status)
    else:
        message.Irecv(room).Wait(status)
    assert room == b"m" * count
    assert status.count == count
    assert message == MPI.MESSAGE_NULL
    request.Wait()


def test_message_class_probes(MPI, comm, left, right):
    request = comm.Isend(b"abc", right)
    message = MPI.Message.Probe(comm, left)
    room = bytearray(3)
    message.Recv(room)
    assert room == b"abc"
    assert MPI.Message.Iprobe(comm, left) is None
    request.Wait()


@pytest.mark.parametrize("init", ["Send_init", "Ssend_init", "Bsend_init"])
def test_persistent_requests(MPI, comm, left, right, init):
    MPI.Attach_buffer(bytearray(10_000))
    mine, room, status = array("i", [0] * 50), array("i", [0] * 60), MPI.Status()
    sending = getattr(comm, init)(mine, right, 5)
    receiving = comm.Recv_init(room, left, 5)
    assert isinstance(sending, MPI.Prequest)
    for turn in range(4):
        mine[0] = 100 * turn + comm.rank
        if turn % 2:
            MPI.Prequest.Startall([receiving, sending])
        else:
            receiving.Start()
            sending.Start()
        receiving.Wait(status)
        sending.Wait()
        assert room[0] == 100 * turn + left
        assert status.Get_count(MPI.INT) == 50
        receiving.Wait(status)
        assert status.count == 0, "an inactive request has an empty status"
    receiving.Free()
    sending.Free()
    MPI.Detach_buffer()


def test_wildcards(MPI, comm):
    status = MPI.Status()
    if comm.rank == 0:
        sources = set()
        for _ in range(comm.size - 1):
            room = array("i", [-1])
            comm.Recv(room, MPI.ANY_SOURCE, MPI.ANY_TAG, status)
            assert room[0] == status.source == status.tag
            sources.add(status.source)
        assert sources == set(range(1, comm.size))
    else:
        comm.Send(array("i", [comm.rank]), 0, comm.rank)
