"""``cosched completion``: prints a shell script that completes cosched's command lines.

The shell runs the program at each completion, so it offers the same words as ``--help``.
click supports bash, zsh and fish; this module adds tcsh.
"""

from __future__ import annotations

import os
import shlex

import click
from click.shell_completion import (
    CompletionItem,
    ShellComplete,
    add_completion_class,
    get_completion_class,
)

from cosched.cli.declared import Command, argument, command

PROGRAMS = ("cosched", "cosched-run")
SHELLS = ("bash", "zsh", "fish", "tcsh")


class TcshComplete(ShellComplete):
    """tcsh passes the line in COMMAND_LINE and reads one word a line.

    It has no types of words, so a marker for paths is replaced by the paths themselves.
    """

    name = "tcsh"
    source_template = (
        "complete %(prog_name)s 'p@*@`env %(complete_var)s=tcsh_complete %(prog_name)s`@'"
    )

    def get_completion_args(self) -> tuple[list[str], str]:
        """Returns the words before the current one, and the current one."""
        line = os.environ["COMMAND_LINE"]
        words = _split(line)
        typing = words.pop() if words and not line[-1:].isspace() else ""
        return words[1:], typing

    def format_completion(self, item: CompletionItem) -> str:
        """Returns the word alone."""
        return str(item.value)

    def get_completions(self, args: list[str], incomplete: str) -> list[CompletionItem]:
        """Returns click's items, with paths in place of the marker for paths."""
        found = []
        for item in super().get_completions(args, incomplete):
            if item.type in ("file", "dir"):
                found += _paths(str(item.value), folders_only=item.type == "dir")
            else:
                found.append(item)
        return found


def register() -> None:
    """Registers the shells that click does not support."""
    add_completion_class(TcshComplete)


@command("completion")
class Completion(Command):
    """Print a script with which SHELL completes lines of cosched and cosched-run.

    For the current shell, in bash or zsh: eval "$(cosched completion bash)"; in fish:
    cosched completion fish | source. For all shells, see the examples.

    \b
    Examples:
      cosched completion bash >> ~/.bashrc
      cosched completion zsh >> ~/.zshrc
      cosched completion fish > ~/.config/fish/conf.d/cosched.fish
      cosched completion tcsh >> ~/.tcshrc
    """

    shell: str = argument(type=click.Choice(SHELLS))

    def run(self) -> None:
        register()
        kind = get_completion_class(self.shell)
        assert kind is not None
        for program in PROGRAMS:
            variable = f"_{program}_complete".replace("-", "_").upper()
            nothing = click.Command(program)
            source = kind(nothing, {}, program, variable).source()
            click.echo(source.strip())


def _split(line: str) -> list[str]:
    try:
        return shlex.split(line)
    except ValueError:  # a quotation that is not closed yet
        return line.split()


def _paths(begun: str, *, folders_only: bool) -> list[CompletionItem]:
    folder, name = os.path.split(begun)
    try:
        entries = sorted(os.scandir(folder or "."), key=lambda entry: entry.name)
    except OSError:  # no such folder
        return []
    found = []
    for entry in entries:
        if not entry.name.startswith(name) or (folders_only and not entry.is_dir()):
            continue
        path = os.path.join(folder, entry.name)
        found.append(CompletionItem(path + "/" * entry.is_dir()))
    return found
