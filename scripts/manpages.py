"""Writes the manual pages into docs/man, from the definitions that ``--help`` prints.

Each command has a page: ``cosched.1``, ``cosched-NAME.1`` with one section for each command
of a group, ``cosched-run.1``, and pages of section 8 for the daemons. ``--check`` writes
nothing and fails if a page is out of date.
"""

from __future__ import annotations

import argparse
import inspect
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import click

from cosched.cli.commands import COMMANDS, SECTIONS, cosched
from cosched.cli.run.command import Run
from daemons import agent, controller, scheduler, timer

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / "docs/man"

ENVIRONMENT = {
    "COSCHED_RUN_DIR": "The run directory, in place of the usual one.",
    "COSCHED_NODE": "This node's name, in place of the host name.",
}
FILES = {
    "/run/cosched": "Root's run directory: for each node its sockets, locks and log.",
    "/tmp/cosched-UID": "The same for the daemons of another user.",
    "/dev/shm/cosched-*": "The shared memory of daemons and tasks.",
}
EXIT_STATUS = {
    "0": "Success.",
    "1": "Failure; one line on stderr says why.",
    "2": "The command line was wrong.",
    "130": "It was interrupted.",
}
RUN_STATUS = {
    "the launcher's": "The job was started.",
    "1": "The job could not be started; one line on stderr says why.",
    "2": "The command line was wrong.",
}

Records = Sequence[tuple[str, str]]


def pages() -> Iterator[tuple[str, str]]:
    """Yields the name and the text of each page."""
    top = click.Context(cosched, info_name="cosched", show_default=True)
    see = [f"cosched-{name}(1)" for name in COMMANDS]
    yield "cosched.1", _main_page(top, [*see, "cosched-run(1)", "coschedd(8)"])
    for name, (_, _, line) in COMMANDS.items():
        command = cosched.get_command(top, name)
        assert command is not None
        yield f"cosched-{name}.1", _command_page(command, top, name, line)
    run = click.Context(Run.click_command, info_name="cosched-run")
    yield (
        "cosched-run.1",
        _page(
            "cosched-run",
            1,
            "start an MPI job that takes part in coscheduling",
            _body(run),
            RUN_STATUS,
            ["cosched(1)", "coschedd(8)"],
        ),
    )
    daemons = {
        scheduler.parser(): ("the scheduler daemon of a node", "cosched-up"),
        timer.parser(): ("the timer daemon of a node", "cosched-up"),
        controller.parser(): ("the controller of a domain", "cosched-cluster"),
        agent.parser(): ("the agent of a domain's node", "cosched-cluster"),
    }
    for parser, (line, starter) in daemons.items():
        others = [f"{other.prog}(8)" for other in daemons if other is not parser]
        see = ["cosched(1)", f"{starter}(1)", *others]
        yield f"{parser.prog}.8", _daemon_page(parser, line, see)


def _main_page(ctx: click.Context, see: Sequence[str]) -> str:
    body = [*_body(ctx), ".SH COMMANDS"]
    for heading, entries in SECTIONS.items():
        body.append(f".SS {heading}")
        for name, (_, _, line) in entries.items():
            body += [".TP", f"\\fBcosched {_escape(name)}\\fR", _escape(line)]
    name = "coscheduling of MPI jobs that share nodes"
    return _page("cosched", 1, name, body, EXIT_STATUS, see)


def _command_page(command: click.Command, top: click.Context, name: str, line: str) -> str:
    ctx = click.Context(command, info_name=name, parent=top)
    body = _body(ctx)
    for words, child in _descendants(command, ctx):
        body += [f".SH {_escape(words.upper())}", *_usage(child)]
        body += _prose(child.command.help or "")
        body += _records(_options(child))
    return _page(
        f"cosched-{name}",
        1,
        _lower(line),
        body,
        EXIT_STATUS,
        ["cosched(1)", "cosched-run(1)"],
    )


def _descendants(
    command: click.Command, ctx: click.Context
) -> Iterator[tuple[str, click.Context]]:
    """Yields the commands of a group, nested ones included, with their full names."""
    if not isinstance(command, click.Group):
        return
    for name in command.list_commands(ctx):
        child = command.get_command(ctx, name)
        assert child is not None
        below = click.Context(child, info_name=name, parent=ctx)
        yield below.command_path.removeprefix("cosched "), below
        yield from _descendants(child, below)


