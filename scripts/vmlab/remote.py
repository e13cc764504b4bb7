"""Runs commands in a node, by ssh through its port of the loopback address.

A connection stays open for the next command: the first takes a second under software
emulation, the next ones hardly any time.
"""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cosched.core.errors import CoschedError

USER = "user"
ROOT = "root"
KEPT_S = 600


@dataclass(frozen=True, slots=True)
class Remote:
    """Reaches one node by ssh."""

    folder: Path  #: folder of the lab; the ssh key is there
    name: str  #: name of the node
    port: int  #: on the host, for ssh into the node

    def argv(
        self, command: Sequence[str], user: str = ROOT, tty: bool = False
    ) -> list[str]:
        """Returns the ssh command that runs ``command`` in the user's home there."""
        options = {
            "IdentityFile": self.folder / "key",
            "IdentitiesOnly": "yes",
            "Port": self.port,
            "StrictHostKeyChecking": "no",
            "UserKnownHostsFile": "/dev/null",
            "LogLevel": "ERROR",
            "ControlMaster": "auto",
            "ControlPath": self.folder / f"ssh.{self.name}.{user}",
            "ControlPersist": KEPT_S,
        }
        words = [word for pair in options.items() for word in ("-o", "{}={}".format(*pair))]
        words += ["-tt" if tty else "-T", f"{user}@127.0.0.1"]
        return ["ssh", "-F", "none", *words, *([shlex.join(command)] if command else [])]

    def run(
        self,
        command: Sequence[str],
        user: str = ROOT,
        input: str = "",
        within_s: float | None = None,
    ) -> subprocess.CompletedProcess[str]:
        """Runs a command there; returns its status, output and errors."""
        try:
            return subprocess.run(
                self.argv(command, user),
                input=input,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=within_s,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise CoschedError(
                f"{self.name}: '{shlex.join(command)}' took over {within_s:g} s"
            ) from error

    def check(self, command: Sequence[str], user: str = ROOT, input: str = "") -> str:
        """Returns the output of a command there; CoschedError if it fails."""
        done = self.run(command, user, input)
        if done.returncode != 0:
            lines = (done.stderr.strip() or done.stdout.strip()).splitlines()
            reason = lines[-1] if lines else f"status {done.returncode}"
            raise CoschedError(f"{self.name}: {command[0]}: {reason}")
        return done.stdout
