"""Lets requests and messages come back by their handles.

A handle that the program asked for may come back through ``fromhandle``, ``fromint`` or
``f2py``. The new object must then have the same work left to do. A handle that the program
never asked for cannot come back, so it is not kept. A handle that is not known here belongs
to another library.
"""

from __future__ import annotations

from typing import Any, ClassVar


class WithHandle:
    """Handles of a request or a message: the object that comes back by its handle has the
    same work left.

    ``_theirs``: mpi4py's own class. ``_owners``: the objects by the handles that the
    program asked for. Several threads may use it: each access is one operation on a
    dictionary. ``_exported``: the handle by which this object stands there, or None.
    """

    _theirs: ClassVar[Any]
    _owners: ClassVar[dict[int, Any]]
    _exported: int | None = None

    def _has_work(self) -> bool:
        """Whether anything is left to do when this object completes."""
        raise NotImplementedError

    def _drop_handle(self) -> None:
        """Removes a handle that is over; the library may use its number again."""
        if self._exported is not None:
            self._owners.pop(self._exported, None)
            self._exported = None

    def _get_handle(self) -> int:
        handle: int = self._theirs.handle.__get__(self)
        if self and self._has_work():
            self._exported = handle
            self._owners[handle] = self
        return handle

    handle: Any = property(_get_handle, doc="MPI handle.")

    def toint(self) -> int:
        _ = self.handle
        return int(self._theirs.toint(self))

    def py2f(self) -> int:
        _ = self.handle
        return int(self._theirs.py2f(self))

    @classmethod
    def fromhandle(cls, handle: int) -> Any:
        return cls._found(cls._theirs.fromhandle(handle))

    @classmethod
    def fromint(cls, arg: int, /) -> Any:
        return cls._found(cls._theirs.fromint(arg))

    @classmethod
    def f2py(cls, arg: int) -> Any:
        return cls._found(cls._theirs.f2py(arg))

    @classmethod
    def _found(cls, theirs: Any) -> Any:
        """Returns ``theirs`` in this class, or a copy of the object whose handle it is."""
        known = cls._owners.get(cls._theirs.handle.__get__(theirs)) if theirs else None
        make: Any = cls if known is None else type(known)
        return make(theirs if known is None else known)
