"""Runs an sshd on each node of a lab, so that programs reach the nodes by a real ssh.

Limits: only root starts them. They are children of the process that starts them.
"""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from cosched.core.errors import CoschedError
from cosched.lab.lab import Lab
from cosched.linux.files.whole import write_whole

PORT = 2222
READY_WITHIN_S = 30.0
_POLL_S = 0.05
#: sshd wants it there.
_PRIVILEGES = Path("/run/sshd")


@dataclass(slots=True)
class SshServers:
    """The servers of a lab. config: the file for ``ssh -F``. shell: a program that runs ssh
    with it. servers: by the node's name."""

    config: Path
    shell: Path
    servers: dict[str, subprocess.Popen[bytes]]

    def stop(self, node: str) -> None:
        """Ends the server of a node."""
        server = self.servers.pop(node)
        server.terminate()
        server.wait()


@contextmanager
def ssh_servers(
    lab: Lab, folder: Path, aliases: Mapping[str, str] | None = None
) -> Iterator[SshServers]:
    """Runs an sshd on each node of a lab. folder: gets keys, configurations and logs.
    aliases: further names of nodes. Raises CoschedError if one does not start."""
    sshd = shutil.which("sshd") or shutil.which("sshd", path="/usr/sbin")
    if sshd is None:
        raise CoschedError("sshd not found; Debian has it in openssh-server")
    for name in ("host", "user"):
        words = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f"]
        subprocess.run([*words, str(folder / name)], check=True)
    config, shell = folder / "config", folder / "shell"
    write_whole(config, _client_text(lab, folder, aliases or {}))
    write_whole(shell, f'#!/bin/sh\nexec ssh -F {config} "$@"\n', 0o755)
    _PRIVILEGES.mkdir(mode=0o755, exist_ok=True)
    made = SshServers(config, shell, {})
    try:
        for node in lab.nodes:
            conf = folder / f"sshd.{node.name}"
            write_whole(conf, _server_text(lab, folder, node.address))
            words = [sshd, "-D", "-E", str(folder / f"log.{node.name}"), "-f", str(conf)]
            made.servers[node.name] = subprocess.Popen(
                [*lab.enter_argv(node.name, "/"), *words]
            )
        for name, server in made.servers.items():
            _wait_listening(server, folder / f"log.{name}")
        yield made
    finally:
        for name in tuple(made.servers):
            made.stop(name)


def _client_text(lab: Lab, folder: Path, aliases: Mapping[str, str]) -> str:
    addresses = {node.name: node.address for node in lab.nodes}
    names = {**addresses, **{alias: addresses[name] for alias, name in aliases.items()}}
    return "\n".join(
        [
            *(f"Host {name}\n  HostName {address}" for name, address in names.items()),
            "Host *",
            f"  Port {PORT}\n  User root\n  IdentityFile {folder}/user",
            "  IdentitiesOnly yes\n  StrictHostKeyChecking no",
            "  UserKnownHostsFile /dev/null\n  BatchMode yes\n  LogLevel ERROR",
            "  ConnectTimeout 10\n",
        ]
    )


def _server_text(lab: Lab, folder: Path, address: str) -> str:
    return (
        f"Port {PORT}\nListenAddress {address}\nHostKey {folder}/host\n"
        f"AuthorizedKeysFile {folder}/user.pub\nStrictModes no\nUsePAM no\n"
        "PermitRootLogin yes\nPidFile none\n"
        f"SetEnv COSCHED_RUN_DIR={lab.run_dir}\n"
    )


def _wait_listening(server: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + READY_WITHIN_S
    while not (log.exists() and "Server listening" in log.read_text(errors="replace")):
        if server.poll() is not None or time.monotonic() >= deadline:
            raise CoschedError(f"an sshd of the lab does not start; its log: {log}")
        time.sleep(_POLL_S)
