"""Puts the ranks' variables into a launcher's command line and environment.

One carrier holds for all app contexts of a family, and for the jobs that its ranks spawn:

Hydra
    ``-genv``, which also reaches spawned ranks.
Open MPI
    the launcher's environment, which its own node passes on to every rank and to spawned
    jobs, and ``-x`` in each context for the other nodes. Open MPI 4 refuses ``-x`` beside a
    list in ``mca_base_env_list``; then the list takes the variables.
other launchers
    the launcher's environment, which their ranks inherit. ``srun --export`` gets the names.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence

from cosched.launch.family import LauncherKind
from cosched.launch.given.line import Context, Line, Option, with_files_inside
from cosched.launch.given.parameters import ENV_LIST, lists_in_files, tuned_preload
from cosched.launch.given.preloads import (
    PRELOAD,
    join_preloads,
    merge_in_program,
    shims_in,
)

ENV_LIST_VARIABLE = f"OMPI_MCA_{ENV_LIST}"
EXPORT_VARIABLE = "SLURM_EXPORT_ENV"
_SEPARATOR = ";"


class Carried:
    """A command line that is being made.

    words: the given words, some with a new value. new: words to add, by the index of the
    word that they stand before. environ: additions to the launcher's environment.
    """

    def __init__(self, words: list[str]) -> None:
        self.words = words
        self.new: dict[int, list[str]] = {}
        self.environ: dict[str, str] = {}

    @property
    def argv(self) -> tuple[str, ...]:
        """The command line."""
        made: list[str] = []
        for index, word in enumerate(self.words):
            made += [*self.new.get(index, ()), word]
        return (*made, *self.new.get(len(self.words), ()))

    def set_value(self, option: Option, value: str, place: int = 0) -> None:
        """Replaces a value of an option."""
        if option.joined:
            word = self.words[option.at]
            kept = word.removesuffix(option.values[0])
            self.words[option.at] = kept + value
        else:
            self.words[option.at + 1 + place] = value


def carry(line: Line, tasks: Mapping[str, str], environ: Mapping[str, str]) -> Carried:
    """Returns the command that starts the line's ranks with the variables ``tasks``.

    environ: the user's environment, whose preloads stand before cosched's in ``tasks``.
    """
    if not tasks:
        return Carried(list(line.argv))
    shims = shims_in(tasks, environ)
    if shims and _sets_preload_in_file(line):
        line = with_files_inside(line)
    carried = Carried(list(line.argv))
    for context in line.contexts:
        words = merge_in_program(context.program, shims)
        carried.words[context.program_at : context.program_at + len(words)] = words
    inherited = _with_preload(tasks, line.environ.get(PRELOAD, ""), shims)
    if line.engine is LauncherKind.HYDRA:
        _by_genv(line, carried, inherited, shims)
    elif line.engine in (LauncherKind.ORTE, LauncherKind.PRRTE):
        carried.environ |= inherited
        _by_x(line, carried, inherited, shims)
    else:
        carried.environ |= inherited
        _merge_options(line, line.contexts, carried, shims)
        _export(line, carried, inherited, shims)
    return carried


def genv(tasks: Mapping[str, str]) -> list[str]:
    """Returns Hydra's options that set variables of all ranks."""
    return [word for name, value in tasks.items() for word in ("-genv", name, value)]


def exports(tasks: Mapping[str, str]) -> list[str]:
    """Returns Open MPI's options that set variables of an app context's ranks."""
    return [word for name, value in tasks.items() for word in ("-x", f"{name}={value}")]


def drops_environment(line: Line) -> bool:
    """Whether srun gives its ranks no variables at all, not even those of a list."""
    return any("NIL" in _items(text) for _, text in _export_lists(line))


def hides_preload(line: Line) -> bool:
    """Whether a file with app contexts sets LD_PRELOAD where it cannot be merged."""
    return _sets_preload_in_file(with_files_inside(line))


def _sets_preload_in_file(line: Line) -> bool:
    return any(
        value is not None
        for context in line.from_files
        for _, _, value in _settings(line, context)
    )


def _with_preload(
    tasks: Mapping[str, str], own: str, shims: Sequence[str]
) -> dict[str, str]:
    if PRELOAD not in tasks:
        return dict(tasks)
    return {**tasks, PRELOAD: join_preloads(own, shims)}


def _settings(line: Line, context: Context) -> Iterator[tuple[Option, int, str | None]]:
    """Yields the options of a context that set LD_PRELOAD, the place of the value among
    their words, and the value; None if it is that of the environment."""
    for option in context.named(line.grammar.variables):
        name, equals, value = (
            option.values[0].partition("=") if option.values else ("",) * 3
        )
        if name == PRELOAD and len(option.values) == 2:
            yield option, 1, option.values[1]
        elif name == PRELOAD:
            yield option, 0, value if equals else None


