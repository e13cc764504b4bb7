"""Runs a program of ours: every expected error becomes one line and an exit status."""

from __future__ import annotations

import errno
import gc
import os
import signal
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from cosched.cli.printing import printable_output
from cosched.core.errors import CoschedError
from cosched.start.streams import Unread, begin

if TYPE_CHECKING:
    import click

EXIT_FAILURE = 1
EXIT_USAGE = 2
#: And the number of a signal: as a shell reports a program that it has ended.
SIGNALLED = 128
#: As a shell reports a program that SIGPIPE has ended.
EXIT_UNREAD = 141
#: Python looks for garbage after so many new objects. A usual command makes fewer; among
#: Python's usual 700 a tenth of its time goes by.
_NEW_OBJECTS = 50_000
#: Errors of a disk, which any file can have. Others would be a mistake in cosched, but for
#: those about rights: the user may have named a file of another user.
_DISK_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO)


def run_cli(command: click.Command, arguments: Sequence[str]) -> int:
    """Runs a click command and returns the exit status."""
    return run_program(str(command.name), lambda: run_click(command, arguments))


def run_program(name: str, work: Callable[[], object]) -> int:
    """Prepares the process, does the work and returns the exit status."""
    begin()
    gc.set_threshold(_NEW_OBJECTS)
    if completes_a_line():
        from cosched.cli.tools.completion import register

        register()
    with printable_output():
        status = _status_of(name, work)
        return _status_of(name, sys.stdout.flush) or status


def completes_a_line() -> bool:
    """Returns whether a shell completes a command line, and runs nothing."""
    return any(name.startswith("_COSCHED") for name in os.environ)


def run_click(command: click.Command, arguments: Sequence[str]) -> object:
    """Runs a click command; returns its value. Raises click's errors."""
    return command.main(args=list(arguments), prog_name=command.name, standalone_mode=False)


def _status_of(program: str, work: Callable[[], object]) -> int:
    """Does the work; returns the status that it returns, 0 for any other value. An error
    becomes one line and a status."""
    try:
        result = work()
    except Unread:
        return EXIT_UNREAD
    except CoschedError as error:
        print(f"{program}: {error}", file=sys.stderr)
        return EXIT_FAILURE
    except KeyboardInterrupt as error:
        return _interrupted(program, *error.args)
    except Exception as error:  # noqa: BLE001  (it becomes one line)
        status = _status_of_click(program, error)
        if status is not None:
            return status
        if isinstance(error, OSError) and error.errno in _DISK_ERRORS:
            where = "cannot write" if error.filename is None else error.filename
            print(f"{program}: {where}: {error.strerror}", file=sys.stderr)
        elif isinstance(error, PermissionError) and error.filename is not None:
            print(f"{program}: {error.filename}: {error.strerror}", file=sys.stderr)
        elif isinstance(error, FileNotFoundError) and _has_no_directory():
            print(f"{program}: the working directory is gone; change it", file=sys.stderr)
        else:
            from cosched.cli.unexpected import report_unexpected

            report_unexpected(program, error)
        return EXIT_FAILURE
    return result if isinstance(result, int) else 0


def _interrupted(program: str, number: int = signal.SIGINT) -> int:
    print(f"{program}: interrupted", file=sys.stderr)
    return SIGNALLED + number


def _status_of_click(program: str, error: Exception) -> int | None:
    """Reports an error of click; returns None for any other."""
    if "click" not in sys.modules:
        return None
    import click

    if isinstance(error, click.UsageError):
        where = error.ctx.command_path if error.ctx else program
        message = error.format_message().replace("\n", " ")
        message += "" if message.endswith((".", "?", "?)")) else "."
        print(f"{where}: {message} See {where} --help.", file=sys.stderr)
        return EXIT_USAGE
    if isinstance(error, click.ClickException):
        print(f"{program}: {error.format_message()}", file=sys.stderr)
        return EXIT_FAILURE
    if isinstance(error, click.Abort):
        cause = error.__cause__
        signalled = cause.args if isinstance(cause, KeyboardInterrupt) else ()
        return _interrupted(program, *signalled)
    return None


def _has_no_directory() -> bool:
    """Returns whether the working directory was removed: relative paths lead nowhere."""
    try:
        os.getcwd()
    except FileNotFoundError:
        return True
    return False
