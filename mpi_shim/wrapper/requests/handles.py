"""Requests and messages whose handle the program has asked for.

A handle may come back through ``fromhandle``, ``fromint`` or ``f2py`` as a new object,
which must know what is left to do. What the program never asked the handle of cannot come
back, so nothing else is kept here; a handle that is not here belongs to another library.
"""

from __future__ import annotations

from typing import Generic, TypeVar

T = TypeVar("T")


class HandleTable(Generic[T]):
    """What each handle that is outside stands for. Threads may use it at once: all of it
    are single operations on a dictionary."""

    def __init__(self) -> None:
        self._known: dict[int, T] = {}

    def put(self, handle: int, owner: T) -> None:
        """``owner`` has told the program its handle."""
        self._known[handle] = owner

    def find(self, handle: int) -> T | None:
        """Whoever told it, if it is still good."""
        return self._known.get(handle)

    def drop(self, handle: int) -> None:
        """The handle is over; the library may use its number again."""
        self._known.pop(handle, None)
