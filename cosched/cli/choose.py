"""Options that take several of some known names."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import click


def choose(known: Sequence[str]) -> Callable[..., tuple[str, ...]]:
    """A callback that reads known names with commas between."""

    def read(ctx: click.Context, param: click.Parameter, value: str) -> tuple[str, ...]:
        names = tuple(name.strip() for name in value.split(","))
        for name in names:
            if name not in known:
                raise click.BadParameter(f"'{name}' is none of {', '.join(known)}.")
        return tuple(dict.fromkeys(names))

    return read
