"""Writes the columns of a run as npz and CSV, each with the command that made it.

The same run gives the same bytes. An npz has ``command`` and ``figures`` (JSON) besides
its columns; a CSV begins with ``# command``.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from cosched.core.errors import CoschedError
from cosched.linux.files.whole import write_whole, writing_whole

Columns: TypeAlias = "Mapping[str, Sequence[Any] | npt.NDArray[np.float64]]"


def save_columns(
    stem: Path,
    columns: Columns,
    command: str,
    figures: Mapping[str, object],
    exact: Mapping[str, Sequence[str]] = MappingProxyType({}),
) -> tuple[Path, Path]:
    """Writes ``stem.npz`` and ``stem.csv``, and their folder; returns their paths.

    ``exact``: the texts that the CSV has in place of the numbers of a column.
    """
    # Not with_suffix: names of logs have dots.
    npz, plain = (stem.with_name(f"{stem.name}.{kind}") for kind in ("npz", "csv"))
    try:
        stem.parent.mkdir(parents=True, exist_ok=True)
        with writing_whole(npz) as packed:
            np.savez_compressed(
                packed,
                command=np.array(command),
                figures=np.array(json.dumps(figures)),
                allow_pickle=False,
                **{name: np.asarray(values) for name, values in columns.items()},
            )
        text = io.StringIO()
        text.write(f"# {command}\n")
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows(zip(*{**columns, **exact}.values(), strict=True))
        write_whole(plain, text.getvalue())
    except OSError as error:
        raise CoschedError(
            f"{stem.parent}: cannot be written ({error.strerror})"
        ) from error
    return npz, plain
