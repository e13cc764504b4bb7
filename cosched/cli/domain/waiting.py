"""Waits for a job as if it ran here: its output, its status, and signals that end it."""

from __future__ import annotations

import contextlib
import math
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from cosched.cluster.client import Client, NoDomain
from cosched.cluster.job_texts import end_text, label_of
from cosched.core.errors import CoschedError
from cosched.core.named_tuples import NamedTuple
from cosched.jobs.feeding import Feeder
from cosched.jobs.following import Tail, size_of, wait_patiently
from cosched.linux.homes import cache_home
from cosched.linux.processes.handlers import handled, not_ignored
from cosched.start.streams import Unwritten

if TYPE_CHECKING:
    from cosched.cluster.answers import JobInfo

#: How long a command that must end tries to cancel its job.
CANCEL_WITHIN_S = 5.0
#: A job that has not begun after this time is reported to wait.
NOTE_AFTER_S = 2.0
#: Descriptors of this command.
STDIN, STDOUT, STDERR = range(3)
#: Below a user's cache: outputs that a waiting command copies, a folder a job.
_PRIVATE, _PREFIX = "cosched/output", "job-"
_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Ended(NamedTuple):
    """A job that has ended."""

    job: JobInfo  #: the job
    interrupt: int = 0  #: the signal to this command that ended it; 0: none


def report_end(ended: Ended, complain: Callable[[str], None]) -> int:
    """Complains if the job failed; returns its status as one that a process can have."""
    job = ended.job
    if job["reason"]:
        complain(f"job {label_of(job)}: {end_text(job['state'], job['reason'])}")
    return exit_status(ended)


def exit_status(ended: Ended) -> int:
    """Returns the job's status as one that a process can have; after Ctrl-C that of an
    interrupted command."""
    if ended.interrupt == signal.SIGINT and ended.job["state"] == "cancelled":
        return 128 + signal.SIGINT
    status = ended.job["status"] or 0
    return status & 0xFF or min(status, 1)


class Interrupted(BaseException):
    """A signal asks that the job ends. number: the signal."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number


class _Overdue(BaseException):
    """The domain takes too long."""


class Interrupts:
    """Within it the first signal that should end this process raises Interrupted, once
    ``arm`` was called. The second one ends this process, unless both are SIGHUP. Ignored
    signals stay ignored."""

    def __init__(self) -> None:
        self._count = 0
        self._first = 0
        self._armed = False
        self._old: dict[int, Any] = {}

    def __enter__(self) -> Interrupts:
        self._old = {
            number: signal.signal(number, self._take) for number in not_ignored(_ENDING)
        }
        # In the background a read of the terminal then fails, and stops nothing.
        self._old[signal.SIGTTIN] = signal.signal(signal.SIGTTIN, signal.SIG_IGN)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._old.items():
            signal.signal(number, handler)

    def arm(self) -> None:
        """Raises Interrupted now if a signal has come, otherwise when one comes."""
        self._armed = True
        if self._count:
            raise Interrupted(self._first)

    def _take(self, number: int, _frame: FrameType | None) -> None:
        if number == self._first == signal.SIGHUP:
            return  # a terminal that closes sends it twice
        self._count += 1
        if self._count > 1:
            raise SystemExit(128 + number)
        self._first = number
        if self._armed:
            raise Interrupted(number)


@contextlib.contextmanager
def private_files() -> Iterator[tuple[str, str]]:
    """Yields names for a job's two outputs, in a directory that is removed at the end: in
    the user's cache, or below the directory of temporary files if that takes none."""
    import shutil
    import tempfile

    cache = cache_home(os.environ)
    removed = ""
    try:
        directory = removed = _made_in(cache)
    except OSError as error:
        try:
            removed = tempfile.mkdtemp(prefix="cosched-")
            directory = _made_in(Path(removed))
        except OSError:
            parent = cache / _PRIVATE
            raise CoschedError(f"{parent}: {error.strerror}; use --output") from None
    try:
        yield f"{directory}/out", f"{directory}/err"
    finally:
        shutil.rmtree(removed, ignore_errors=True)


def _made_in(folder: Path) -> str:
    import tempfile

    parent = folder / _PRIVATE
    parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    return tempfile.mkdtemp(prefix=_PREFIX, dir=parent)


def is_private(path: Path) -> bool:
    """Returns whether ``private_files`` of some user gave this name."""
    folder = path.parent
    return folder.name.startswith(_PREFIX) and str(folder.parent).endswith(f"/{_PRIVATE}")


class Sizes(NamedTuple):
    """Sizes of the outputs before the job; the bytes up to there are not copied."""

    output: int  #: bytes in the file of the standard output; 0: it does not exist
    #: Bytes in the file of the standard error; 0: it does not exist or there is none.
    error: int

    @classmethod
    def of(cls, output: str, error: str) -> Sizes:
        """Looks at the files of a job that is not submitted yet."""
        return cls(size_of(Path(output)), size_of(Path(error)) if error else 0)


