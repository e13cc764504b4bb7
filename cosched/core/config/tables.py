"""Makes reader, writer, reload and reference of a table from one frozen dataclass.

A field of the dataclass is a key of the table (``key``) or a table below it (``table``)::

    @dataclass(frozen=True, slots=True)
    class QueueSettings:
        grace_ns: int = key(duration(), 10 * NS_PER_S, "Until SIGKILL.", live=True)

The key ``grace`` has the name of the field without its unit. ``read`` makes the dataclass
of a parsed document, ``write`` the document of a dataclass, ``reload`` compares two, and
``keys_of`` lists the keys for pages. A dataclass may have a method ``contradictions``,
which yields mistakes in values that are each right, and a method ``without_effect``, which
yields values that change nothing beside the others.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field, fields, replace
from typing import Any, Generic, TypeVar

from msgspec import Struct, structs

from cosched.core.config.kinds import Kind, shown
from cosched.core.config.mistakes import Invalid, Mistake, joined, mistakes_under
from cosched.core.config.suggestions import suggest
from cosched.core.errors import CoschedError

_METADATA = "key"
_UNITS = ("_ns", "_us", "_s", "_bytes")
#: The default of a key that must be given.
REQUIRED: Any = object()
_SAME: Any = object()

T = TypeVar("T")
D = TypeVar("D")


class Key(Struct, frozen=True):
    """One key of a table."""

    name: str  #: its name in the file
    kind: Kind[Any]  #: the kind of its values
    #: The value in a file that lacks the key; ``REQUIRED``: a file may not lack it.
    default: Any
    about: str  #: its meaning, in a sentence
    live: bool  #: a reload takes a new value at once; otherwise it needs a restart
    operator: bool  #: only the operator's file may set it, because it binds users
    #: The programs that must restart for a new value, for display; empty: that of the file.
    restart: str = ""
    attribute: str = ""  #: the name of the field
    table: str = ""  #: the table's name; empty: the top level

    @property
    def path(self) -> str:
        """``table.key``."""
        return joined(self.table, self.name)

    def shown(self, value: Any) -> Any:
        """Returns the value as a TOML value; None if it is not set, and no word means
        that."""
        return self.kind.none if value is None else self.kind.write(value)


class _Below(Struct, frozen=True):
    """A dataclass below another. optional: None stands for its absence. inline: its keys
    stand in the table above."""

    schema: type
    optional: bool
    inline: bool = False
    attribute: str = ""
    name: str = ""


def key(
    kind: Kind[T],
    default: D,
    about: str,
    *,
    name: str = "",
    live: bool = False,
    operator: bool = False,
    restart: str = "",
    in_file: Any = _SAME,
) -> T | D:
    """Declares a key; the parameters are those of ``Key``. in_file: the default of a file,
    where it is not that of the program."""
    in_file = default if in_file is _SAME else in_file
    metadata = {_METADATA: Key(name, kind, in_file, about, live, operator, restart)}
    declared: Any
    if default is REQUIRED:
        declared = field(metadata=metadata)
    elif isinstance(default, dict):
        declared = field(default_factory=lambda: dict(default), metadata=metadata)
    else:
        declared = field(default=default, metadata=metadata)
    return declared  # type: ignore[no-any-return]


def table(schema: type[T]) -> T:
    """Declares a table below this one."""
    declared: Any = field(
        default_factory=schema, metadata={_METADATA: _Below(schema, optional=False)}
    )
    return declared  # type: ignore[no-any-return]


def inline(schema: type[T]) -> T:
    """Declares a dataclass with keys of this table."""
    declared: Any = field(
        default_factory=schema,
        metadata={_METADATA: _Below(schema, optional=False, inline=True)},
    )
    return declared  # type: ignore[no-any-return]


def optional_table(schema: type[T]) -> T | None:
    """Declares a table below this one that may be missing, or empty, as None."""
    declared: Any = field(default=None, metadata={_METADATA: _Below(schema, optional=True)})
    return declared  # type: ignore[no-any-return]


def table_kind(form: str, schema: type[T]) -> Kind[T]:
    """Returns the kind of one table, for lists and mappings of tables."""

    def parse(raw: Any) -> T:
        if not isinstance(raw, dict):
            raise CoschedError(f"{shown(raw)} is not a table")
        return read(schema, raw)

    return Kind(form, parse, write)


def _entries(schema: type) -> tuple[Key | _Below, ...]:
    found: list[Key | _Below] = []
    for each in fields(schema):
        declared = each.metadata.get(_METADATA)
        if declared is not None:
            plain = each.name
            for unit in _UNITS:
                plain = plain.removesuffix(unit)
            is_inline = isinstance(declared, _Below) and declared.inline
            name = "" if is_inline else declared.name or plain
            found.append(structs.replace(declared, attribute=each.name, name=name))
    return tuple(found)


def keys_of(schema: type, path: str = "") -> tuple[Key, ...]:
    """Returns all keys of a table and of the tables below it, in their order."""
    found: list[Key] = []
    for entry in _entries(schema):
        if isinstance(entry, Key):
            found.append(structs.replace(entry, table=path))
        else:
            found += keys_of(entry.schema, joined(path, entry.name))
    return tuple(found)


# --- reading --------------------------------------------------------------------------


def read(schema: type[T], document: Mapping[str, Any]) -> T:
    """Returns the dataclass of a parsed table. Raises Invalid with all mistakes."""
    values, mistakes = parse(schema, document)
    if mistakes:
        raise Invalid(mistakes)
    return check(fill(schema, values))


def parse(
    schema: type, document: Mapping[str, Any]
) -> tuple[dict[str, Any], list[Mistake]]:
    """Returns the typed values that a document has, by ``table.key``, and its mistakes."""
    values: dict[str, Any] = {}
    mistakes: list[Mistake] = []
    _parse(schema, schema, document, "", values, mistakes)
    return values, mistakes


def _parse(
    root: type,
    schema: type,
    document: Mapping[str, Any],
    path: str,
    values: dict[str, Any],
    mistakes: list[Mistake],
) -> None:
    known = _by_name(schema)
    for name, raw in document.items():
        entry, here = known.get(name), joined(path, name)
        if entry is None:
            mistakes.append(Mistake(here, f"no such key{_hint(root, name, known)}"))
        elif isinstance(entry, Key):
            try:
                values[here] = entry.kind.parse(raw)
            except CoschedError as error:
                mistakes += mistakes_under(here, error)
        elif isinstance(raw, dict):
            _parse(root, entry.schema, raw, here, values, mistakes)
        else:
            mistakes.append(Mistake(here, f"is a table: write [{here}]"))


def _by_name(schema: type) -> dict[str, Key | _Below]:
    """Returns the entries of a table by their names in the file."""
    found: dict[str, Key | _Below] = {}
    for entry in _entries(schema):
        if isinstance(entry, _Below) and entry.inline:
            found |= _by_name(entry.schema)
        else:
            found[entry.name] = entry
    return found


def _hint(root: type, name: str, known: Iterable[str]) -> str:
    """Returns the end of the line about an unknown key."""
    close = suggest(name, known)
    tables = [each.table for each in keys_of(root) if each.name == name and each.table]
    if close or not tables:
        return close or f"; the keys are {', '.join(known)}"
    return f"; it belongs into [{tables[0]}]"


def fill(schema: type[T], values: Mapping[str, Any], path: str = "") -> T:
    """Returns the dataclass with these values by ``table.key``, and defaults for the rest.
    Raises Invalid if a key is missing that must be given."""
    given: dict[str, Any] = {}
    mistakes: list[Mistake] = []
    for entry in _entries(schema):
        here = joined(path, entry.name)
        if isinstance(entry, _Below):
            absent = not any(each.startswith(f"{here}.") for each in values)
            try:
                given[entry.attribute] = (
                    None if entry.optional and absent else fill(entry.schema, values, here)
                )
            except Invalid as error:
                mistakes += error.mistakes
        elif here in values:
            given[entry.attribute] = values[here]
        elif entry.default is not REQUIRED:
            given[entry.attribute] = entry.default
        else:
            form = entry.kind.form
            value = form if form.startswith('"') else f"... ({form})"
            text = f"is missing; write {entry.name} = {value}"
            mistakes.append(Mistake(here, text))
    if mistakes:
        raise Invalid(mistakes)
    return schema(**given)


def check(value: T) -> T:
    """Returns the value. Raises Invalid if its parts contradict each other."""
    mistakes = list(_found("contradictions", value, ""))
    if mistakes:
        raise Invalid(mistakes)
    return value


def without_effect(value: Any) -> list[Mistake]:
    """Returns the values that change nothing beside the others."""
    return list(_found("without_effect", value, ""))


def _found(method: str, value: Any, path: str) -> Iterator[Mistake]:
    """Yields what the method of this name yields in a table and in all tables below it."""
    for entry in _entries(type(value)):
        below = getattr(value, entry.attribute)
        if isinstance(entry, _Below) and below is not None:
            yield from _found(method, below, joined(path, entry.name))
    if hasattr(value, method):
        yield from (each.under(path) for each in getattr(value, method)())


# --- writing --------------------------------------------------------------------------


def write(value: Any) -> dict[str, Any]:
    """Returns the document of which ``read`` makes an equal value."""
    document: dict[str, Any] = {}
    for entry in _entries(type(value)):
        held = getattr(value, entry.attribute)
        if isinstance(entry, _Below):
            if entry.inline:
                document |= write(held)
            elif held is not None:
                document[entry.name] = write(held)
        elif held is not None or entry.default is not None:
            document[entry.name] = entry.kind.write(held)
    return document


# --- reloading ------------------------------------------------------------------------


class Change(Struct, Generic[T], frozen=True):
    """The change to a new file."""

    config: T  #: the settings in use from now on
    changed: tuple[str, ...]  #: the settings that differ from before
    #: The programs that must restart for a new value, by setting, for display.
    restart: Mapping[str, str]

    @property
    def text(self) -> str:
        """The change in one line."""
        parts = [f"changed: {', '.join(self.changed)}"] if self.changed else []
        for programs, names in _by_programs(self.restart).items():
            parts.append(f"needs a restart of {programs}: {', '.join(names)}")
        return "; ".join(parts) or "nothing has changed"


def reload(old: T, new: T, program: str) -> Change[T]:
    """Returns the change from ``old`` to ``new``. program: the one that must restart for a
    key without ``restart``. Raises Invalid if what is taken at once contradicts what
    stays."""
    config = _taken(old, new)
    programs = {each.path: each.restart for each in keys_of(type(old))}
    differing = differences(config, new)
    restart = {name: programs.get(name) or program for name in differing}
    try:
        check(config)
    except Invalid as error:
        stays = "; ".join(
            f"{', '.join(names)} stays until a restart of {readers}"
            for readers, names in _by_programs(restart).items()
        )
        raise Invalid(
            [Mistake(each.path, f"{each.text}; {stays}") for each in error.mistakes]
        ) from None
    return Change(config, tuple(differences(old, config)), restart)


def _by_programs(restart: Mapping[str, str]) -> dict[str, list[str]]:
    """Returns the settings that need a restart, by the programs that must restart."""
    found: dict[str, list[str]] = {}
    for name, programs in restart.items():
        found.setdefault(programs, []).append(name)
    return found


def _taken(old: Any, new: Any) -> Any:
    """Returns the old value with the live keys of the new one."""
    given: dict[str, Any] = {}
    for entry in _entries(type(old)):
        before, after = getattr(old, entry.attribute), getattr(new, entry.attribute)
        if isinstance(entry, Key):
            given[entry.attribute] = after if entry.live else before
        elif before is not None and after is not None:
            given[entry.attribute] = _taken(before, after)
    return replace(old, **given)


def differences(old: Any, new: Any, path: str = "") -> Iterator[str]:
    """Yields the keys whose values differ, by ``table.key``. The order counts, too."""
    for entry in _entries(type(old)):
        one, other = getattr(old, entry.attribute), getattr(new, entry.attribute)
        here = joined(path, entry.name)
        if isinstance(entry, _Below) and one is not None and other is not None:
            yield from differences(one, other, here)
        elif one != other or (isinstance(one, dict) and list(one) != list(other)):
            yield here
