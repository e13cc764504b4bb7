"""Runs cosched's commands as a user of a domain."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

from tests.tools.commands import run_command

BIN = Path(sys.executable).parent


class User:
    """Runs cosched's commands in a domain."""

    def __init__(self, rig):
        self.rig = rig
        self.environ = {
            **{k: v for k, v in os.environ.items() if not k.startswith("COSCHED_")},
            "COSCHED_RUN_DIR": str(rig.paths.run_dir),
            "COSCHED_RUNS": "off",
            "PATH": f"{BIN}:{os.environ['PATH']}",
            **rig.mark,
        }

    def start(self, *words, stdin=subprocess.DEVNULL, text=True, **environ):
        return subprocess.Popen(
            [BIN / "cosched", *words],
            cwd=self.rig.work,
            env={**self.environ, **environ},
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=text,
        )

    def run(self, *words, **environ):
        """Returns status, stdout and stderr."""
        return self.run_with(None, *words, **environ)

    def run_with(self, given, *words, text=True, module="cosched.cli.main", **environ):
        """Runs a command with these bytes as input; None: without input. Returns status,
        stdout and stderr."""
        done = run_command(
            *words,
            module=module,
            cwd=self.rig.work,
            env={**self.environ, **environ},
            given=given,
            text=text,
        )
        return done.returncode, done.stdout, done.stderr

    def submit(self, *words, **environ):
        """Returns the number of a job that was submitted."""
        status, out, err = self.run("submit", *words, **environ)
        assert (status, err) == (0, ""), err
        return int(re.fullmatch(r"job (\d+)\n", out)[1])

    def hosts_of(self, number):
        """Returns the nodes of a job, once it runs."""
        self.rig.until_state(number, "running")
        with self.rig.client() as client:
            return client.job(number)["hosts"]


def as_user(uid, action):
    """Returns the result of ``action``, which runs in a child as the user."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.setgroups([])
            os.setgid(uid)
            os.setuid(uid)
            os.write(write, json.dumps(action()).encode())
        finally:
            os._exit(0)
    os.close(write)
    with os.fdopen(read) as result:
        text = result.read()
    os.waitpid(pid, 0)
    return json.loads(text)
