"""Reads the element type of data in host memory that an object offers through DLPack alone,
as those of some array libraries do.

mpi4py turns it into a datatype deep inside. Here it is read from the object, as a key of
mpi4py's own table of datatypes (``f8``, ``i4``).
"""

from __future__ import annotations

import ctypes
from typing import Any, cast

# DLDataTypeCode
_FLOAT = 2
_KINDS = {0: "i", 1: "u", _FLOAT: "f", 5: "c", 6: "b"}


class _Device(ctypes.Structure):
    _fields_ = [("device_type", ctypes.c_uint), ("device_id", ctypes.c_int32)]


class _DataType(ctypes.Structure):
    _fields_ = [
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
    ]


class _Tensor(ctypes.Structure):
    """The beginning of a DLTensor."""

    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device", _Device),
        ("ndim", ctypes.c_int32),
        ("dtype", _DataType),
    ]


class _VersionedTensor(ctypes.Structure):
    """The beginning of a DLManagedTensorVersioned."""

    _fields_ = [
        ("version", ctypes.c_uint32 * 2),
        ("manager_ctx", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", _Tensor),
    ]


def type_string(obj: Any) -> str | None:
    """Returns the type of one element of ``obj``; None if ``obj`` does not give it, or MPI
    has no such type."""
    if not hasattr(obj, "__dlpack__"):
        return None
    get_pointer = ctypes.pythonapi.PyCapsule_GetPointer
    get_pointer.restype = ctypes.c_void_p
    get_pointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
    try:
        capsule = obj.__dlpack__(max_version=(1, 0), copy=False)
    except TypeError:  # the form before versions
        capsule = obj.__dlpack__()
        tensor = _Tensor.from_address(get_pointer(capsule, b"dltensor"))
    else:
        address = get_pointer(capsule, b"dltensor_versioned")
        tensor = cast("Any", _VersionedTensor.from_address(address)).tensor
    dtype = cast("Any", tensor).dtype
    nbytes = dtype.bits // 8
    if dtype.lanes != 1:
        return f"c{2 * nbytes}" if (dtype.code, dtype.lanes) == (_FLOAT, 2) else None
    kind = _KINDS.get(dtype.code)
    return None if kind is None else f"{kind}{nbytes}"
