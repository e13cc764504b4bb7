"""Makes a command of one class: each option is declared once, as a field.

    @command("generate")
    class Generate(Command):
        '''Write a generated log of jobs.'''

        out: Path = argument(type=FILE)
        recipe: Recipe = part(Recipe, load=option(type=float, help="..."))
        strict: bool = flag(help="...")

        def run(self) -> None: ...

``--help`` lists them in the order of the fields. A contradiction between options is a
UsageError from ``__post_init__``.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar, Protocol, TypeVar

import click
from click.core import ParameterSource

from cosched.cli.values import EnumChoice, Parsed
from cosched.core.named_tuples import NamedTuple

_Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]
_KEY = "declared"


class Command:
    """Options of a command, and its work. click_command: the command for click."""

    click_command: ClassVar[click.Command]

    def run(self) -> object:
        """Does the work; returns the exit status, or any other value for 0."""
        raise NotImplementedError


C = TypeVar("C", bound=Command)


class _Declared(Protocol):
    """The meaning of a field for the command line."""

    def decorators(self, name: str) -> Iterator[_Decorator]:
        """Yields click's decorators for the field of this name."""

    def taken(self, name: str, values: Mapping[str, Any]) -> Any:
        """Returns the field's value. values: by the names of click's parameters."""


class _Parameter(NamedTuple):
    """One option or argument. make: ``click.option`` or ``click.argument``. attributes: as
    click has them; ``before``: decorators of hidden values that come first."""

    make: Callable[..., _Decorator]
    words: tuple[str, ...]
    attributes: Mapping[str, Any]

    def decorators(self, name: str) -> Iterator[_Decorator]:
        attributes = dict(self.attributes)
        yield from attributes.pop("before", ())
        kind, default = attributes.get("type"), attributes.get("default")
        is_shown = attributes.get("show_default") is not False
        if isinstance(kind, (Parsed, EnumChoice)) and default and is_shown:
            attributes["default"] = kind.show(default)
        words = self.words
        if isinstance(kind, click.IntRange):
            attributes.setdefault("metavar", "N")
        if self.make is click.option and not words:
            words = ("--" + name.replace("_", "-"),)
        yield self.make(name, *words, **attributes)

    def taken(self, name: str, values: Mapping[str, Any]) -> Any:
        return values[name]

    @property
    def needs_default(self) -> bool:
        return not ({"default", "is_flag", "required"} & self.attributes.keys())

    def with_default(self, default: object) -> _Parameter:
        return self._replace(attributes={**self.attributes, "default": default})


class _Part(NamedTuple):
    """Some fields of another class. usual: the names of the options whose default is
    the one of ``cls``."""

    cls: Callable[..., Any]
    inner: Mapping[str, _Declared]
    usual: frozenset[str]

    def decorators(self, name: str) -> Iterator[_Decorator]:
        for each, declared in self.inner.items():
            yield from declared.decorators(each)

    def taken(self, name: str, values: Mapping[str, Any]) -> Any:
        found = {each: one.taken(each, values) for each, one in self.inner.items()}
        return self.cls(
            **{
                each: value
                for each, value in found.items()
                if value is not None or each in self.usual
            }
        )


def option(*words: str, **attributes: Any) -> Any:
    """Declares an option as ``click.option`` does. Without ``words`` it is ``--`` and the
    name of the field."""
    return _field(_Parameter(click.option, words, attributes))


def flag(*words: str, **attributes: Any) -> Any:
    """Declares an option without a value."""
    return option(*words, is_flag=True, **attributes)


def argument(**attributes: Any) -> Any:
    """Declares an argument as ``click.argument`` does; the field gives its name."""
    return _field(_Parameter(click.argument, (), attributes))


def part(cls: type[Any], **options: Any) -> Any:
    """Declares a field that is a ``cls``, made from options for some of its fields. Without
    ``options``, ``cls`` itself declares them. cls: a dataclass or a named tuple.

    An option has the default of its field in ``cls``. If that is empty (0, "" or None), an
    option that is not given leaves the field as it is.
    """
    usual = _defaults(cls)
    inner = {} if options else _declared(cls)
    filled = set(inner)
    for name, each in options.items():
        declared = each.metadata[_KEY]
        default = usual.get(name)
        if isinstance(declared, _Parameter) and declared.needs_default and default:
            declared = declared.with_default(default)
            filled.add(name)
        inner[name] = declared
    return _field(_Part(cls, inner, frozenset(filled)))


def command(
    name: str, of: click.Group | None = None, **attributes: Any
) -> Callable[[type[C]], type[C]]:
    """Makes a command of a class, whose docstring is the help.

    of: the group that gets the command. attributes: as ``click.command`` has them.
    """

    def decorate(cls: type[C]) -> type[C]:
        made: Any = dataclasses.dataclass(frozen=True)(cls)
        declared = _declared(made)

        def call(**values: Any) -> object:
            found = {each: one.taken(each, values) for each, one in declared.items()}
            return made(**found).run()

        call.__doc__ = made.__doc__
        each: Callable[..., Any] = call
        decorators = [d for name, one in declared.items() for d in one.decorators(name)]
        for decorator in reversed(decorators):
            each = decorator(each)
        makes: Any = click.command(name, **attributes)
        made.click_command = makes(each)
        if of is not None:
            of.add_command(made.click_command)
        return cls

    return decorate


def is_given(name: str) -> bool:
    """Returns whether the command line has the option with this name of a field."""
    source = click.get_current_context().get_parameter_source(name)
    return source is ParameterSource.COMMANDLINE


def _declared(cls: type[Any]) -> dict[str, _Declared]:
    return {each.name: each.metadata[_KEY] for each in dataclasses.fields(cls)}


def _defaults(cls: type[Any]) -> Mapping[str, Any]:
    """Returns the fields that have a default, and the defaults."""
    if not dataclasses.is_dataclass(cls):
        found: Mapping[str, Any] = cls._field_defaults
        return found
    fields = dataclasses.fields(cls)
    return {f.name: f.default for f in fields if f.default is not dataclasses.MISSING}


def _field(declared: _Declared) -> Any:
    return dataclasses.field(metadata={_KEY: declared})
