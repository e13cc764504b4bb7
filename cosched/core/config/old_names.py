"""Translates the old names of commands and options in a command line.

An old name works for one version. The caller prints the returned warnings, one a name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from cosched.core.named_tuples import NamedTuple


def _always(_following: str) -> bool:
    return True


class OldOption(NamedTuple):
    """An option's old name."""

    old: str  #: the old name, with its dashes
    new: tuple[str, ...]  #: the words that replace it
    #: Decides from the following word ("" at the end of the line) whether ``old`` has its
    #: old meaning there.
    applies: Callable[[str], bool] = _always


#: Old command, with the group that holds it, and its name in that group today.
OLD_COMMANDS: Mapping[str, tuple[str, ...]] = {
    "cosched raise": ("boost",),
    "cosched release": ("detach",),
    "cosched set": ("config", "set"),
}


def _is_output(following: str) -> bool:
    """Whether the word can be the old ``--json FILE``, and not an input of the command."""
    if following.startswith("-") or not following:
        return following == "-"
    return not following.endswith((".toml", ".swf", ".gz"))


_JSON_FILE = OldOption("--json", ("--out",), _is_output)
_RUNS_AT_A_TIME = OldOption("--jobs", ("--parallel",))
_MACHINE = OldOption("--nodes", ("--machine",))

#: The old options of each command.
OLD_OPTIONS: Mapping[str, tuple[OldOption, ...]] = {
    "cosched-run": (OldOption("--status", ("--carrier",)),),
    "coschedd": (
        OldOption("--memory-capacity", ("--memory",)),
        OldOption("--allow-raise", ("--allow-boost",)),
    ),
    "cosched up": (
        OldOption("--align", ("--align", "on"), lambda word: word not in ("on", "off")),
        OldOption("--no-align", ("--align", "off")),
        OldOption("--allow-raise", ("--allow-boost", "on")),
        OldOption("--no-raise", ("--allow-boost", "off")),
    ),
    "cosched bench": (_JSON_FILE,),
    "cosched tune": (_JSON_FILE,),
    "cosched sim queue": (
        _JSON_FILE,
        _RUNS_AT_A_TIME,
        OldOption("--nodes", ("--save-nodes",)),
    ),
    "cosched sim couple": (_JSON_FILE, _RUNS_AT_A_TIME),
    "cosched sim malleable": (_JSON_FILE, _RUNS_AT_A_TIME),
    "cosched sim nodes": (_JSON_FILE, _RUNS_AT_A_TIME),
    "cosched sim fit": (_JSON_FILE,),
    "cosched sim symbiosis pairs": (_JSON_FILE,),
    "cosched sim symbiosis stream": (_JSON_FILE, _MACHINE),
    "cosched sim symbiosis log": (_JSON_FILE, _MACHINE),
}


def translate_command(group: str, words: Sequence[str]) -> tuple[list[str], list[str]]:
    """Returns the words after ``group`` with today's command name, and the warnings."""
    new = OLD_COMMANDS.get(f"{group} {words[0]}") if words else None
    if new is None:
        return list(words), []
    return [*new, *words[1:]], [_warning(words[0], " ".join(new))]


def translate_options(
    command: str,
    words: Sequence[str],
    takes_value: Callable[[str], bool],
    *,
    stops_at_argument: bool = False,
) -> tuple[list[str], list[str]]:
    """Returns the words after ``command`` with today's option names, and the warnings.

    takes_value: whether an option's value is the word after it. stops_at_argument: the
    words from the first argument on belong to another program.
    """
    olds = OLD_OPTIONS.get(command, ())
    done: list[str] = []
    warnings: list[str] = []
    rest = list(words)
    while rest and rest[0] != "--":
        name, equals, value = rest.pop(0).partition("=")
        if stops_at_argument and not name.startswith("-"):
            rest.insert(0, name + equals + value)
            break
        following = value if equals or not rest else rest[0]
        old = next((o for o in olds if o.old == name and o.applies(following)), None)
        new = [name] if old is None else list(old.new)
        if old is not None:
            warnings.append(_warning(name, " ".join(new)))
        done += [*new[:-1], new[-1] + equals + value]
        if not equals and rest and len(new) == 1 and takes_value(new[0]):
            done.append(rest.pop(0))
    return done + rest, warnings


def _warning(old: str, new: str) -> str:
    return f"'{old}' is now '{new}'; the next version drops the old name"
