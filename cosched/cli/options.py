"""Declares the options that several commands share: names, parsing and completion."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import click
from click.shell_completion import CompletionItem

from cosched.cli.declared import argument, is_given, option
from cosched.cli.values import COMMAND, RATE, SECONDS, SIZE, Whole
from cosched.core.errors import CoschedError
from cosched.linux.files.owners import refuse_foreign, without_links
from cosched.linux.here import this_node
from cosched.rundir.directories import domain_dir_to_ask, own_run_dir, run_dir_to_ask

#: A file that a command reads.
PATH = click.Path(path_type=Path)
#: A file that a command writes.
FILE = click.Path(dir_okay=False, writable=True, path_type=Path)
#: The same, or ``-`` for stdout.
FILE_OR_STDOUT = click.Path(dir_okay=False, writable=True, allow_dash=True, path_type=Path)


# -- daemons and nodes ---------------------------------------------------------------------


def run_dir_option() -> Any:
    """``--run-dir`` for commands that start daemons: by default the user's own. Root's is
    one that no other user can change."""

    def checked(run_dir: Path) -> Path:
        refuse_foreign(run_dir)
        return run_dir

    return _own_run_dir_option(checked)


def any_run_dir_option() -> Any:
    """``--run-dir`` for commands that end daemons or read their files; root also gives one
    of another user."""
    return _own_run_dir_option(lambda run_dir: run_dir)


def _own_run_dir_option(checked: Callable[[Path], Path]) -> Any:
    return _run_dir_option(
        lambda: own_run_dir(os.environ, os.geteuid()),
        "$COSCHED_RUN_DIR, or /run/cosched for root and /tmp/cosched-UID for others",
        checked,
    )


def asked_run_dir_option() -> Any:
    """``--run-dir`` for commands that ask daemons: by default those that serve the user."""
    return run_dir_option_with(
        lambda: run_dir_to_ask(os.environ, os.geteuid()),
        "$COSCHED_RUN_DIR, or /tmp/cosched-UID where daemons of yours are up, otherwise "
        "/run/cosched",
    )


def domain_dir(run_dir: Path) -> Path | None:
    """Returns where a command with ``asked_run_dir_option`` finds the domain: in the run
    directory of its command line, otherwise None: the domain that serves the user."""
    return run_dir if is_given("run_dir") else None


def domain_dir_option() -> Any:
    """``--run-dir`` for commands about jobs of a domain: by default the domain that serves
    the user."""
    return run_dir_option_with(
        lambda: domain_dir_to_ask(os.environ, os.geteuid()),
        "$COSCHED_RUN_DIR, or /tmp/cosched-UID where a domain of yours is up, otherwise "
        "/run/cosched",
    )


def any_given_run_dir_option() -> Any:
    """``--run-dir`` for commands that ask daemons and the domain; None if it is not given:
    then each is asked where it serves the user."""

    def given(_: click.Context, __: click.Parameter, path: Path | None) -> Path | None:
        return None if path is None else without_links(path.absolute())

    return option(
        "--run-dir",
        type=PATH,
        callback=given,
        help="Where the daemons' sockets are.  [default: $COSCHED_RUN_DIR, or "
        "/tmp/cosched-UID where daemons or a domain of yours are up, otherwise "
        "/run/cosched]",
    )


def run_dir_option_with(usual: Callable[[], Path], shown: str) -> Any:
    """``--run-dir`` with another default, which --help describes as ``shown``."""
    return _run_dir_option(usual, shown, lambda run_dir: run_dir)


def _run_dir_option(
    usual: Callable[[], Path], shown: str, checked: Callable[[Path], Path]
) -> Any:
    def or_usual(_: click.Context, __: click.Parameter, given: Path | None) -> Path:
        if given is None:
            return checked(usual().absolute())
        # Daemons have another working directory.
        return checked(without_links(given.absolute()))

    return option(
        "--run-dir",
        type=PATH,
        callback=or_usual,
        help=f"Where the daemons' sockets are.  [default: {shown}]",
    )


def nodes_option() -> Any:
    """``--node NAME``, repeatable: some of the run directory's nodes; by default all."""

    def named(_: click.Context, __: click.Parameter, given: Sequence[str]) -> Sequence[str]:
        # "." is the node on which the command runs.
        return tuple(this_node(os.environ) if node == "." else node for node in given)

    return option(
        "--node", multiple=True, callback=named, help="Only this node (may be repeated)."
    )


def this_node_option() -> Any:
    """``--node NAME``: the node whose daemons start or stop; by default this host."""
    return option(
        "--node",
        default=lambda: os.uname().nodename,
        show_default="this host",
        help="The node's name.",
    )


def rate_option() -> Any:
    """``--rate RATE``: the rate of each link of a lab, in bits a second."""
    return option(type=RATE, help="The rate of each link, such as 1gbit.")


def mpi_option(help: str = "As for cosched-run.") -> Any:
    """``--mpi MPI``."""
    return option("--mpi", metavar="MPI", help=help)


