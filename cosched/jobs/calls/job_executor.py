"""Runs functions and commands as jobs of a domain, as ``concurrent.futures`` does."""

from __future__ import annotations

import concurrent.futures
import itertools
import shutil
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

from cosched.cluster.answers import EndInfo
from cosched.cluster.client import NoDomain
from cosched.cluster.submission import Submission
from cosched.jobs.calls.alike import Alike
from cosched.jobs.calls.connection import Connect, Connection
from cosched.jobs.calls.files import Files
from cosched.jobs.calls.future import JobFuture
from cosched.jobs.calls.kinds import Arguments, CommandRuns, FunctionCalls
from cosched.jobs.calls.parcels import make_folder
from cosched.jobs.calls.watcher import Watcher
from cosched.jobs.job import Job
from cosched.jobs.serving import NO_MPI

T = TypeVar("T")
Work = Callable[..., Any] | Sequence[str]


class JobExecutor(concurrent.futures.Executor):
    """Runs calls as jobs of the domain to which ``connect`` connects.

    ranks: each job is an MPI program of so many ranks; each rank calls the function with
    ``MPI.COMM_WORLD`` before its arguments, and the result is that of rank 0. None: one
    process without MPI calls the function.

    folder: where functions, arguments and results travel as files of mode 0600; all nodes
    of the domain must have it. By default it is in this user's cache. job: further fields
    of ``Job``, such as ``time_s`` or ``output``. Without ``output`` the output of a job is
    removed at its end.

    Raises CoschedError if the folder cannot be made.
    """

    def __init__(
        self,
        connect: Connect,
        ranks: int | None = None,
        *,
        folder: Path | str | None = None,
        **job: Any,
    ) -> None:
        self._ranks = ranks
        self._job = job
        self._connect = connect
        self._folder = make_folder(None if folder is None else Path(folder))
        self._remove = weakref.finalize(self, shutil.rmtree, self._folder, True)
        self._serials = itertools.count(1)
        self._lock = threading.RLock()
        self._client: Connection | None = None
        self._is_shut = False
        self._watcher = Watcher(connect)
        self._futures: weakref.WeakSet[JobFuture] = weakref.WeakSet()

    # --- as concurrent.futures has them ---------------------------------------------------

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> JobFuture:
        """Sends one call. Raises CoschedError if the domain can never run it."""
        (future,) = self._call(fn, [[(args, kwargs)]], _first)
        return future

    def map(
        self,
        fn: Work,
        *iterables: Iterable[Any],
        timeout: float | None = None,
        chunksize: int = 1,
    ) -> Iterator[Any]:
        """Sends a call for each item, and returns an iterator over the results in the order
        of the items.

        fn: a function, or the words of a command (see ``run``). chunksize: so many calls of
        a function are one job. timeout: in seconds, from now on; TimeoutError is raised if
        a result takes longer. An exception of a call is raised at its place. The jobs whose
        results are not taken then are cancelled.
        """
        if chunksize < 1:
            raise ValueError("chunksize must be >= 1.")
        items = zip(*iterables, strict=False)
        if callable(fn):
            calls: Iterator[Arguments] = ((each, {}) for each in items)
            futures = self._call(fn, _chunks(calls, chunksize), list)
            return _each(_results(futures, timeout))
        return _results(self._run(fn, (each for (each,) in items)), timeout)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Takes no more work. cancel_futures: ends all jobs, also those that run. wait:
        returns once all jobs have ended and their files are removed."""
        with self._lock:
            self._is_shut = True
        if cancel_futures:
            for future in list(self._futures):
                future.cancel()
        if wait:
            self._watcher.join()
        self._close()
        if wait:
            self._remove()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Waits for all jobs. An interrupt cancels them."""
        interrupted = kind is not None and not issubclass(kind, Exception)
        self.shutdown(cancel_futures=interrupted)

    # --- commands -------------------------------------------------------------------------

    def run(self, command: Sequence[str], item: Any = ()) -> JobFuture:
        """Sends a command. The result is a ``subprocess.CompletedProcess`` with its output,
        or ``JobFailed``. item: a word for the place of ``{}`` in the command, or at its
        end. A list or a tuple is several words at its end."""
        (future,) = self._run(command, [item])
        return future

    def _run(self, command: Sequence[str], items: Iterable[Any]) -> list[JobFuture]:
        self._expect_open()
        runs = CommandRuns(command)
        jobs = self._alike(runs.usual_words, {})

        def send() -> Iterator[JobFuture]:
            for words in map(runs.words_for, items):
                files = self._next_files()
                job = jobs.with_words(words, files)
                yield self._send(job, files, partial(runs.collect, words))

        return _all_or_none(send())

    # --- sending --------------------------------------------------------------------------

    def _call(
        self,
        function: Callable[..., Any],
        chunks: Iterable[Sequence[Arguments]],
        choose: Callable[[Any], Any],
    ) -> list[JobFuture]:
        """Sends a job for each chunk of calls. choose: takes the results of a chunk, and
        returns that of its future."""
        self._expect_open()
        path = self._folder / f"calls-{next(self._serials)}"
        calls = FunctionCalls(function, chunks, path, with_ranks=self._ranks is not None)
        usual = {"name": calls.name} | ({"mpi": NO_MPI} if self._ranks is None else {})
        jobs = self._alike(calls.usual_words, usual)

        def send() -> Iterator[JobFuture]:
            for begin in calls.begins:
                files = self._next_files()
                job = jobs.with_words(calls.words_at(begin, files), files)
                yield self._send(job, files, partial(calls.collect, choose))

        return _all_or_none(send())

    def _expect_open(self) -> None:
        if self._is_shut:
            raise RuntimeError("cannot schedule new futures after shutdown")

    def _next_files(self) -> Files:
        return Files.of(self._folder, next(self._serials))

    def _alike(self, words: Sequence[str], usual: Mapping[str, Any]) -> Alike:
        """Returns what makes jobs of one program. words: those of all its jobs. usual:
        fields of ``Job`` that the caller may replace."""
        has_files = "output" not in self._job
        given = {"ranks": self._ranks or 0, **usual, **self._job}

        def prepare(words: Sequence[str], files: Files) -> Submission:
            if has_files:
                given.update(output=str(files.output), error=str(files.error))
            return self._asking(lambda client: client.prepare(Job(words, **given)))

        return Alike(words, prepare, has_files=has_files)

    def _send(
        self, job: Submission, files: Files, collect: Callable[[Files, EndInfo], Any]
    ) -> JobFuture:
        with self._lock:
            number = self._asking(lambda client: client.submit(job))
        future = JobFuture(
            number, partial(_collected, collect, files), self._state_of, self._cancel
        )
        self._futures.add(future)
        self._watcher.add(number, future.take)
        return future

    def _state_of(self, number: int) -> str:
        return self._asking(lambda client: client.job(number)["state"])

    def _cancel(self, number: int) -> None:
        self._asking(lambda client: client.cancel(number))

    def _asking(self, ask: Callable[[Connection], T]) -> T:
        """Asks the domain. It may have ended after a time without jobs, or have restarted:
        then this sends the request a second time."""
        with self._lock:
            try:
                return ask(self._connected())
            except NoDomain:
                self._close()
                return ask(self._connected())

    def _connected(self) -> Connection:
        if self._client is None:
            self._client = self._connect()
        return self._client

    def _close(self) -> None:
        with self._lock:
            if self._client is not None:
                self._client.close()
            self._client = None


