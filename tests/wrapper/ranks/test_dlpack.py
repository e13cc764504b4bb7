"""Data in host memory that an object offers through DLPack alone."""

from __future__ import annotations

import ctypes
from array import array

import pytest

pytestmark = pytest.mark.mpi(min_size=2)

CODES = {"i": (0, 32), "H": (1, 16), "d": (2, 64)}  # array's code: DLPack's, bits


class ManagedTensor(ctypes.Structure):
    """DLManagedTensor; a host tensor of one dimension."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
        ("manager_ctx", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
    )


class Tensor:
    """An array without the buffer protocol."""

    def __init__(self, values):
        self.values = values
        code, bits = CODES[values.typecode]
        self._shape = (ctypes.c_int64 * 1)(len(values))
        address, _ = values.buffer_info()
        self._tensor = ManagedTensor(
            address, 1, 0, 1, code, bits, 1, self._shape, None, 0, None, None
        )

    def __dlpack_device__(self):
        return (1, 0)

    def __dlpack__(self, *, stream=None):
        new = ctypes.pythonapi.PyCapsule_New
        new.restype = ctypes.py_object
        new.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        return new(ctypes.addressof(self._tensor), b"dltensor", None)


@pytest.mark.parametrize("code", CODES)
@pytest.mark.parametrize("count", [2, 3_000])
def test_dlpack_datatype_is_found(MPI, comm, left, right, code, count):
    mine = Tensor(array(code, [comm.rank + i for i in range(count)]))
    room, status = Tensor(array(code, [0] * count)), MPI.Status()
    comm.Sendrecv(mine, right, 0, room, left, 0, status)
    assert list(room.values) == [left + i for i in range(count)]
    assert status.count == count * room.values.itemsize
    comm.Sendrecv([mine, 1], right, 0, [room, 1, 1, code], left, 0)
    assert room.values[1] == left


def test_dlpack_bytes_equal_mpi4pys(raw, comm, left, right):
    """The wrapper sends the same bytes of such an object as mpi4py."""
    mine = Tensor(array("i", [comm.rank, 7]))
    room = array("i", [0, 0])
    raw.COMM_WORLD.Sendrecv(mine, right, 0, room, left, 0)
    theirs = list(room)
    comm.Sendrecv(mine, right, 0, room, left, 0)
    assert list(room) == theirs == [left, 7]
