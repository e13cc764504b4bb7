"""Defines the options that several commands share: names, parsing and completion."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click
from click.shell_completion import CompletionItem

from cosched.core.errors import CoschedError
from cosched.core.units import NS_PER_S, parse_bytes, parse_duration
from cosched.launch.given.hosts import parse_hosts
from cosched.linux.files.owners import refuse_foreign, without_links
from cosched.shm.userdirs import domain_dir_to_ask, own_run_dir, run_dir_to_ask

F = TypeVar("F", bound=Callable[..., Any])

_OUT = click.Path(dir_okay=False, writable=True, allow_dash=True, path_type=Path)


def add_options(options: Sequence[Callable[[F], F]], function: F) -> F:
    """Gives a command options, which --help shows in this order."""
    for option in reversed(options):
        function = option(function)
    return function


# -- daemons and nodes ---------------------------------------------------------------------


def run_dir_option(function: F) -> F:
    """``--run-dir`` for commands that start daemons: by default the user's own. Root's is
    one that no other user can change."""
    return _own_run_dir_option(refuse_foreign)(function)


def any_run_dir_option(function: F) -> F:
    """``--run-dir`` for commands that end daemons or read their files; root also gives one
    of another user."""
    return _own_run_dir_option(lambda _: None)(function)


def _own_run_dir_option(check: Callable[[Path], object]) -> Callable[[F], F]:
    def checked(run_dir: Path) -> Path:
        check(run_dir)
        return run_dir

    return _run_dir_option(
        lambda: own_run_dir(os.environ, os.geteuid()),
        "/run/cosched, or /tmp/cosched-UID",
        checked,
    )


def asked_run_dir_option(function: F) -> F:
    """``--run-dir`` for commands that ask daemons: by default those that serve the user."""
    return run_dir_option_with(
        lambda: run_dir_to_ask(os.environ, os.geteuid()),
        "/tmp/cosched-UID where daemons of yours are up, else /run/cosched",
    )(function)


def domain_dir_option(function: F) -> F:
    """``--run-dir`` for commands about jobs of a domain: by default the domain that serves
    the user."""
    return run_dir_option_with(
        lambda: domain_dir_to_ask(os.environ, os.geteuid()),
        "/tmp/cosched-UID where a domain of yours is up, else /run/cosched",
    )(function)


def run_dir_option_with(usual: Callable[[], Path], shown: str) -> Callable[[F], F]:
    """``--run-dir`` with another default, which --help describes as ``shown``."""
    return _run_dir_option(usual, shown, lambda run_dir: run_dir)


def _run_dir_option(
    usual: Callable[[], Path], shown: str, checked: Callable[[Path], Path]
) -> Callable[[F], F]:
    def or_usual(_: click.Context, __: click.Parameter, given: Path | None) -> Path:
        if given is None:
            return checked(usual().absolute())
        # Daemons have another working directory.
        return checked(without_links(given.absolute()))

    return click.option(
        "--run-dir",
        type=click.Path(path_type=Path),
        callback=or_usual,
        help=f"Where the daemons' sockets are.  [default: {shown}]",
    )


def nodes_option(function: F) -> F:
    """``--node NAME``, repeatable: some of the run directory's nodes; by default all."""

    def named(_: click.Context, __: click.Parameter, given: Sequence[str]) -> Sequence[str]:
        # "." is the node on which the command runs.
        here = os.environ.get("COSCHED_NODE") or os.uname().nodename
        return tuple(here if node == "." else node for node in given)

    return click.option(
        "--node",
        "nodes",
        multiple=True,
        callback=named,
        help="Only this node (may be repeated).",
    )(function)


def lab_nodes_option(function: F) -> F:
    """``--nodes N``: how many nodes of a lab run the workload."""
    return click.option(
        "--nodes",
        type=click.IntRange(1),
        default=2,
        metavar="N",
        help="Virtual nodes: of the lab that is up, or of a private one.",
    )(function)


def hosts_option(help: str = "Run on these nodes instead.") -> Callable[[F], F]:
    """``--hosts A,B`` or ``n[1-4]``: the machines on which the MPI starts ranks."""
    return click.option("--hosts", callback=_hosts, metavar="A,B", help=help)


def _hosts(_: click.Context, __: click.Parameter, value: str | None) -> tuple[str, ...]:
    if value is None:
        return ()
    try:
        return parse_hosts(value).names
    except CoschedError as error:
        raise click.BadParameter(f"{error}.") from None


def shell_words(
    _: click.Context, parameter: click.Parameter, text: str | None
) -> tuple[str, ...]:
    """Reads an option that is a command, split as a shell does."""
    try:
        return tuple(shlex.split(text or ""))
    except ValueError as error:
        raise CoschedError(f"{parameter.opts[0]}: '{text}': {error}") from error


def memory_option(help: str) -> Callable[[F], F]:
    """``--memory SIZE``, as ``memory_bytes``; 0 without it."""

    def in_bytes(_: click.Context, __: click.Parameter, text: str | None) -> int:
        return 0 if text is None else parse_bytes(text, "--memory")

    return click.option(
        "--memory", "memory_bytes", callback=in_bytes, metavar="SIZE", help=help
    )


