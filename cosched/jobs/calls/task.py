"""Runs one call in a task of a job, and leaves its result or its exception in a file."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from cosched.core.bounds import NATURAL_MOST
from cosched.core.decoding import parse_integer
from cosched.jobs.calls.files import Files
from cosched.jobs.calls.parcels import read_call, write_failure, write_result

#: Run by ``python -c``, with the folder that has cosched as its first argument. So the
#: working directory replaces no module.
_START = (
    "import sys; sys.path[0] = sys.argv.pop(1); "
    "from cosched.jobs.calls.task import main; main()"
)
_ALONE, _WITH_RANKS = "alone", "ranks"
_COSCHED = str(Path(__file__).absolute().parents[3])


def task_words(*, with_ranks: bool) -> tuple[str, ...]:
    """Returns the words that start a task, without those of its call."""
    how = _WITH_RANKS if with_ranks else _ALONE
    return (sys.executable, "-c", _START, _COSCHED, how)


def call_words(calls: Path, begin: int, files: Files) -> tuple[str, ...]:
    """Returns the words of a call. calls, begin: its place. files: those of its job."""
    return (str(calls), str(begin), str(files.result), str(files.failure))


class _Call(NamedTuple):
    """A call, as the words of a task name it."""

    calls: Path
    begin: int
    result: Path
    failure: Path

    def run(self, first: Sequence[Any]) -> list[Any]:
        """Returns the results. first: arguments before those of each call."""
        function, chunk = read_call(self.calls, self.begin)
        return [function(*first, *arguments, **named) for arguments, named in chunk]

    def leave(self, error: BaseException) -> None:
        """Leaves an exception for the caller, unless another rank has left one."""
        text = "".join(traceback.format_exception(error))
        print(text, end="", file=sys.stderr, flush=True)
        sys.stdout.flush()
        if not self.failure.exists():
            write_failure(self.failure, error, text)


def main() -> None:
    """Runs the call that the words of this process name."""
    how, calls, begin, result, failure = sys.argv[1:]
    sys.argv[1:] = []
    call = _Call(
        Path(calls),
        parse_integer(begin, "the place of a call", 0, NATURAL_MOST),
        Path(result),
        Path(failure),
    )
    if how == _WITH_RANKS:
        _run_ranks(call)
    else:
        _run_alone(call)


def _run_alone(call: _Call) -> None:
    try:
        write_result(call.result, call.run(()))
    except BaseException as error:  # noqa: BLE001  (it travels to the caller)
        call.leave(error)
        sys.exit(1)


def _run_ranks(call: _Call) -> None:
    """Calls the function in each rank. The result is that of rank 0."""
    from mpi4py import MPI

    world = MPI.COMM_WORLD
    try:
        value = call.run((world,))
        if world.rank == 0:
            write_result(call.result, value)
    except BaseException as error:  # noqa: BLE001  (it travels to the caller)
        try:
            call.leave(error)
        finally:
            world.Abort(1)  # the other ranks may wait for this one