def _merge_options(
    line: Line, contexts: Sequence[Context], carried: Carried, shims: Sequence[str]
) -> list[str]:
    """Adds cosched's libraries to each value of LD_PRELOAD; returns the merged values."""
    merged = []
    for context in contexts:
        for option, place, value in _settings(line, context):
            own = line.environ.get(PRELOAD, "") if value is None else value
            text = join_preloads(own, shims)
            whole = text if len(option.values) == 2 else f"{PRELOAD}={text}"
            carried.set_value(option, whole, place)
            merged.append(text)
    return merged


def _by_genv(
    line: Line, carried: Carried, tasks: Mapping[str, str], shims: Sequence[str]
) -> None:
    if shims:
        _merge_options(line, line.contexts, carried, shims)
    carried.new[1] = genv(tasks)


def _by_x(
    line: Line, carried: Carried, tasks: Mapping[str, str], shims: Sequence[str]
) -> None:
    given = list(_env_lists(line))
    usual = _listed_preload(line, given) if shims else None
    if given and line.engine is LauncherKind.ORTE:
        _fill_list(line, carried, given[-1], tasks, shims)
        return
    if PRELOAD in tasks and usual is not None:
        tasks = {**tasks, PRELOAD: join_preloads(usual, shims)}
    for number, context in enumerate(line.contexts):
        own = _merge_options(line, (context,), carried, shims) if shims else []
        if own and number == 0 and line.engine is LauncherKind.PRRTE:
            tasks = {**tasks, PRELOAD: own[0]}  # the other contexts inherit it
        wanted = {name: text for name, text in tasks.items() if name != PRELOAD or not own}
        carried.new.setdefault(context.at, []).extend(exports(wanted))


def _listed_preload(line: Line, given: Sequence[tuple[Option | None, str]]) -> str | None:
    """Returns the LD_PRELOAD of a list or of a tuning file, whichever Open MPI takes."""
    for _, text in reversed(given):
        for item in text.split(_SEPARATOR):
            name, equals, value = item.partition("=")
            if name.strip() == PRELOAD:
                return value if equals else line.environ.get(PRELOAD, "")
    return tuned_preload(line)


def _env_lists(line: Line) -> Iterator[tuple[Option | None, str]]:
    """Yields each list of variables of Open MPI with its option, or None for those of files
    and of the environment."""
    yield from ((None, text) for text in lists_in_files(line))
    text = line.environ.get(ENV_LIST_VARIABLE)
    if text:
        yield None, text
    for option in line.named(line.grammar.lists):
        if len(option.values) == 2 and option.values[0] == ENV_LIST:
            yield option, option.values[1]


def _fill_list(
    line: Line,
    carried: Carried,
    taken: tuple[Option | None, str],
    tasks: Mapping[str, str],
    shims: Sequence[str],
) -> None:
    """Adds the variables to the list that Open MPI takes."""
    option, text = taken
    usual = _listed_preload(line, [taken])
    if PRELOAD in tasks and usual is not None:
        tasks = {**tasks, PRELOAD: join_preloads(usual, shims)}
    kept = [item for item in text.split(_SEPARATOR) if item.partition("=")[0] not in tasks]
    added = [f"{name}={value}" for name, value in tasks.items()]
    whole = _SEPARATOR.join([*filter(None, kept), *added])
    if option is None:
        carried.environ[ENV_LIST_VARIABLE] = whole
    else:
        carried.set_value(option, whole, 1)


def _export_lists(line: Line) -> Iterator[tuple[Option | None, str]]:
    """Yields srun's lists of variables, with their options; None: the environment's."""
    if os.path.basename(line.argv[0]) != "srun":
        return
    on_line = [(option, option.values[0]) for option in line.named(line.grammar.exports)]
    text = line.environ.get(EXPORT_VARIABLE)
    if text and len(on_line) < len(line.contexts):
        yield None, text
    yield from on_line


def _items(text: str) -> list[str]:
    return [item.strip() for item in text.split(",") if item.strip()]


def _sets(items: Sequence[str]) -> bool:
    """Whether a list of srun's sets LD_PRELOAD."""
    return any(item.startswith(f"{PRELOAD}=") for item in items)


def _export(
    line: Line, carried: Carried, tasks: Mapping[str, str], shims: Sequence[str]
) -> None:
    """Adds the variables' names to srun's lists: it takes the values from its own
    environment. Beside ALL that environment's LD_PRELOAD would replace the list's."""
    lists = [(option, _items(text)) for option, text in _export_lists(line)]
    if lists and PRELOAD not in line.environ and all(_sets(items) for _, items in lists):
        carried.environ.pop(PRELOAD, None)
    for option, items in lists:
        if "NIL" in items:
            continue
        whole = ",".join(_exported(items, tasks, shims))
        if option is None:
            carried.environ[EXPORT_VARIABLE] = whole
        else:
            carried.set_value(option, whole)


def _exported(
    items: Sequence[str], tasks: Mapping[str, str], shims: Sequence[str]
) -> Iterator[str]:
    names = [item.partition("=")[0] for item in items]
    for name, item in zip(names, items, strict=True):
        if name == PRELOAD and "=" in item and shims:
            yield f"{PRELOAD}={join_preloads(item.partition('=')[2], shims)}"
        elif item != "NONE":
            yield item
    if "ALL" not in names:
        yield from (name for name in tasks if name not in names)
