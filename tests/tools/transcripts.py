"""Runs the shell session that a page of the docs shows, and compares the outputs.

In a ```` ```console ```` block a line that begins with ``$ `` is a command. A backslash at
its end continues it on the next line. The lines up to the next command are its output,
stdout and stderr together. Spaces and numbers may differ, and ``...`` stands for any text,
also for several lines. A command must end with status 0. Only if the page shows an error (a
line that begins with ``cosched``, a colon and a blank) must the status differ from 0.

A block of another language is the file NAME if the paragraph before it ends with "`NAME`:".
All commands of a page run in one shell, one after the other.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import uuid
from dataclasses import dataclass
from pathlib import Path

import pytest

_BLOCK = re.compile(r"^```console\n(.*?)^```", re.M | re.S)
_COMMAND = re.compile(r"(?:.*\\\n)*.*")
_FILE = re.compile(r"`([\w.]+)`:\n\n```\w+\n(.*?)^```", re.M | re.S)
_ERROR = re.compile(r"^cosched(-run)?: (?!warning)", re.M)


@dataclass(frozen=True, slots=True)
class Step:
    """A command and the output that the page shows."""

    command: str
    shown: str

    def mistake(self, output: str, status: int) -> str | None:
        """Returns the difference from the page, or None."""
        if (status != 0) != bool(_ERROR.search(self.shown)):
            return f"$ {self.command}\nended with status {status}:\n{output}"
        if not matches(self.shown, output):
            return f"$ {self.command}\nthe page shows:\n{self.shown}\nit printed:\n{output}"
        return None


def steps_of(page: str) -> list[Step]:
    """The commands of a page, in order."""
    steps = []
    for block in _BLOCK.findall(page):
        first, *rest = re.split(r"^\$ ", block, flags=re.M)
        assert not first, f"output without a command: {first}"
        for part in rest:
            command = _COMMAND.match(part)[0]
            steps.append(Step(command, part[len(command) + 1 :]))
    return steps


def files_of(page: str) -> dict[str, str]:
    """The files that a page has its reader write."""
    return dict(_FILE.findall(page))


def matches(shown: str, output: str) -> bool:
    """Whether ``output`` is what the page shows."""
    pattern = r"(.|\n)*?".join(re.escape(_mask(part)) for part in _mask(shown).split("..."))
    return re.fullmatch(pattern, _mask(output)) is not None


def _mask(text: str) -> str:
    lines = (re.sub(r"\s+", " ", line).strip() for line in text.strip().splitlines())
    return re.sub(r"\d+(\.\d+)?", "N", "\n".join(lines))


def run_page(
    page: str, folder: Path, environ: dict[str, str], *, timeout_s: float
) -> list[tuple[Step, str, int]]:
    """Runs a page in ``folder``; returns each step with its output and exit status."""
    for name, text in files_of(page).items():
        (folder / name).write_text(text)
    steps = steps_of(page)
    mark = uuid.uuid4().hex
    lines = [f"{step.command}\nprintf '{mark} %d\\n' $?" for step in steps]
    shell = subprocess.Popen(
        ["bash", "-c", "\n".join(lines)],
        cwd=folder,
        env=environ,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        process_group=0,
    )
    try:
        printed, _ = shell.communicate(timeout=timeout_s)
    except subprocess.TimeoutExpired:
        os.killpg(shell.pid, signal.SIGKILL)
        printed, _ = shell.communicate()
        pytest.fail(f"not done after {timeout_s:g} s:\n{printed}")
    ended = re.findall(rf"(.*?){mark} (\d+)\n", printed, re.S)
    assert len(ended) == len(steps), printed
    return [
        (step, output, int(status))
        for step, (output, status) in zip(steps, ended, strict=True)
    ]


def mistakes(ran: list[tuple[Step, str, int]]) -> list[str]:
    """Returns one text for each step whose output or status differs."""
    found = (step.mistake(output, status) for step, output, status in ran)
    return [text for text in found if text is not None]
