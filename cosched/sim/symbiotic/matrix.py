"""Holds the speedups of applications beside each other: a machine's model (Table 4).

As JSON, written by ``python -m benchmarks.kernels matrix`` or by hand:

    {"applications": {"NAME": {"limits": ["memory"], "idle": 1.2,
                               "beside": {"NAME": 1.0, ...}}, ...}}
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from cosched.core.errors import CoschedError
from cosched.core.symbiosis.resources import Labels, Limits, parse_limits


@dataclass(frozen=True, slots=True)
class SpeedupMatrix:
    """Speedups of applications, against whole nodes of their own."""

    names: tuple[str, ...]  #: the applications, in the order of rows and idle
    #: For each application as the primary, its speedup beside each background. The speedup
    #: beside itself is 1 by definition.
    rows: tuple[tuple[float, ...], ...]
    idle: tuple[float, ...]  #: the speedup of each with free other halves

    def __post_init__(self) -> None:
        wide = {len(row) for row in self.rows} | {len(self.rows), len(self.idle)}
        if not self.names or wide != {len(self.names)}:
            raise CoschedError(
                f"a speedup matrix of {len(self.names)} applications needs that many rows, "
                "that many numbers in each row, and that many idle speedups"
            )
        for name, row, idle in zip(self.names, self.rows, self.idle, strict=True):
            for speedup in (*row, idle):
                if not (math.isfinite(speedup) and speedup > 0.0):
                    raise CoschedError(
                        f"application '{name}': a speedup of {speedup:g}: want more than 0"
                    )

    def speedup(self, primary: str, background: str | None) -> float:
        """Returns the speedup of ``primary``; ``background`` None: free other halves.

        Raises CoschedError for an unknown application."""
        own = self._place(primary)
        return (
            self.idle[own]
            if background is None
            else self.rows[own][self._place(background)]
        )

    def _place(self, name: str) -> int:
        if name not in self.names:
            raise CoschedError(f"application '{name}' has no row in the speedup matrix")
        return self.names.index(name)


@dataclass(frozen=True, slots=True)
class Model:
    """A machine's matrix, and the users' labels of its applications."""

    matrix: SpeedupMatrix  #: the measured speedups
    limits: tuple[Limits, ...]  #: the labels, in the order of the matrix's names

    @property
    def labels(self) -> Labels:
        """Returns the users' labels by application."""
        return dict(zip(self.matrix.names, self.limits, strict=True))


def parse_model(document: object, what: str) -> Model:
    """Reads a model from a JSON document; ``what`` names the document in errors."""
    rows = document.get("applications") if isinstance(document, Mapping) else None
    if not isinstance(rows, Mapping) or not rows:
        raise CoschedError(f"{what}: has no object 'applications' with one or more in it")
    names = tuple(rows)
    return Model(
        SpeedupMatrix(
            names,
            tuple(_row(rows[name], name, names, what) for name in names),
            tuple(
                _number(rows[name].get("idle"), f"{what}: {name}.idle") for name in names
            ),
        ),
        tuple(
            parse_limits(rows[name].get("limits"), f"{what}: {name}.limits")
            for name in names
        ),
    )


def _row(entry: Any, name: str, names: tuple[str, ...], what: str) -> tuple[float, ...]:
    beside = entry.get("beside") if isinstance(entry, Mapping) else None
    if not isinstance(beside, Mapping) or set(beside) != set(names):
        raise CoschedError(
            f"{what}: {name}.beside: want a speedup for each of {', '.join(names)}"
        )
    return tuple(
        _number(beside[other], f"{what}: {name}.beside.{other}") for other in names
    )


def _number(value: object, what: str) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise CoschedError(f"{what}: {value!r} is not a number")
    return float(value)


def model_document(model: Model) -> dict[str, Any]:
    """Returns the model as JSON data for ``parse_model``."""
    matrix = model.matrix
    return {
        "applications": {
            name: {
                "limits": sorted(resource.value for resource in model.labels[name]),
                "idle": matrix.speedup(name, None),
                "beside": {other: matrix.speedup(name, other) for other in matrix.names},
            }
            for name in matrix.names
        }
    }
