"""Runs a member of a domain until a signal ends it. Its lines go to stderr, with times."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import signal
import sys
import time
from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path
from typing import Any

from cosched.core.complaints import Complaints, fault
from cosched.core.decoding import printable
from cosched.core.errors import CoschedError, StateLost
from cosched.linux.descriptors import raise_descriptor_limit
from cosched.linux.priority import raise_member_priority
from cosched.rundir.lock import DaemonLock

Log = Callable[[str], None]
Ready = Callable[[], None]

#: A program that waits for the member reads this line on its stdout.
READY = "ready"
#: The most characters of a line of the log.
_LINE_MOST = 4096
#: Why this process cannot accept a connection now. asyncio tries again after a second.
_NO_ROOM = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


#: Returns the work of a member.
Make = Callable[[Ready, Log], Coroutine[Any, Any, None]]


def run_member(make: Make, lock_file: Path, busy: str) -> None:
    """Runs what ``make`` returns until SIGTERM or SIGINT. Raises what it raises; StateLost
    becomes CoschedError, the one line with which the process ends.

    lock_file: locked meanwhile. Raises CoschedError with ``busy`` if another process holds
    it."""
    lock = DaemonLock(lock_file)
    if not lock.acquire():
        raise CoschedError(busy)
    raise_descriptor_limit()
    raise_member_priority()
    try:
        asyncio.run(_until_signal(make))
    except StateLost as error:
        raise CoschedError(str(error)) from error
    finally:
        lock.release()


async def _until_signal(make: Make) -> None:
    loop = asyncio.get_running_loop()
    work = loop.create_task(make(_say_ready, log_line))
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, work.cancel)
    try:
        await work
    except asyncio.CancelledError:
        log_line("ended by a signal")


def first_error(log: Log) -> asyncio.Future[None]:
    """Returns a future that fails with the first error that nothing else takes: that of a
    timer or of a task that is not awaited, and ``StateLost`` of a request. None of them
    has a sender, so the process's own state is wrong.

    log: takes a line while connections wait for a free descriptor, and about an error of
    one connection, which asyncio closes. Neither is such an error.
    """
    loop = asyncio.get_running_loop()
    failed: asyncio.Future[None] = loop.create_future()
    complaints = Complaints(log, time.monotonic_ns)

    def fail(_loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if "socket" in context and isinstance(error, OSError) and error.errno in _NO_ROOM:
            complaints.about(None, "accepts no connections now", str(error.strerror))
        elif "transport" in context and not isinstance(error, StateLost):
            detail = context["message"] if error is None else fault(error)
            complaints.about(None, "a connection is closed", detail)
        elif not failed.done():
            message = RuntimeError(context["message"])
            failed.set_exception(error if isinstance(error, Exception) else message)

    loop.set_exception_handler(fail)
    return failed


async def until_one_ends(*works: Awaitable[Any]) -> None:
    """Runs works side by side until one ends; ends the others then. Raises the error of the
    first."""
    tasks = [asyncio.ensure_future(work) for work in works]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            await task
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


class SideTasks:
    """Tasks beside a member's own work. on_error: takes the error of each that fails."""

    def __init__(self, on_error: Callable[[BaseException], None]) -> None:
        self.running: set[asyncio.Task[None]] = set()
        self._on_error = on_error

    def start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Runs a work from now on; returns its task."""
        task = asyncio.get_running_loop().create_task(work)
        self.running.add(task)
        task.add_done_callback(self._finished)
        return task

    def cancel(self) -> set[asyncio.Task[None]]:
        """Cancels all tasks; returns them."""
        for task in self.running:
            task.cancel()
        return set(self.running)

    def _finished(self, task: asyncio.Task[None]) -> None:
        self.running.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None:
            self._on_error(error)


def _say_ready() -> None:
    print(READY, flush=True)


def log_line(line: str) -> None:
    """Writes a line with the time to stderr. One that a full disk does not take is lost:
    it must not end the member."""
    shown = printable(line)[:_LINE_MOST]
    with contextlib.suppress(OSError):
        print(f"{time.strftime('%F %T')} {shown}", file=sys.stderr, flush=True)