def memory_option(help: str) -> Any:
    """``--memory SIZE``, in bytes; 0 without it."""
    return option("--memory", type=SIZE, default=0, show_default=False, help=help)


def set_with_option() -> Any:
    """``--set-with COMMAND``, as words: changes the settings of nodes out of reach."""
    return option(
        "--set-with",
        type=COMMAND,
        default=(),
        help="Runs 'cosched config set' on all --hosts that cannot be reached from here.",
    )


def run_limit_option() -> Any:
    """``--run-limit TIME``, in seconds: how long a run may take; infinite by default."""
    return option(
        "--run-limit",
        type=SECONDS,
        show_default=False,
        help="A run that lasts longer has failed.",
    )


def parallel_option() -> Any:
    """``--parallel N``: how many simulations run at a time; by default one a CPU."""
    return option(
        "--parallel",
        type=Whole(1),
        default=lambda: len(os.sched_getaffinity(0)),
        show_default=False,
        metavar="N",
        help="Simulations at a time.  [default: one for each CPU]",
    )


def minimum_option() -> Any:
    """``--min N``: the job is malleable; not given by default."""
    return option(
        "--min",
        type=Whole(min=1),
        metavar="N",
        help="The job is malleable, and runs on N nodes or more.",
    )


def ideal_option() -> Any:
    """``--ideal N``, beside ``--min``."""
    return option(
        "--ideal",
        type=Whole(min=1),
        metavar="N",
        help="The most nodes of a malleable job.  [default: all of the domain]",
    )


def preferred_option() -> Any:
    """``--preferred N``, beside ``--min``."""
    return option(
        "--preferred",
        type=Whole(min=1),
        metavar="N",
        help="A malleable job has more than N nodes only while no job waits."
        "  [default: its ideal]",
    )


def check_sizes(
    minimum: int, ideal: int, rigid: Mapping[str, object], preferred: int = 0
) -> None:
    """Raises UsageError for sizes of a job that do not combine. 0: not given. rigid: the
    values of options that need a fixed number of nodes."""
    if not minimum and not ideal and not preferred:
        return
    if not minimum:
        raise click.UsageError(f"{'--ideal' if ideal else '--preferred'} needs --min.")
    if 0 < ideal < minimum:
        raise click.UsageError(f"--min {minimum} is above --ideal {ideal}.")
    if 0 < preferred < minimum:
        raise click.UsageError(f"--min {minimum} is above --preferred {preferred}.")
    if 0 < ideal < preferred:
        raise click.UsageError(f"--preferred {preferred} is above --ideal {ideal}.")
    given = next((name for name, value in rigid.items() if value), None)
    if given is not None:
        raise click.UsageError(
            f"{given} is not for jobs with --min: their number of nodes changes."
        )


def without(_: click.Context, __: click.Parameter, given: bool) -> bool:
    """Reads a flag that switches something off."""
    return not given


# -- output --------------------------------------------------------------------------------


def json_option() -> Any:
    """``--json``: one JSON object on stdout instead of text."""
    return option("--json", is_flag=True, help="Print JSON.")


def json_file_option(
    help: str = "Also write all figures to FILE, as JSON ('-': as --json).",
) -> Any:
    """``--json`` and ``--out FILE`` as one path; ``-`` is stdout."""

    def out(ctx: click.Context, _: click.Parameter, value: Path | None) -> Path | None:
        if not ctx.meta[_AS_JSON]:
            return value
        if value is not None:
            raise click.UsageError("--json and --out cannot be combined.", ctx)
        return Path("-")

    def remember(ctx: click.Context, _: click.Parameter, value: bool) -> None:
        ctx.meta[_AS_JSON] = value

    as_json = click.option(
        "--json",
        is_flag=True,
        is_eager=True,  # read before --out
        expose_value=False,
        callback=remember,
        help="Print JSON instead of text.",
    )
    return option(
        "--out",
        type=FILE_OR_STDOUT,
        callback=out,
        metavar="FILE",
        help=help,
        before=(as_json,),
    )


_AS_JSON = "cosched.as_json"


# -- words that a shell completes ----------------------------------------------------------


def complete_paths(
    ctx: click.Context, parameter: click.Parameter, begun: str
) -> list[CompletionItem]:
    """Offers the shell's own list of files."""
    return [CompletionItem(begun, type="file")]


def program_argument() -> Any:
    """The program of a job and its arguments."""
    return argument(
        nargs=-1,
        type=click.UNPROCESSED,
        metavar="PROGRAM [ARGS]...",
        shell_complete=complete_paths,
    )


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
    from cosched.cli.connection import AT_THE_PROMPT, connect_to_running
    from cosched.cluster.job_texts import label_of

    try:
        run_dir = ctx.params.get("run_dir")
        with connect_to_running(run_dir, AT_THE_PROMPT) as client:
            jobs = client.queue(folded=True)
    except CoschedError:
        return []
    arrays = {str(job["array"]): job for job in jobs if job["array"] is not None}
    return [
        CompletionItem(number, help=job["name"])
        for number, job in {**arrays, **{label_of(job): job for job in jobs}}.items()
        if number.startswith(begun)
    ]
