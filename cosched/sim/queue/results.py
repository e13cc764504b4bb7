"""Writes the result of a run: columns as npz and as CSV, and the figures as JSON.

Both column files have a row for each job, in order of submission, with the same columns.
Each names the command that made it and has no time stamps: the same run gives the same
bytes.

    job          number in the log
    user         as in the log, -1 if unknown
    size         nodes
    submit_s     as in the log
    start_s      submission plus wait
    wait_s       end_s     run_s
    walltime_s   what the user asked for
    nodes        the nodes of the job (0-3,8), if they were kept

An npz has ``command`` and ``figures`` (JSON) besides; a CSV begins with ``# command``.
"""

from __future__ import annotations

import json
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from cosched.core.cluster.queue.nodes import Intervals, format_nodes
from cosched.core.errors import CoschedError
from cosched.core.units import NS_PER_S
from cosched.sim.logs.swf import seconds
from cosched.sim.logs.workload import Workload
from cosched.sim.queue.metrics import column


@dataclass(frozen=True, slots=True)
class Schedule:
    """When each job of a workload started. nodes: empty unless they were kept."""

    workload: Workload
    start_ns: array[int]
    nodes: Sequence[Intervals]

    def whole(self) -> dict[str, array[int]]:
        """Returns the columns that are not times."""
        workload = self.workload
        return {"job": workload.number, "user": workload.user, "size": workload.size}

    def times_ns(self) -> dict[str, array[int]]:
        """Returns the columns that are times, by their names without the unit."""
        workload, start = self.workload, self.start_ns
        starts, submits = column(start), column(workload.submit_ns)
        runs = column(workload.run_ns)
        return {
            "submit": workload.submit_ns,
            "start": start,
            "end": array("q", (starts + runs).tobytes()),
            "wait": array("q", (starts - submits).tobytes()),
            "run": workload.run_ns,
            "walltime": workload.walltime_ns,
        }


def save(
    schedule: Schedule, stem: Path, command: str, figures: Mapping[str, object]
) -> tuple[Path, Path]:
    """Writes ``stem.npz`` and ``stem.csv``; returns their paths."""
    # Not with_suffix: names of logs have dots.
    npz, csv = (stem.with_name(f"{stem.name}.{kind}") for kind in ("npz", "csv"))
    try:
        _save_npz(schedule, npz, command, figures)
        _save_csv(schedule, csv, command)
    except OSError as error:
        raise CoschedError(
            f"{stem.parent}: cannot be written ({error.strerror})"
        ) from error
    return npz, csv


def _save_npz(
    schedule: Schedule, path: Path, command: str, figures: Mapping[str, object]
) -> None:
    columns = {name: column(values) for name, values in schedule.whole().items()}
    times = {
        f"{name}_s": column(values) / NS_PER_S
        for name, values in schedule.times_ns().items()
    }
    extra = {"nodes": np.array([format_nodes(nodes) for nodes in schedule.nodes])}
    with path.open("wb") as stream:
        np.savez_compressed(
            stream,
            command=np.array(command),
            figures=np.array(json.dumps(figures)),
            allow_pickle=False,
            **columns,
            **times,
            **(extra if schedule.nodes else {}),
        )


def _save_csv(schedule: Schedule, path: Path, command: str) -> None:
    whole, times = schedule.whole(), schedule.times_ns()
    names = [*whole, *(f"{name}_s" for name in times)]
    if schedule.nodes:
        names.append("nodes")
    with path.open("w", encoding="utf-8") as stream:
        stream.write(f"# {command}\n{','.join(names)}\n")
        rows = zip(*whole.values(), *times.values(), strict=True)
        for index, row in enumerate(rows):
            cells = [str(value) for value in row[: len(whole)]]
            cells += [seconds(value) for value in row[len(whole) :]]
            if schedule.nodes:
                cells.append(f'"{format_nodes(schedule.nodes[index])}"')
            stream.write(",".join(cells) + "\n")
