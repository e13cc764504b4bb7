"""``cosched cluster backup`` and ``restore``: copies of a domain's files."""

from __future__ import annotations

from pathlib import Path

import click

from cosched.cli.declared import Command, argument, command
from cosched.cli.options import domain_dir_option
from cosched.cli.values import ExistingPath
from cosched.cluster.backup import back_up, restore
from cosched.cluster.paths import DomainPaths


@command("backup")
class Backup(Command):
    """Copy a domain's jobs, settings and keys into a new folder.

    The controller may be up. The folder has mode 0700, because secret keys are in it.

    \b
    Example:
      cosched cluster backup /root/domain-monday
    """

    folder: Path = argument(type=click.Path(path_type=Path))
    run_dir: Path = domain_dir_option()

    def run(self) -> None:
        names = back_up(DomainPaths(self.run_dir), self.folder)
        click.echo(f"{self.folder}: {', '.join(names)}")


@command("restore")
class Restore(Command):
    """Bring the jobs of a backup back, and settings and keys that are missing.

    No controller may be up. The store of now stays beside it, as jobs.sqlite.before.
    Jobs that were submitted after the backup are unknown then. If they run, they are
    ended.

    \b
    Example:
      cosched cluster restore /root/domain-monday
    """

    folder: Path = argument(
        type=ExistingPath("name one that cosched cluster backup wrote", file_okay=False)
    )
    run_dir: Path = domain_dir_option()

    def run(self) -> None:
        names = restore(DomainPaths(self.run_dir), self.folder)
        nothing = "nothing: the backup has no store, and all the rest is there"
        click.echo(f"{self.run_dir}: restored {', '.join(names) or nothing}")