def _all_or_none(sending: Iterator[JobFuture]) -> list[JobFuture]:
    """Returns the futures of all jobs. If one cannot be sent, the others are cancelled."""
    futures: list[JobFuture] = []
    try:
        for future in sending:
            futures.append(future)
    except BaseException:
        for future in futures:
            future.cancel()
        raise
    return futures


def _collected(collect: Callable[[Files, EndInfo], Any], files: Files, end: EndInfo) -> Any:
    try:
        return collect(files, end)
    finally:
        files.remove()


def _first(results: Sequence[Any]) -> Any:
    return results[0]


def _chunks(calls: Iterator[Arguments], size: int) -> Iterator[list[Arguments]]:
    while chunk := list(itertools.islice(calls, size)):
        yield chunk


def _each(chunks: Iterator[Sequence[Any]]) -> Iterator[Any]:
    for chunk in chunks:
        yield from chunk


def _results(futures: list[JobFuture], timeout: float | None) -> Iterator[Any]:
    """Returns an iterator over the results in order, which cancels the rest when its caller
    takes no more of them."""
    deadline = None if timeout is None else time.monotonic() + timeout
    return _results_until(futures[::-1], deadline)


def _results_until(left: list[JobFuture], deadline: float | None) -> Iterator[Any]:
    try:
        while left:
            within_s = None if deadline is None else deadline - time.monotonic()
            yield left[-1].result(within_s)
            left.pop()
    finally:
        for future in left:
            future.cancel()
