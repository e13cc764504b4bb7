"""Named tuples that are quick to define.

Those of ``typing`` compile a constructor for each class, and the text of each annotation: a
quarter of a millisecond. A command that defines 40 of them spends a fifth of its own time
on that. The classes here share their methods. Their constructor takes some microseconds
longer, so the records that a daemon makes all the time are others.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from operator import itemgetter
from typing import TYPE_CHECKING, Any, ClassVar

__all__ = ["NamedTuple"]

_FIELDS_MOST = 64
_GETTERS = tuple(property(itemgetter(index)) for index in range(_FIELDS_MOST))


class _Definition(type):
    """Makes the fields of a named tuple of the annotations in its class. A class below that
    one has the same fields."""

    def __new__(
        cls, name: str, bases: tuple[type, ...], namespace: dict[str, Any]
    ) -> _Definition:
        below = any("_fields" in vars(base) for base in bases)
        if bases != (tuple,) and not below:
            fields = tuple(namespace.get("__annotations__", ()))
            defaults = {field: namespace[field] for field in fields if field in namespace}
            namespace |= zip(fields, _GETTERS, strict=False)
            namespace |= {"_fields": fields, "_field_defaults": defaults}
            namespace |= {"__match_args__": fields, "__slots__": ()}
        return super().__new__(cls, name, bases, namespace)


class _NamedTuple(tuple[Any, ...], metaclass=_Definition):
    """The methods of all named tuples, as ``collections.namedtuple`` has them."""

    __slots__ = ()
    _fields: ClassVar[tuple[str, ...]]
    _field_defaults: ClassVar[Mapping[str, Any]]

    def __new__(cls, /, *values: Any, **named: Any) -> Any:
        if named or len(values) != len(cls._fields):
            values = cls._completed(values, named)
        return tuple.__new__(cls, values)

    @classmethod
    def _completed(cls, values: tuple[Any, ...], named: dict[str, Any]) -> tuple[Any, ...]:
        """Returns the values of all fields. Raises TypeError if they do not fit."""
        rest = cls._fields[len(values) :]
        given = {**cls._field_defaults, **named}
        try:
            found = (*values, *(given[field] for field in rest))
        except KeyError as missing:
            raise TypeError(f"{cls.__name__}: misses the field {missing}") from None
        if len(found) > len(cls._fields) or not named.keys() <= set(rest):
            raise TypeError(f"{cls.__name__}: has the fields {', '.join(cls._fields)}")
        return found

    @classmethod
    def _make(cls, values: Iterable[Any]) -> Any:
        """Returns a tuple of these values, one for each field."""
        return cls(*values)

    def _asdict(self) -> dict[str, Any]:
        """Returns the values by the names of their fields."""
        return dict(zip(self._fields, self, strict=True))

    def _replace(self, **changed: Any) -> Any:
        """Returns a copy with other values of some fields."""
        return type(self)(**{**self._asdict(), **changed})

    def __repr__(self) -> str:
        shown = ", ".join(f"{field}={value!r}" for field, value in self._asdict().items())
        return f"{type(self).__name__}({shown})"

    def __getnewargs__(self) -> tuple[Any, ...]:
        return tuple(self)


if TYPE_CHECKING:
    from typing import NamedTuple
else:
    NamedTuple = _NamedTuple
