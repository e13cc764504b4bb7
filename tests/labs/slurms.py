"""Runs small Slurm clusters on the loopback of this machine, to couple them with others.

Each has its own munged, slurmctld and slurmd processes, its own ports and one folder. The
nodes share this machine's CPUs and network. ``cosched.lab.slurm`` runs Slurm on a
lab's nodes.

Limits: only root starts one. The daemons are children of the process that starts them.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from cosched.core.errors import CoschedError
from cosched.linux.files.whole import write_whole

READY_WITHIN_S = 30.0
_POLL_S = 0.05
#: SlurmUser of Debian's packages.
SLURM_USER = "slurm"


@dataclass(frozen=True, slots=True)
class Cluster:
    """A small Slurm. prolog: the path of its PrologSlurmctld. nodes: how many it has.
    settings: further lines of ``slurm.conf``."""

    name: str
    folder: Path
    port: int
    prolog: Path
    nodes: int = 2
    settings: tuple[str, ...] = ()

    @property
    def conf(self) -> Path:
        return self.folder / "slurm.conf"

    @property
    def node_names(self) -> list[str]:
        return [f"{self.name}{place}" for place in range(1, self.nodes + 1)]

    def conf_text(self, host: str) -> str:
        """Returns ``slurm.conf``. host: the name of this machine.

        A job that yields may wait again after ``cred_expire`` and a second, and a job that
        may start does so within ``batch_sched_delay``; both are shorter than usual, as the
        jobs are. For the same reason backfill counts in seconds, not in minutes.
        """
        folder = self.folder
        lines = [
            f"ClusterName={self.name}",
            f"SlurmctldHost={host}(127.0.0.1)",
            f"SlurmctldPort={self.port}",
            f"AuthInfo=socket={folder}/munge.socket,cred_expire=5",
            f"SlurmUser={SLURM_USER}",
            "SlurmdUser=root",
            f"StateSaveLocation={folder}/state",
            f"SlurmdSpoolDir={folder}/spool.%n",
            f"SlurmctldPidFile={folder}/state/slurmctld.pid",
            f"SlurmdPidFile={folder}/slurmd.%n.pid",
            f"SlurmctldLogFile={folder}/state/slurmctld.log",
            f"SlurmdLogFile={folder}/slurmd.%n.log",
            f"PrologSlurmctld={self.prolog}",
            "MailProg=/bin/true",
            "ProctrackType=proctrack/linuxproc",
            "TaskPlugin=task/none",
            "SelectType=select/linear",
            "SchedulerType=sched/backfill",
            "SchedulerParameters=batch_sched_delay=0,bf_interval=1,bf_resolution=1,"
            "sched_interval=5",
            "PriorityType=priority/basic",
            "JobAcctGatherType=jobacct_gather/none",
            "SlurmdParameters=config_overrides",
            "ReturnToService=2",
            "KillWait=2",
            *self.settings,
            *(
                f"NodeName={name} NodeHostname={host} NodeAddr=127.0.0.1 "
                f"Port={self.port + place} CPUs=1 RealMemory=1000"
                for place, name in enumerate(self.node_names, 1)
            ),
            "PartitionName=main Nodes=ALL Default=YES State=UP",
        ]
        return "\n".join(lines) + "\n"


class SmallSlurm:
    """The daemons of one cluster. environ: their environment."""

    def __init__(self, cluster: Cluster, environ: Mapping[str, str]) -> None:
        self.cluster = cluster
        self._environ = {**environ, "SLURM_CONF": str(cluster.conf)}
        self._daemons: dict[str, subprocess.Popen[bytes]] = {}

    def start(self) -> None:
        """Starts all daemons and waits until the nodes are idle."""
        cluster, folder = self.cluster, self.cluster.folder
        folder.mkdir(mode=0o755, exist_ok=True)
        state = folder / "state"
        state.mkdir(mode=0o755)
        shutil.chown(state, SLURM_USER)
        write_whole(cluster.conf, cluster.conf_text(os.uname().nodename))
        key = folder / "munge.key"
        write_whole(key, os.urandom(128), 0o400)
        options = [f"--{name}={folder}/munge.{name}" for name in ("socket", "seed-file")]
        options += [f"--key-file={key}", f"--log-file={folder}/munged.log"]
        options += [f"--pid-file={folder}/munged.pid"]
        self._run_daemon("munged", "munged", "--foreground", "--force", *options)
        _await((folder / "munge.socket").exists, "munged listens")
        self.start_controller()
        for name in cluster.node_names:
            (folder / f"spool.{name}").mkdir()
            self._run_daemon(name, "slurmd", "-D", "-N", name)
        _await(self.idle, f"the nodes of {cluster.name} are idle")

    def start_controller(self) -> None:
        """Starts slurmctld, which continues from its state."""
        self._run_daemon("slurmctld", *_become(SLURM_USER), "slurmctld", "-D")
        _await(lambda: self.answers("scontrol", "ping"), "slurmctld answers")

    @property
    def has_controller(self) -> bool:
        """Whether slurmctld was started and not killed."""
        return "slurmctld" in self._daemons

    def kill_controller(self) -> None:
        """Ends slurmctld with SIGKILL."""
        process = self._daemons.pop("slurmctld")
        process.kill()
        process.wait()

    def run(self, *words: str, user: str | None = None) -> str:
        """Returns the output of a command; CoschedError if it fails. user: as whom."""
        done = self.try_run(*words, user=user)
        if done.returncode != 0:
            raise CoschedError(f"{words[0]}: {done.stderr.strip() or done.stdout.strip()}")
        return done.stdout

    def try_run(
        self, *words: str, user: str | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Runs a command to its end; returns its status and output."""
        return subprocess.run(
            self.argv(*words, user=user),
            env=self._environ,
            cwd="/tmp",
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
        )

    def argv(self, *words: str, user: str | None = None) -> list[str]:
        """Returns the words that run a command as a user."""
        if user is None:
            return list(words)
        return [*_become(user), *words]

    @property
    def environ(self) -> dict[str, str]:
        """Returns the environment of this cluster's commands."""
        return dict(self._environ)

    def answers(self, *words: str) -> bool:
        """Returns whether a command succeeds."""
        return self.try_run(*words).returncode == 0

    def close(self) -> None:
        """Ends all jobs and daemons. The folder stays, with the logs."""
        if "slurmctld" in self._daemons:
            self._end_jobs()
        for name in reversed(list(self._daemons)):
            process = self._daemons.pop(name)
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(READY_WITHIN_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def _end_jobs(self) -> None:
        states = "--states=running,pending,suspended"
        self.try_run("scancel", "--quiet", "--partition=main")
        words = ("squeue", "--noheader", states, "--format=%i")
        with contextlib.suppress(CoschedError):  # the daemons end all the same
            _await(lambda: not self.try_run(*words).stdout, "the jobs end")

    def idle(self) -> bool:
        """Returns whether all nodes are idle."""
        said = self.try_run("sinfo", "--noheader", "--Node", "--format=%T")
        return said.stdout.split() == ["idle"] * self.cluster.nodes

    def _run_daemon(self, name: str, *words: str) -> None:
        with (self.cluster.folder / f"{name}.out").open("ab") as output:
            self._daemons[name] = subprocess.Popen(
                words,
                env=self._environ,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                cwd="/",
                start_new_session=True,  # Ctrl-C ends the jobs first
            )


@contextlib.contextmanager
def running(
    clusters: Sequence[Cluster], environ: Mapping[str, str]
) -> Iterator[list[SmallSlurm]]:
    """Starts clusters, and ends them at the end of the block."""
    with contextlib.ExitStack() as ends:
        started = []
        for cluster in clusters:
            slurm = SmallSlurm(cluster, environ)
            ends.callback(slurm.close)
            slurm.start()
            started.append(slurm)
        yield started


def _become(user: str) -> list[str]:
    """Returns the words that make a command run as a user."""
    who = pwd.getpwnam(user)
    ids = [f"--reuid={who.pw_uid}", f"--regid={who.pw_gid}"]
    return ["setpriv", *ids, "--clear-groups"]


def _await(condition: Callable[[], bool], what: str) -> None:
    """Waits for something that gives no event. Raises CoschedError if it does not come."""
    deadline = time.monotonic() + READY_WITHIN_S
    while not condition():
        if time.monotonic() > deadline:
            raise CoschedError(f"not within {READY_WITHIN_S:g} s: {what}")
        time.sleep(_POLL_S)
