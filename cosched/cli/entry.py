"""Runs a program of ours: every expected error becomes one line and an exit status."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Sequence

import click

from cosched.cli.printing import printable_output
from cosched.core.errors import CoschedError

EXIT_FAILURE = 1
EXIT_USAGE = 2
EXIT_INTERRUPTED = 130
#: Errors of a disk, which any file can have. Others would be a mistake in cosched.
_DISK_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO)


def run_cli(command: click.Command, arguments: Sequence[str]) -> int:
    """Runs a click command and returns the exit status."""
    with printable_output():
        return _run(command, arguments)


def _run(command: click.Command, arguments: Sequence[str]) -> int:
    if any(name.startswith("_COSCHED") for name in os.environ):  # a shell completes a line
        from cosched.cli.tools.completion import register

        register()
    try:
        result = command.main(
            args=list(arguments), prog_name=command.name, standalone_mode=False
        )
    except CoschedError as error:
        print(f"{command.name}: {error}", file=sys.stderr)
        return EXIT_FAILURE
    except click.UsageError as error:
        where = error.ctx.command_path if error.ctx else command.name
        message = error.format_message().replace("\n", " ")
        print(f"{where}: {message} See {where} --help.", file=sys.stderr)
        return EXIT_USAGE
    except click.ClickException as error:
        print(f"{command.name}: {error.format_message()}", file=sys.stderr)
        return EXIT_FAILURE
    except (click.Abort, KeyboardInterrupt):
        print(f"{command.name}: interrupted", file=sys.stderr)
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        # The reader of stdout has ended (cosched status | head).
        _drop_output()
        return EXIT_FAILURE
    except OSError as error:
        if error.errno not in _DISK_ERRORS:
            raise
        _drop_output()
        where = "cannot write" if error.filename is None else error.filename
        print(f"{command.name}: {where}: {error.strerror}", file=sys.stderr)
        return EXIT_FAILURE
    return result if isinstance(result, int) else 0


def _drop_output() -> None:
    """Lets the rest of stdout go nowhere: its end cannot be written."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
