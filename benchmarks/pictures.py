"""Draws the charts of the experiments. The same figures give the same file."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


@contextmanager
def picture(
    *paths: Path,
    size: tuple[float, float],
    rows: int = 1,
    columns: int = 1,
    dpi: int = 80,
    share_y: bool = False,
) -> Iterator[tuple[Any, Any]]:
    """Yields a figure and its panels by row and column, and saves it at the end.

    paths: each in the format of its name. size: width and height in inches.
    """
    import matplotlib as mpl

    mpl.use("Agg")
    # Text stays text in SVG.
    mpl.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "cosched"})
    from matplotlib import pyplot as plt

    figure, panels = plt.subplots(
        rows, columns, figsize=size, layout="constrained", squeeze=False, sharey=share_y
    )
    yield figure, panels
    for path in paths:
        stamp = {"Date": None} if path.suffix == ".svg" else {}
        figure.savefig(path, dpi=dpi, metadata=stamp)
    plt.close(figure)
