"""Runs a member of a domain until a signal ends it. Its lines go to stderr, with times."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
import time
from collections.abc import Callable, Coroutine
from typing import Any

from cosched.linux.descriptors import raise_descriptor_limit

Log = Callable[[str], None]
Ready = Callable[[], None]

#: A program that waits for the member reads this line on its stdout.
READY = "ready"


def run_member(make: Callable[[Ready, Log], Coroutine[Any, Any, None]]) -> None:
    """Runs what ``make`` returns until SIGTERM or SIGINT. Raises what it raises."""
    raise_descriptor_limit()
    asyncio.run(_until_signal(make))


async def _until_signal(make: Callable[[Ready, Log], Coroutine[Any, Any, None]]) -> None:
    loop = asyncio.get_running_loop()
    work = loop.create_task(make(_say_ready, log_line))
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, work.cancel)
    try:
        await work
    except asyncio.CancelledError:
        log_line("ended by a signal")


def first_error() -> asyncio.Future[None]:
    """Returns a future that fails with the first error that nothing else takes: that of a
    timer, of a connection or of a task that is not awaited."""
    loop = asyncio.get_running_loop()
    failed: asyncio.Future[None] = loop.create_future()

    def fail(_loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if not failed.done():
            message = RuntimeError(context["message"])
            failed.set_exception(error if isinstance(error, Exception) else message)

    loop.set_exception_handler(fail)
    return failed


def _say_ready() -> None:
    print(READY, flush=True)


def log_line(line: str) -> None:
    """Writes a line with the time to stderr. One that a full disk does not take is lost:
    it must not end the member."""
    with contextlib.suppress(OSError):
        print(f"{time.strftime('%F %T')} {line}", file=sys.stderr, flush=True)
