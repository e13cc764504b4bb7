"""``cosched dashboard``: shows nodes, jobs and the queue in the browser, live."""

from __future__ import annotations

import os
import socket
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import click

from cosched.cli.declared import Command, command, flag, option
from cosched.cli.options import any_given_run_dir_option, json_option
from cosched.cli.values import Number, Whole
from cosched.dashboard.server import LOOPBACK, can_open, listen, new_token, opened, serve
from cosched.linux.homes import state_directory
from cosched.rundir.directories import run_dir_to_ask

if TYPE_CHECKING:
    from cosched.dashboard.watcher import Watcher

#: The bounds of the time between two looks at the nodes, in seconds.
INTERVAL_LEAST_S = 0.5
INTERVAL_MOST_S = 60.0


@command("dashboard")
class Dashboard(Command):
    """Show nodes, jobs and the queue in the browser, live.

    The page changes nothing. It has a timeline of each node and of each job, the queue with
    reasons and expected starts, and the health of the daemons. A click on a job explains
    it, as cosched why does. The command prints the address of the page and serves it until
    Ctrl-C. Only you have the address: it contains a secret. The page shows what you may
    see by cosched top and cosched queue.

    On another machine, take its port along, and open the address on yours. With -t it ends
    with the connection:

    \b
      ssh -t -L 8800:localhost:8800 HOST cosched dashboard --port 8800

    \b
    Examples:
      cosched dashboard
      cosched dashboard --port 8800 --no-open
      cosched dashboard --json
    """

    port: int = option(
        type=Whole(0, 65535),
        default=0,
        show_default="a free one",
        metavar="PORT",
        help="The port on the loopback address.",
    )
    no_open: bool = flag("--no-open", help="Only print the address; open no browser.")
    interval: float = option(
        type=Number(INTERVAL_LEAST_S, INTERVAL_MOST_S),
        default=2.0,
        metavar="SECONDS",
        help="Time between two looks at the nodes, while a page is open.",
    )
    run_dir: Path | None = any_given_run_dir_option()
    as_json: bool = json_option()

    def run(self) -> None:
        if self.as_json:
            self._print_once()
            return
        with listen(self.port) as listening:
            port, token = listening.getsockname()[1], new_token()
            url = f"http://{LOOPBACK}:{port}/{token}/"
            click.echo(url)
            shows = not self.no_open and can_open(os.environ)
            folder = state_directory(os.environ) if shows else None
            if sys.stderr.isatty():
                where = "" if folder else "open it in a browser; "
                click.echo(f"cosched: {where}Ctrl-C ends it", err=True)
            # Ctrl-C is the usual end.
            with suppress(KeyboardInterrupt), opened(url, folder):
                self._serve(listening, token)

    def _serve(self, listening: socket.socket, token: str) -> None:
        from cosched.dashboard.explain import JobExplainer
        from cosched.dashboard.pages import Pages

        watcher = self._watcher()
        explainer = JobExplainer(self._daemons_dir, self.run_dir, os.geteuid())
        serve(listening, Pages(token, watcher.news, explainer.why))
        watcher.watch()

    def _print_once(self) -> None:
        watcher = self._watcher()
        watcher.look()
        time.sleep(self.interval)  # the interval that is measured
        watcher.look()
        click.echo(watcher.news())

    def _watcher(self) -> Watcher:
        from cosched.dashboard.looks import DomainSource, Looker
        from cosched.dashboard.picture import Picture
        from cosched.dashboard.watcher import Watcher
        from cosched.linux.users import named_user

        looker = Looker(self._daemons_dir, DomainSource(self.run_dir))
        return Watcher(looker.look, Picture(named_user), self.interval)

    def _daemons_dir(self) -> Path:
        return self.run_dir or run_dir_to_ask(os.environ, os.geteuid())
