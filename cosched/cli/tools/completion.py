"""``cosched completion``: what a shell needs to complete cosched's command lines.

The shell asks the program itself at each press of the key, so what it offers is what
``--help`` says. click speaks with bash, zsh and fish; tcsh is taught here.
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

PROGRAMS = ("cosched", "cosched-run")
SHELLS = ("bash", "zsh", "fish", "tcsh")


class TcshComplete(ShellComplete):
    """tcsh hands the line over in COMMAND_LINE and takes one word a line.

    It knows no types: a value that is a path is completed from the words offered alone,
    so for those the rule falls through to file names.
    """

    name = "tcsh"
    source_template = (
        "complete %(prog_name)s 'p@*@`env %(complete_var)s=tcsh_complete %(prog_name)s`@'"
    )

    def get_completion_args(self) -> tuple[list[str], str]:
        """The words before the one that is being typed, and that one."""
        line = os.environ["COMMAND_LINE"]
        words = _split(line)
        typing = words.pop() if words and not line[-1:].isspace() else ""
        return words[1:], typing

    def format_completion(self, item: CompletionItem) -> str:
        """The word alone; file names are listed by ``complete`` itself."""
        return str(item.value)

    def get_completions(self, args: list[str], incomplete: str) -> list[CompletionItem]:
        """click's items; in place of the marker for paths, the paths."""
        found = []
        for item in super().get_completions(args, incomplete):
            if item.type in ("file", "dir"):
                found += _paths(str(item.value), folders_only=item.type == "dir")
            else:
                found.append(item)
        return found


def register() -> None:
    """Makes the shells that click does not know known to it."""
    add_completion_class(TcshComplete)


@click.command("completion")
@click.argument("shell", type=click.Choice(SHELLS))
def command(shell: str) -> None:
    """Print what makes SHELL complete the command lines of cosched and cosched-run.

    For now, in bash or zsh: eval "$(cosched completion bash)"; in fish: cosched
    completion fish | source. For good, put that into the shell's start-up file. tcsh
    reads a file: see the example.

    \b
    Examples:
      cosched completion bash >> ~/.bashrc
      cosched completion zsh >> ~/.zshrc
      cosched completion fish > ~/.config/fish/conf.d/cosched.fish
      cosched completion tcsh >> ~/.tcshrc
    """
    register()
    kind = get_completion_class(shell)
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
    except OSError:  # no such folder: nothing begins so
        return []
    found = []
    for entry in entries:
        if not entry.name.startswith(name) or (folders_only and not entry.is_dir()):
            continue
        path = os.path.join(folder, entry.name)
        found.append(CompletionItem(path + "/" * entry.is_dir()))
    return found