def _daemon_page(parser: argparse.ArgumentParser, line: str, see: Sequence[str]) -> str:
    body = [".SH SYNOPSIS", f"\\fB{_escape(parser.prog)}\\fR [\\fIOPTIONS\\fR]"]
    body += [".SH DESCRIPTION", *_prose(parser.description or ""), ".SH OPTIONS"]
    formatter = argparse.HelpFormatter(parser.prog)
    for action in parser._actions:
        value = "" if action.nargs == 0 else f" {action.metavar or action.dest.upper()}"
        name = ", ".join(action.option_strings) + value
        words = formatter._expand_help(action) if action.help else ""
        body += _records([(name, words)])
    return _page(parser.prog, 8, line, body, EXIT_STATUS, see)


def _page(
    name: str,
    section: int,
    line: str,
    body: list[str],
    status: dict[str, str],
    see: Sequence[str],
) -> str:
    title = name.upper().replace("-", r"\-")
    lines = [
        r".\" Made by scripts/dev man from the command itself; do not edit.",
        f'.TH {title} {section} "" cosched "cosched manual"',
        ".nh",
        ".SH NAME",
        f"{_escape(name)} \\- {_escape(line.rstrip('.'))}",
        *body,
        ".SH EXIT STATUS",
        *_records(list(status.items())),
        ".SH ENVIRONMENT",
        *_records(list(ENVIRONMENT.items())),
        ".SH FILES",
        *_records(list(FILES.items())),
        ".SH SEE ALSO",
        ",\n".join(rf"\fB{_escape(page[:-3])}\fR{page[-3:]}" for page in see),
    ]
    return "\n".join(lines) + "\n"


def _body(ctx: click.Context) -> list[str]:
    """Synopsis, description and options of a command."""
    command = ctx.command
    body = [".SH SYNOPSIS", *_usage(ctx), ".SH DESCRIPTION", *_prose(command.help or "")]
    body += [".SH OPTIONS", *_records(_options(ctx))]
    if command.epilog:
        body += [".SH NOTES", *_prose(command.epilog)]
    return body


def _usage(ctx: click.Context) -> list[str]:
    pieces = " ".join(ctx.command.collect_usage_pieces(ctx))
    return [f"\\fB{_escape(ctx.command_path)}\\fR {_escape(pieces)}"]


def _options(ctx: click.Context) -> Records:
    """Returns the options. The description has the arguments, which have no help."""
    found = (parameter.get_help_record(ctx) for parameter in ctx.command.get_params(ctx))
    return [record for record in found if record is not None and record[1]]


def _prose(text: str) -> list[str]:
    """Formats paragraphs. Click's mark keeps the lines of a paragraph; a kept paragraph
    that begins with "Example" gets a heading."""
    lines: list[str] = []
    for paragraph in re.split(r"\n\s*\n", inspect.cleandoc(text)):
        if paragraph.startswith("\b"):
            lines += _as_written(paragraph.removeprefix("\b").strip("\n"))
        else:
            lines += [".PP", *(_line(line.strip()) for line in paragraph.splitlines())]
    return lines[1:] if lines[:1] == [".PP"] else lines


def _as_written(block: str) -> list[str]:
    first, _, rest = block.partition("\n")
    if not first.startswith("Example"):
        return [".PP", ".nf", *(_line(line) for line in block.splitlines()), ".fi"]
    shown = inspect.cleandoc(rest).splitlines()
    return [".SS Examples", ".nf", *(_line(line) for line in shown), ".fi"]


def _records(records: Records) -> list[str]:
    lines = []
    for name, words in records:
        lines += [".TP", f"\\fB{_escape(name)}\\fR", _line(" ".join(words.split()))]
    return lines


def _lower(line: str) -> str:
    return line[:1].lower() + line[1:]


def _line(text: str) -> str:
    """Formats a line of text; escapes a beginning that troff would read as a request."""
    text = _escape(text)
    return rf"\&{text}" if text[:1] in (".", "'") else text


def _escape(text: str) -> str:
    return text.replace("\\", r"\e").replace("-", r"\-")


def main() -> None:
    """``manpages.py [--check]``."""
    parser = argparse.ArgumentParser(prog="scripts/dev man", description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing, only compare")
    check = parser.parse_args().check
    wanted = dict(pages())
    there = {path.name: path.read_text() for path in FOLDER.glob("*.[18]")}
    stale = sorted(name for name in wanted | there if wanted.get(name) != there.get(name))
    if check and stale:
        sys.exit(f"out of date: {', '.join(stale)}; run scripts/dev man")
    for name in stale:
        if name in wanted:
            (FOLDER / name).write_text(wanted[name])
        else:
            (FOLDER / name).unlink()
        print(f"docs/man/{name}")


if __name__ == "__main__":
    main()