def set_with_option(function: F) -> F:
    """``--set-with COMMAND``, as words: changes the settings of nodes out of reach."""
    return click.option(
        "--set-with",
        callback=shell_words,
        metavar="COMMAND",
        help="Runs 'cosched config set' on all --hosts that cannot be reached from here.",
    )(function)


def run_limit_option(function: F) -> F:
    """``--run-limit TIME``, in seconds: how long a run may take; infinite by default."""

    def seconds(_: click.Context, __: click.Parameter, value: str | None) -> float:
        if value is None:
            return float("inf")
        return parse_duration(value, "--run-limit") / NS_PER_S

    return click.option(
        "--run-limit",
        callback=seconds,
        metavar="TIME",
        help="A run that lasts longer has failed.",
    )(function)


def parallel_option(function: F) -> F:
    """``--parallel N``: how many simulations run at a time; by default one a CPU."""

    def or_cpus(_: click.Context, __: click.Parameter, value: int | None) -> int:
        return value or len(os.sched_getaffinity(0))

    return click.option(
        "--parallel",
        "at_a_time",
        type=click.IntRange(1),
        callback=or_cpus,
        metavar="N",
        help="Simulations at a time.  [default: one for each CPU]",
    )(function)


# -- output --------------------------------------------------------------------------------


def json_option(function: F) -> F:
    """``--json``: one JSON object on stdout instead of text."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON.")(function)


def json_file_option(
    help: str = "Also write all figures to FILE, as JSON ('-': as --json).",
) -> Callable[[F], F]:
    """``--json`` and ``--out FILE`` as one parameter ``json_file``; ``-`` is stdout."""

    def out(ctx: click.Context, _: click.Parameter, value: Path | None) -> Path | None:
        if not ctx.meta[_AS_JSON]:
            return value
        if value is not None:
            raise click.UsageError("--json and --out cannot be combined.", ctx)
        return Path("-")

    def remember(ctx: click.Context, _: click.Parameter, value: bool) -> None:
        ctx.meta[_AS_JSON] = value

    def decorate(function: F) -> F:
        function = click.option(
            "--out", "json_file", type=_OUT, callback=out, metavar="FILE", help=help
        )(function)
        return click.option(
            "--json",
            is_flag=True,
            is_eager=True,  # read before --out
            expose_value=False,
            callback=remember,
            help="Print JSON instead of text.",
        )(function)

    return decorate


_AS_JSON = "cosched.as_json"


# -- words that a shell completes ----------------------------------------------------------


def choose(known: Sequence[str]) -> Callable[..., tuple[str, ...]]:
    """Returns a callback that reads known names with commas between them."""

    def read(ctx: click.Context, param: click.Parameter, value: str) -> tuple[str, ...]:
        names = tuple(name.strip() for name in value.split(","))
        for name in names:
            if name not in known:
                raise click.BadParameter(f"'{name}' is none of {', '.join(known)}.")
        return tuple(dict.fromkeys(names))

    return read


def complete_paths(
    ctx: click.Context, parameter: click.Parameter, begun: str
) -> list[CompletionItem]:
    """Offers the shell's own list of files."""
    return [CompletionItem(begun, type="file")]


def program_argument(function: F) -> F:
    """The program of a job and its arguments, as ``argv``."""
    return click.argument(
        "argv",
        nargs=-1,
        type=click.UNPROCESSED,
        metavar="PROGRAM [ARGS]...",
        shell_complete=complete_paths,
    )(function)


def complete_jobs(
    ctx: click.Context, _param: click.Parameter, begun: str
) -> list[CompletionItem]:
    """Offers the jobs that run or wait in the run directory of the command line, or in
    the usual one; none where its daemons do not answer."""
    from cosched.observe.status import gather

    try:
        run_dir = ctx.params.get("run_dir") or run_dir_to_ask(os.environ, os.geteuid())
        statuses = gather(Path(run_dir))
    except CoschedError:
        return []  # a shell cannot show the reason; the command itself prints it
    names = {
        job["name"]
        for status in statuses
        for part in ("jobs", "waiting")
        for job in status[part]
    }
    return [CompletionItem(name) for name in sorted(names) if name.startswith(begun)]


def complete_domain_jobs(
    ctx: click.Context, _param: click.Parameter, begun: str
) -> list[CompletionItem]:
    """Offers the numbers of the domain's jobs that have not ended, with their names; none
    where no domain answers."""
    from cosched.cli.connection import AT_THE_PROMPT
    from cosched.jobs.client import Client

    try:
        run_dir = ctx.params.get("run_dir")
        with Client.connect(run_dir, patience=AT_THE_PROMPT) as client:
            jobs = client.queue()
    except CoschedError:
        return []
    return [
        CompletionItem(str(job["job"]), help=job["name"])
        for job in jobs
        if str(job["job"]).startswith(begun)
    ]
