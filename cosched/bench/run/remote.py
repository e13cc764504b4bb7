"""Changes the settings of nodes that this machine cannot reach, by a command of the user's.

The command gets further words: ``pdsh -w n1,n2 cosched config set`` with ``--hold slice=15s
gmet=5s``. It changes the nodes until its standard input ends: when the bench closes it, or
dies. Without further words it prints a line or two for each node, as ``cosched config set``
does: ``node n1: slice=1s gmet=auto align=on``.
"""

from __future__ import annotations

import os
import re
import select
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property

from cosched.core.decoding import shown_text
from cosched.core.errors import CoschedError
from cosched.linux.processes.signals import send_to_child

TIMEOUT_S = 60.0
#: How long a command may take to end after its input, and after each signal then.
END_S = 10.0
_NODE_LINE = r"(?m)\bnode (\S+): ((?:\w+=\S+ ?)+)$"


class RemoteSettings:
    """The settings of the nodes, which are the same on each, and the way to change them."""

    def __init__(self, command: Sequence[str]) -> None:
        self._command = tuple(command)

    @cached_property
    def now(self) -> dict[str, str]:
        """The nodes' settings; CoschedError if they differ or cannot be read."""
        found = self._of_nodes
        if len(set(found.values())) > 1:
            raise CoschedError(
                f"the nodes have different settings ({'; '.join(sorted(found.values()))}); "
                "set them alike first"
            )
        words = next(iter(found.values())).split()
        return {name: text for name, _, text in (word.partition("=") for word in words)}

    @cached_property
    def _of_nodes(self) -> dict[str, str]:
        """The settings that each node printed at first."""
        found = _settings_in(self._read())
        if not any("slice=" in texts for texts in found.values()):
            raise CoschedError(
                f"'{' '.join(self._command)}' does not print the nodes' settings; "
                "use a command that runs 'cosched config set'"
            )
        return found

    def hold(self, changes: Mapping[str, str]) -> HeldRemotely:
        """Changes all nodes until ``give_back`` or the end of this process.

        Raises CoschedError, with the command's last line, if it fails.
        """
        before = {name: self.now[name] for name in changes}
        words = ("--hold", *(f"{name}={text}" for name, text in changes.items()))
        process = _start([*self._command, *words])
        held = HeldRemotely(process, lambda: self.now.update(before))
        try:
            held.wait_for(set(self._of_nodes))
        except BaseException:
            send_to_child(process, signal.SIGKILL)
            process.wait()
            raise
        self.now.update(changes)
        return held

    def _read(self) -> str:
        process = _start(self._command)
        try:
            text, _ = process.communicate(timeout=TIMEOUT_S)
        except subprocess.TimeoutExpired:
            send_to_child(process, signal.SIGKILL)
            process.wait()
            raise CoschedError(_too_slow(self._command)) from None
        printed: str = shown_text(text)
        if process.returncode != 0:
            raise CoschedError(_failed(self._command, process.returncode, printed))
        return printed


class HeldRemotely:
    """A command that holds a change of the nodes' settings as long as its input is open."""

    def __init__(
        self, process: subprocess.Popen[bytes], returned: Callable[[], None]
    ) -> None:
        self._process = process
        self._returned = returned
        self._printed = b""

    def wait_for(self, nodes: set[str]) -> None:
        """Waits until all ``nodes`` have printed their new settings."""
        words = self._process.args
        assert isinstance(words, list)
        deadline_s = time.monotonic() + TIMEOUT_S
        while not nodes <= set(_settings_in(shown_text(self._printed))):
            left_s = deadline_s - time.monotonic()
            if left_s <= 0:
                raise CoschedError(_too_slow(words))
            if not self._read(left_s):
                status = self._process.wait()
                printed = shown_text(self._printed)
                raise CoschedError(_failed(words, status, printed))

    def give_back(self) -> None:
        """Ends the command, so that the nodes' earlier settings return.

        Raises CoschedError if it has ended before: the settings were not held to the end.
        """
        early = self._process.poll() is not None
        for number in (signal.SIGTERM, signal.SIGKILL):
            try:
                self._process.communicate(timeout=END_S)
                break
            except subprocess.TimeoutExpired:
                send_to_child(self._process, number)
        self._process.wait()
        self._returned()
        if early:
            words = self._process.args
            assert isinstance(words, list)
            raise CoschedError(
                f"'{' '.join(words)}' ended before the run did, so the nodes had their "
                "earlier settings for a part of it; use a command that keeps its input open"
            )

    def _read(self, within_s: float) -> bytes:
        """Reads what the command prints next; nothing at its end or after ``within_s``."""
        assert self._process.stdout is not None
        fd = self._process.stdout.fileno()
        if not select.select([fd], [], [], within_s)[0]:
            return b""
        found = os.read(fd, 65536)
        self._printed += found
        return found


def _start(command: Sequence[str]) -> subprocess.Popen[bytes]:
    # pdsh does not pass on the end of its input, but ends by a signal.
    with_end = shutil.which("setpriv")
    words = [with_end, "--pdeathsig", "TERM", *command] if with_end else list(command)
    if shutil.which(command[0]) is None:
        raise CoschedError(f"cannot run '{command[0]}': no such command")
    process = subprocess.Popen(
        words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    process.args = list(command)
    return process


def _settings_in(printed: str) -> dict[str, str]:
    """Returns the settings of each node that are printed."""
    found: dict[str, str] = {}
    for node, line in re.findall(_NODE_LINE, printed):
        found[node] = f"{found[node]} {line}" if node in found else line
    return found


def _failed(command: Sequence[str], status: int, printed: str) -> str:
    lines = printed.strip().splitlines() or [f"status {status}"]
    return f"'{' '.join(command)}' failed: {lines[-1]}"


def _too_slow(command: Sequence[str]) -> str:
    return f"'{command[0]}' did not finish in {TIMEOUT_S:g} s"
