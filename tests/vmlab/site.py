"""A lab of virtual machines with Slurm, as tests use it."""

from __future__ import annotations

import shutil
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from cosched.bench.run.interrupts import interruptible
from scripts.vmlab import debian, lab, slurm
from scripts.vmlab.options import default_cache
from scripts.vmlab.plan import Shape

#: A step under software emulation takes some ten times as long as elsewhere, and the host
#: may have other work.
WITHIN_S = 1800
UNIT = "/opt/cosched/lib/systemd/system/cosched.service"
LINKS = "ln -sf /opt/cosched/bin/cosched /opt/cosched/bin/cosched-run /usr/local/bin/"
INSTALL_UNIT = (
    f"sed 's|/usr/local/bin|/opt/cosched/bin|' {UNIT} "
    "> /etc/systemd/system/cosched.service && "
    "systemctl daemon-reload && systemctl enable --now cosched.service"
)
FOLDER = "/etc/systemd/system/cosched.service.d"
#: An emulated node on a busy host takes minutes to start the daemon.
PATIENT = f"""
mkdir -p {FOLDER}
printf '[Service]\\nTimeoutStartSec=15min\\n' > {FOLDER}/patient.conf
systemctl daemon-reload
"""


class Site:
    """Nodes with Slurm, unless ``slurms`` is False, in a lab of the tests' own."""

    def __init__(self, folder, nodes, release, fresh=False, slurms=True, **size):
        self.folder = folder
        shape = Shape(nodes, release=release, **size)
        self.lab = lab.up(folder, default_cache(), shape, fresh, print)
        try:
            if slurms:
                slurm.up(self.lab)
        except BaseException:
            self.close()
            raise
        self.home = folder / "home" / "user"

    def close(self):
        lab.down(self.folder)

    def root(self, node, script):
        """Runs a script as root in a node; returns its output."""
        return self._run(self.lab.remote(node), "root", script)

    def everywhere(self, script):
        """Runs a script as root in all nodes at once; returns each output by node."""
        remotes = self.lab.remotes
        with ThreadPoolExecutor(len(remotes)) as pool:
            outputs = pool.map(lambda remote: self._run(remote, "root", script), remotes)
            return dict(zip([remote.name for remote in remotes], outputs, strict=True))

    def user(self, script, node="n1"):
        """Runs a script as the ordinary user in the shared home; returns its output."""
        return self._run(self.lab.remote(node), "user", script)

    def _run(self, remote, user, script):
        done = remote.run(["bash", "-lec", script], user, within_s=WITHIN_S)
        assert done.returncode == 0, (script, done.stdout, done.stderr)
        return done.stdout

    def write(self, name, text):
        """Writes a program into the user's home."""
        (self.home / name).write_text(text)
        (self.home / name).chmod(0o755)

    def read(self, name):
        return (self.home / name).read_text()

    def copy(self, source):
        shutil.copy(source, self.home)

    def until(self, condition, what):
        deadline = time.monotonic() + WITHIN_S
        while not condition():
            assert time.monotonic() < deadline, what
            time.sleep(1)

    def share_configuration(self):
        """Gives each node the slurm.conf of n1."""
        text = self.root("n1", "cat /etc/slurm/slurm.conf")
        for remote in self.lab.remotes[1:]:
            remote.check(["tee", "/etc/slurm/slurm.conf"], input=text)

    def start_cosched(self, *settings):
        """Starts the daemons of all nodes as docs/cluster.md has it, and sets these."""
        self.everywhere(f"{LINKS}; {INSTALL_UNIT}")
        if settings:
            self.everywhere(f"/opt/cosched/bin/cosched config set {' '.join(settings)}")

    def stop_cosched(self):
        self.everywhere("systemctl disable --now cosched.service")


def opened(folder, nodes, release, fresh=False, slurms=True, **size):
    """Yields a site; skips where none can be made."""
    try:
        lab.require_root()
        debian.require_tools()
    except lab.CoschedError as error:
        pytest.skip(str(error))
    with interruptible():  # no machine outlives a test run that is ended
        site = Site(folder, nodes, release, fresh, slurms, **size)
        try:
            yield site
        finally:
            site.close()


def program(site, name, mpicc="mpicc.mpich", output=""):
    """Compiles a program of these tests in a node, with an MPI of its own."""
    site.copy(Path(__file__).with_name(f"{name}.c"))
    site.user(f"{mpicc} -O2 -o {output or name} {name}.c")
