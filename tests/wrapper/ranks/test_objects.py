"""Messages of pickled objects."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.mpi(min_size=2)

OBJECTS = [None, 0, {"a": [1, 2.5, "x"]}, b"y" * 3_000, b"z" * 300_000, ()]


@pytest.mark.parametrize("send", ["send", "ssend"])
def test_blocking_sends(MPI, comm, left, right, send):
    for obj in OBJECTS:
        if comm.rank == 0:
            getattr(comm, send)(obj, right, 4)
            assert comm.recv(source=left, tag=4) == obj
        else:
            status = MPI.Status()
            assert comm.recv(source=left, tag=4, status=status) == obj
            assert status.count == len(MPI.pickle.dumps(obj))
            getattr(comm, send)(obj, right, 4)


@pytest.mark.parametrize("send", ["isend", "issend"])
def test_non_blocking_sends(comm, left, right, send):
    for obj in OBJECTS:
        request = getattr(comm, send)(obj, right, 4)
        assert comm.recv(None, left, 4) == obj
        assert request.wait() is None


def test_buffered_sends(MPI, comm, left, right):
    MPI.Attach_buffer(bytearray(4_000))
    comm.bsend("one", right, 1)
    comm.ibsend("two", right, 2).wait()
    assert [comm.recv(source=left, tag=tag) for tag in (1, 2)] == ["one", "two"]
    MPI.Detach_buffer()


def test_irecv(MPI, comm, left, right):
    status = MPI.Status()
    request = comm.irecv(source=left, tag=2)
    comm.send([comm.rank], right, 2)
    assert request.wait(status) == [left]
    assert status.count == len(MPI.pickle.dumps([left]))
    large = comm.irecv(1_000_000, left, 3)
    comm.send(b"l" * 500_000, right, 3)
    assert large.wait() == b"l" * 500_000
    into = comm.irecv(bytearray(100), left, 3)
    comm.send("fits", right, 3)
    done, obj = into.test()
    while not done:
        done, obj = into.test()
    assert obj == "fits"


def test_object_too_large_for_irecv_is_an_error(MPI, comm, left, right):
    request = comm.irecv(16, left, 3)
    comm.send(b"w" * 100, right, 3)
    with pytest.raises(MPI.Exception) as caught:
        request.wait()
    assert caught.value.Get_error_class() == MPI.ERR_TRUNCATE


def test_sendrecv(MPI, comm, left, right):
    status = MPI.Status()
    assert comm.sendrecv(comm.rank, right, 1, None, left, 1, status) == left
    assert status.source == left
    large = b"s" * 200_000
    assert comm.sendrecv(large, dest=right, source=left) == large


def test_probes_and_matched_messages(MPI, comm, left, right):
    requests = [comm.isend({"n": n}, right, n) for n in range(4)]
    status = MPI.Status()
    comm.probe(left, 0, status)
    assert status.count == len(MPI.pickle.dumps({"n": 0}))
    while not comm.iprobe(left, 1):
        pass
    assert comm.mprobe(left, 0).recv() == {"n": 0}
    assert comm.mprobe(left, 1).irecv().wait() == {"n": 1}
    while (message := comm.improbe(left, 2, status)) is None:
        pass
    assert message.recv(status) == {"n": 2}
    assert MPI.Message.probe(comm, left, 3).recv() == {"n": 3}
    assert MPI.Message.iprobe(comm, left, 3) is None
    MPI.Request.waitall(requests)


def test_proc_null(MPI, comm):
    comm.send("x", MPI.PROC_NULL)
    comm.isend("x", MPI.PROC_NULL).wait()
    assert comm.recv(source=MPI.PROC_NULL) is None
    assert comm.irecv(source=MPI.PROC_NULL).wait() is None
    assert comm.mprobe(MPI.PROC_NULL).recv() is None
    assert comm.sendrecv("x", MPI.PROC_NULL, source=MPI.PROC_NULL) is None


def test_waitall_of_objects(MPI, comm):
    others = [r for r in range(comm.size) if r != comm.rank]
    sends = [comm.isend((comm.rank, other), other) for other in others]
    receives = [comm.irecv(source=other) for other in others]
    statuses = [MPI.Status()]
    objects = MPI.Request.waitall(receives, statuses)
    assert objects == [(other, comm.rank) for other in others]
    assert [status.source for status in statuses] == others
    assert MPI.Request.waitall(sends) == [None] * len(others)


@pytest.mark.parametrize("form", ["waitany", "testany", "waitsome", "testsome", "testall"])
def test_waitsome_of_objects(MPI, comm, left, right, form):
    receives = [comm.irecv(source=left, tag=tag) for tag in range(3)]
    sends = [comm.isend(tag * 10, right, tag) for tag in (2, 0, 1)]
    found = {}
    while len(found) < 3:
        if form == "waitany":
            index, obj = MPI.Request.waitany(receives)
            found[index] = obj
        elif form == "testany":
            index, done, obj = MPI.Request.testany(receives)
            if done:
                found[index] = obj
        elif form == "testall":
            done, objects = MPI.Request.testall(receives)
            if done:
                found = dict(enumerate(objects))
        else:
            indices, objects = getattr(MPI.Request, form)(receives)
            found.update(zip(indices, objects, strict=True))
    assert found == {0: 0, 1: 10, 2: 20}
    MPI.Request.waitall(sends)
    if form == "waitany":
        assert MPI.Request.waitany(receives) == (MPI.UNDEFINED, None)
    if form == "waitsome":
        assert MPI.Request.waitsome(receives) == (None, None)


def test_objects_and_buffers_in_threads(MPI, comm, left, right):
    if MPI.Query_thread() < MPI.THREAD_MULTIPLE:
        pytest.skip("this MPI has no THREAD_MULTIPLE")
    import threading

    received = {}

    def exchange(tag):
        for turn in range(20):
            received[tag, turn] = comm.sendrecv((tag, turn), right, tag, None, left, tag)

    threads = [threading.Thread(target=exchange, args=(tag,)) for tag in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(key == value for key, value in received.items())
    assert len(received) == 60
