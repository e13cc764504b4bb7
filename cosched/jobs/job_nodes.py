"""Remembers the nodes of the user's jobs that run on other nodes.

cosched-run writes one small file a job, below the user's state directory. The login node
and the nodes share it with the home.
"""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import TypedDict

from cosched.core.decoding import JsonDecoder, Malformed
from cosched.core.errors import CoschedError
from cosched.core.named_tuples import NamedTuple
from cosched.linux.files.whole import PRIVATE, write_whole

#: Older ones are removed.
MOST_JOBS = 200


class JobNodes(NamedTuple):
    """The nodes of a job: a job of Slurm, or a list."""

    slurm: str = ""  #: the number of its Slurm job; empty: it runs in none
    hosts: tuple[str, ...] = ()  #: the names of its nodes; (): Slurm has them


def write_job_nodes(state: Path, job: str, place: JobNodes) -> None:
    """Writes the place of a job. Raises CoschedError if that fails."""
    folder = state / "places"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        files = sorted(folder.glob("*.json"), key=_written_at)
        for old in files[: max(0, len(files) - MOST_JOBS + 1)]:
            old.unlink(missing_ok=True)
    except OSError as error:
        raise CoschedError(f"{folder}: {error.strerror}") from None
    write_whole(folder / f"{job}.json", json.dumps(place._asdict()), PRIVATE)


def _written_at(file: Path) -> float:
    """Returns when a file was written; 0 if another command has just removed it."""
    try:
        return file.stat().st_mtime
    except FileNotFoundError:
        return 0.0


class _Stored(TypedDict, total=False):
    slurm: str
    hosts: tuple[str, ...]


_decoder: JsonDecoder[_Stored] = JsonDecoder(_Stored, "the place of a job")


def read_job_nodes(state: Path | None, job: str) -> JobNodes | None:
    """Returns the place of a job; None if it is not known."""
    if state is None:
        return None
    with contextlib.suppress(OSError, Malformed):
        file = state / "places" / f"{Path(job).name}.json"
        return JobNodes(**_decoder.decode(file.read_bytes()))
    return None
