"""Messages of random derived datatypes. The status byte shifts each element, and MPI
libraries that cut messages into segments must still work."""

from __future__ import annotations

import random

import pytest

pytestmark = pytest.mark.mpi(min_size=2)

TURNS = 25


def random_datatype(MPI, noise):
    """Makes a derived datatype, not yet committed."""
    base = noise.choice([MPI.DOUBLE, MPI.INT, MPI.SHORT, MPI.BYTE, MPI.DOUBLE_INT])
    extent = base.Get_extent()[1]
    kind = noise.choice(["contiguous", "vector", "indexed", "struct"])
    if kind == "contiguous":
        return base.Create_contiguous(noise.randint(1, 9))
    if kind == "vector":
        return base.Create_vector(noise.randint(1, 400), noise.randint(1, 7), 8)
    if kind == "indexed":
        return base.Create_indexed([1, 2, 1], [0, 5, 9])
    blocks = [1, noise.randint(1, 5)]
    struct = MPI.Datatype.Create_struct(blocks, [0, 64], [MPI.INT, base])
    return struct.Create_resized(0, 64 + 8 * extent)


@pytest.mark.parametrize("how", ["Sendrecv", "Irecv", "Sendrecv_replace", "Mprobe"])
def test_random_datatypes(MPI, comm, left, right, how):
    noise = random.Random(how)
    for turn in range(TURNS):
        datatype = random_datatype(MPI, noise).Commit()
        size, extent = datatype.Get_size(), datatype.Get_extent()[1]
        count = noise.randint(1, max(1, 200_000 // extent))
        mine, theirs = (
            bytearray(random.Random(1000 * turn + rank).randbytes(extent * count))
            for rank in (comm.rank, left)
        )
        room, status = bytearray(extent * count), MPI.Status()
        outgoing, incoming = [mine, count, datatype], [room, count, datatype]
        if how == "Sendrecv":
            comm.Sendrecv(outgoing, right, 0, incoming, left, 0, status)
        elif how == "Sendrecv_replace":
            room[:] = mine
            comm.Sendrecv_replace(incoming, right, 0, left, 0, status)
        else:
            sending = comm.Issend(outgoing, right)
            if how == "Irecv":
                comm.Irecv(incoming, left).Wait(status)
            else:
                comm.Mprobe(left).Recv(incoming, status)
            sending.Wait()
        assert status.count == size * count
        packed = [bytearray(datatype.Pack_size(count, comm)) for _ in range(2)]
        for data, into in zip((room, theirs), packed, strict=True):
            datatype.Pack(data, into, 0, comm)
        assert packed[0][: size * count] == packed[1][: size * count]
        datatype.Free()


@pytest.mark.parametrize("count", [1_000, 100_000])
def test_contiguous_data_arrives_strided_and_back(MPI, comm, left, right, count):
    column = MPI.INT.Create_vector(count, 1, 2).Commit()
    line = bytearray(random.Random(comm.rank).randbytes(4 * count))
    spread, back = bytearray(8 * count), bytearray(4 * count)
    comm.Sendrecv([line, MPI.INT], right, 0, [spread, 1, column], left, 0)
    comm.Sendrecv([spread, 1, column], left, 0, [back, MPI.INT], right, 0)
    assert back == line
    column.Free()
