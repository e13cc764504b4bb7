"""Keeps requests and messages whose handle the program has asked for.

A handle may come back through ``fromhandle``, ``fromint`` or ``f2py``. The new object must
then have the same work left to do. A handle that the program never asked for cannot come
back, so it is not kept. A handle that is not here belongs to another library.
"""

from __future__ import annotations

from typing import Generic, TypeVar

T = TypeVar("T")


class HandleTable(Generic[T]):
    """Owners by handle. Several threads may use it: each method is one operation on a
    dictionary."""

    def __init__(self) -> None:
        self._owners: dict[int, T] = {}

    def put(self, handle: int, owner: T) -> None:
        """Keeps ``owner``, whose handle the program has asked for."""
        self._owners[handle] = owner

    def find(self, handle: int) -> T | None:
        """Returns the owner of a handle that is still valid, or None."""
        return self._owners.get(handle)

    def drop(self, handle: int) -> None:
        """Removes a handle that is over; the library may use its number again."""
        self._owners.pop(handle, None)