class _WaitNoted:
    """Notes once why a job has not begun after a while, later if the domain is away then.
    note: takes a line for the user."""

    def __init__(
        self, connect: Callable[[], Client], number: int, note: Callable[[str], None]
    ) -> None:
        self._connect, self._number, self._note = connect, number, note
        self._at_s = time.monotonic() + NOTE_AFTER_S

    def __call__(self) -> None:
        if time.monotonic() < self._at_s:
            return
        try:
            with self._connect() as client:
                job = client.job(self._number)
        except NoDomain:
            self._at_s = time.monotonic() + NOTE_AFTER_S
            return
        self._at_s = math.inf
        if job["state"] in ("held", "queued"):
            self._note(f"job {self._number}: {job['why']}")


def run_to_end(
    connect: Callable[[], Client],
    submit: Callable[[], int],
    sizes: Sizes | None,
    source: int | None,
    complain: Callable[[str], None],
    note: Callable[[str], None] = lambda _line: None,
) -> Ended:
    """Submits a job and returns it once it has ended; copies its output meanwhile.

    sizes: None if the output is not copied. source: a descriptor that is the job's standard
    input; None: it has another one. complain: takes a line for the user. note: takes a line
    about a long wait. SIGINT, SIGTERM and SIGHUP cancel the job, or only end this command
    if the domain does not answer.
    """
    with Interrupts() as interrupts:
        number = submit()
        tails: list[Tail] = []
        try:
            try:
                interrupts.arm()
                if sizes is not None:
                    tails = _tails(connect, number, sizes)
                with contextlib.ExitStack() as stack:
                    if source is not None:
                        stack.enter_context(Feeder(connect, number, source, complain))
                    noted = _WaitNoted(connect, number, note)
                    return Ended(_wait(connect, number, tails, noted))
            except (Interrupted, Unwritten) as why:
                _cancel_or_end(connect, number, why, complain)
                copied = tails if isinstance(why, Interrupted) else []
                ended = _wait(connect, number, copied)
                if not isinstance(why, Interrupted):
                    raise
                return Ended(ended, why.number)
        finally:
            for tail in tails:
                tail.close()


def run_array_to_end(
    connect: Callable[[], Client],
    submit: Callable[[], int],
    tasks: int,
    complain: Callable[[str], None],
) -> list[Ended]:
    """Submits an array of this number of tasks; returns them once all have ended. A signal
    cancels all, as in ``run_to_end``."""
    with Interrupts() as interrupts:
        first = submit()
        numbers = range(first, first + tasks)
        try:
            interrupts.arm()
            return [Ended(_wait(connect, number, [])) for number in numbers]
        except Interrupted as why:
            _cancel_or_end(connect, first, why, complain)
            return [Ended(_wait(connect, number, []), why.number) for number in numbers]


def _cancel_or_end(
    connect: Callable[[], Client],
    number: int,
    why: BaseException,
    complain: Callable[[str], None],
) -> None:
    """Cancels a job; ends this command if the domain does not answer."""
    complain(f"job {number}: is being cancelled")
    if not _cancel(connect, number):
        complain(
            f"job {number}: the domain does not answer, so the job goes on; "
            f"later use: cosched cancel {number}"
        )
        raise SystemExit(_status_after(why)) from None


def _cancel(connect: Callable[[], Client], number: int) -> bool:
    """Cancels a job unless it has ended; returns False if the domain does not answer."""
    try:
        with _at_most(CANCEL_WITHIN_S), connect() as client:
            client.cancel(number)
    except (NoDomain, _Overdue):
        return False
    except CoschedError:
        pass  # it has ended
    return True


def _status_after(why: BaseException) -> int:
    number = why.number if isinstance(why, Interrupted) else signal.SIGPIPE
    return 128 + number


@contextlib.contextmanager
def _at_most(seconds: float) -> Iterator[None]:
    """Raises _Overdue in the block, wherever it waits, after this time."""

    def end(_number: int, _frame: FrameType | None) -> None:
        raise _Overdue

    with handled([signal.SIGALRM], end):
        signal.setitimer(signal.ITIMER_REAL, seconds)
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)


def _tails(connect: Callable[[], Client], number: int, sizes: Sizes) -> list[Tail]:
    with connect() as client:
        job = client.job(number)
    where = Path(job["cwd"])
    tails = [Tail(where / job["output"], STDOUT, sizes.output)]
    if job["error"] and job["error"] != job["output"]:
        tails.append(Tail(where / job["error"], STDERR, sizes.error))
    return tails


def _wait(
    connect: Callable[[], Client],
    number: int,
    tails: list[Tail],
    noted: Callable[[], None] = lambda: None,
) -> JobInfo:
    def attend() -> None:
        for tail in tails:
            tail.copy()
        noted()

    ended = wait_patiently(connect, number, attend)
    for tail in tails:
        tail.copy_rest()
    return ended
