"""What all commands share: how errors look and how the common options are read."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click
from click.shell_completion import CompletionItem

from cosched.core.errors import CoschedError
from cosched.shm.userdirs import own_run_dir, run_dir_to_ask

F = TypeVar("F", bound=Callable[..., Any])

EXIT_FAILURE = 1
EXIT_USAGE = 2
EXIT_INTERRUPTED = 130


def run_cli(command: click.Command, arguments: Sequence[str]) -> int:
    """Runs a click command; every expected error becomes one line on stderr.

    Returns the exit status.
    """
    if any(name.startswith("_COSCHED") for name in os.environ):  # a shell asks for words
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
        # The reader left (cosched status | head); nothing more can be said.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_FAILURE
    return result if isinstance(result, int) else 0


def complete_paths(
    ctx: click.Context, parameter: click.Parameter, begun: str
) -> list[CompletionItem]:
    """What a shell offers for a word that is a path: its own list of files."""
    return [CompletionItem(begun, type="file")]


def run_dir_option(function: F) -> F:
    """``--run-dir`` for what starts and ends daemons: by default the user's own."""
    return run_dir_option_with(
        lambda: own_run_dir(os.environ, os.geteuid()),
        "/run/cosched, or /tmp/cosched-UID",
    )(function)


def asked_run_dir_option(function: F) -> F:
    """``--run-dir`` for what asks daemons: by default where those are that serve him."""
    return run_dir_option_with(
        lambda: run_dir_to_ask(os.environ, os.geteuid()),
        "/tmp/cosched-UID where daemons of yours are up, else /run/cosched",
    )(function)


def run_dir_option_with(usual: Callable[[], Path], shown: str) -> Callable[[F], F]:
    """``--run-dir`` with another default; ``shown`` is what --help says of it."""

    def or_usual(_: click.Context, __: click.Parameter, given: Path | None) -> Path:
        return usual() if given is None else given

    return click.option(
        "--run-dir",
        type=click.Path(path_type=Path, resolve_path=True),
        callback=or_usual,
        help=f"Where the daemons' sockets are.  [default: {shown}]",
    )


def nodes_option(function: F) -> F:
    """``--node``, some of the run directory's nodes; by default all that are up."""
    return click.option(
        "--node", "nodes", multiple=True, help="Only this node (may be repeated)."
    )(function)


def json_option(function: F) -> F:
    """``--json``: one JSON object on stdout instead of text."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON.")(function)


def json_file_option(
    help: str = "Also write all figures to FILE ('-': to stdout, instead of the table).",
) -> Callable[[F], F]:
    """``--json FILE``: for commands whose text stays, or that have much to tell."""
    return click.option(
        "--json",
        "json_file",
        type=click.Path(dir_okay=False, writable=True, allow_dash=True, path_type=Path),
        metavar="FILE",
        help=help,
    )


def lab_nodes_option(function: F) -> F:
    """``--nodes``, how many of a lab, for commands that run a workload."""
    return click.option(
        "--nodes",
        type=click.IntRange(1),
        default=2,
        show_default=True,
        help="Virtual nodes: the lab that is up, or else a private one.",
    )(function)
