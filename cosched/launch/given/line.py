"""Splits a launcher's command line into its options and the programs that it starts.

A launcher's command line has one app context or several, with ``:`` between them: the
launcher's options, then a program with its arguments. Everything that reads the options of
a command line uses this module, so a program's arguments are never taken for options.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from cosched.core.named_tuples import NamedTuple
from cosched.launch.family import LauncherKind
from cosched.launch.given.grammar import Grammar, grammar_of
from cosched.launch.program import which

BETWEEN_CONTEXTS = ":"
_FILE_BYTES = 1 << 20
_QUOTES = "\"'\\"
_BESIDE_A_FILE = ("allow-run-as-root", "mca", "gmca")


class Option(NamedTuple):
    """An option of a launcher."""

    name: str  #: without dashes
    values: tuple[str, ...]  #: the words of its value; (): it has none
    at: int  #: the index of its word in the command line
    #: Whether its value stands in that word, and not in the next ones.
    joined: bool = False

    @property
    def next_at(self) -> int:
        """The index of the first word behind it."""
        return self.at + 1 + (0 if self.joined else len(self.values))


class Context(NamedTuple):
    """An app context of a command line."""

    at: int  #: the index of its first word in the command line
    words: tuple[str, ...]  #: all its words
    options: tuple[Option, ...]  #: the options in front of its program
    program_at: int  #: the index of its program in the command line

    @property
    def program(self) -> tuple[str, ...]:
        """The program with its arguments."""
        return self.words[self.program_at - self.at :]

    def named(self, names: frozenset[str]) -> Iterator[Option]:
        """Yields its options with one of these names, in their order."""
        return (option for option in self.options if option.name in names)


class Line(NamedTuple):
    """A launcher's command line, read as app contexts."""

    argv: tuple[str, ...]  #: all words; the first one is the launcher
    engine: LauncherKind  #: the launcher's kind
    grammar: Grammar  #: the options of this launcher
    contexts: tuple[Context, ...]  #: the app contexts on the line itself
    environ: Mapping[str, str]  #: the environment in which the launcher starts
    #: The app contexts in the files that the line names.
    from_files: tuple[Context, ...] = ()
    is_complete: bool = True  #: whether all such files could be read

    @property
    def all_contexts(self) -> tuple[Context, ...]:
        """All contexts that start ranks: those of the line, then those of files."""
        own = tuple(context for context in self.contexts if context.program)
        return (*own, *self.from_files)

    @property
    def options(self) -> Iterator[Option]:
        """All options, in their order."""
        contexts = (*self.contexts, *self.from_files)
        return (option for context in contexts for option in context.options)

    def named(self, names: frozenset[str]) -> Iterator[Option]:
        """Yields all options with one of these names."""
        return (option for option in self.options if option.name in names)


def read_line(
    argv: Sequence[str], engine: LauncherKind, environ: Mapping[str, str]
) -> Line:
    """Returns the parts of a launcher's command line; reads the files that it names."""
    grammar = grammar_of(argv[0], engine)
    contexts = tuple(_contexts(argv, 1, grammar, environ))
    found: list[Context] = []
    is_complete = True
    for context in contexts:
        for option in context.named(grammar.files):
            lines = _lines(Path(option.values[0])) if option.values else None
            is_complete = is_complete and lines is not None
            for words in lines or ():
                found += _contexts(words, 0, grammar, environ)
    return Line(tuple(argv), engine, grammar, contexts, environ, tuple(found), is_complete)


def with_files_inside(line: Line) -> Line:
    """Returns the same command with the app contexts of its file as words, if that is
    possible: the line itself has none, and the file needs no quotes."""
    (context, *others) = line.contexts
    files = tuple(context.named(line.grammar.files))
    if others or context.program or len(files) != 1 or not line.from_files:
        return line
    words = [word for each in line.from_files for word in each.words]
    if any(mark in word for word in words for mark in _QUOTES):
        return line
    kept: list[str] = []
    for option in context.options:
        # With a file, Open MPI 4 ignores all options but these.
        counts = line.engine is not LauncherKind.ORTE or option.name in _BESIDE_A_FILE
        if option is not files[0] and counts:
            kept += line.argv[option.at : option.next_at]
    joined = [word for each in line.from_files for word in (BETWEEN_CONTEXTS, *each.words)]
    argv = (line.argv[0], *kept, *joined[1:])
    return read_line(argv, line.engine, line.environ)


def _lines(path: Path) -> list[list[str]] | None:
    """Returns the words of each line with contexts; None if the file cannot be read."""
    try:
        with path.open(encoding="utf-8", errors="surrogateescape") as file:
            text = file.read(_FILE_BYTES)
    except OSError:
        return None
    words = [line.partition("#")[0].split() for line in text.splitlines()]
    return [line for line in words if line]


def _contexts(
    words: Sequence[str], at: int, grammar: Grammar, environ: Mapping[str, str]
) -> Iterator[Context]:
    while at <= len(words):
        end = at
        while end < len(words) and words[end] != BETWEEN_CONTEXTS:
            end += 1
        yield _context(words[:end], at, grammar, environ)
        at = end + 1


def _context(
    words: Sequence[str], first: int, grammar: Grammar, environ: Mapping[str, str]
) -> Context:
    options: list[Option] = []
    at = first
    while at < len(words) and words[at] in grammar.words:
        at += 1
    while at < len(words) and words[at].startswith("-") and words[at] != "-":
        if words[at] == "--":
            at += 1
            break
        options.append(_option(words, at, grammar, environ))
        at = options[-1].next_at
    return Context(first, tuple(words[first:]), tuple(options), at)


def _option(
    words: Sequence[str], at: int, grammar: Grammar, environ: Mapping[str, str]
) -> Option:
    word = words[at]
    if grammar.short and not word.startswith("--"):
        name, value, has_value = _short(word[1:], grammar)
    else:
        name, equals, value = word.lstrip("-").partition("=")
        name, has_value = grammar.full_name(name), bool(equals)
    if has_value:
        return Option(name, (value,), at, joined=True)
    count = grammar.value_count(name)
    following = words[at + 1 :]
    if count is None:
        count = 1 if _looks_like_value(following, environ) else 0
    elif count == 2 and _is_assignment(name, following):
        count = 1
    return Option(name, tuple(following[:count]), at)


def _short(letters: str, grammar: Grammar) -> tuple[str, str, bool]:
    """Returns the last option of ``-abc`` or ``-n4``, its value, and whether it has one."""
    if grammar.value_count(letters) is not None:
        return letters, "", False  # aprun's options of two letters
    for index, letter in enumerate(letters):
        if grammar.value_count(letter) == 1:
            rest = letters[index + 1 :]
            return letter, rest.removeprefix("="), bool(rest)
    return letters[-1:], "", False


def _is_assignment(name: str, following: Sequence[str]) -> bool:
    """Whether one word NAME=VALUE stands in place of two, as Hydra takes it."""
    return name in ("genv", "env") and bool(following) and "=" in following[0]


def _looks_like_value(following: Sequence[str], environ: Mapping[str, str]) -> bool:
    """Whether the word behind an unknown option is its value: it starts no program, and a
    program may follow."""
    if len(following) < 2 or following[0].startswith("-"):
        return False
    return which(following[0], environ) is None
