"""Runs a Slurm on the nodes of a lab, for comparison and as a host of domains.

munged and slurmctld run inside the first node and a slurmd in each node. They come from
Debian's packages and keep their files in ``RUN_DIR/lab/slurm``. They end with the lab.
slurm_conf.py has the two ways in which jobs share the nodes.

Limits: only root starts it. Jobs are submitted from inside a node, since no node can be
reached from outside (cosched/bench/run/slurm_job.py).
"""

from __future__ import annotations

import argparse
import os
import selectors
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from cosched.core.decoding import Malformed, parse_integer
from cosched.core.errors import CoschedError
from cosched.lab.lab import Lab, require_root
from cosched.lab.plan import mark_prefix
from cosched.lab.slurm_conf import GANG, SHARINGS, Sharing, checked_jobs, slurm_conf
from cosched.linux.files.whole import write_whole
from cosched.linux.namespaces import bears_mark
from cosched.linux.proc import PID_MOST
from cosched.linux.processes.signals import send_by_pidfd
from cosched.linux.waiting import comes_true
from cosched.rundir.paths import default_run_dir
from cosched.start.streams import begin

READY_WITHIN_S = 30.0
POLL_S = 0.1
#: Numbers that the first job of a lab may have; Slurm counts from 1 again at 67,108,863.
JOBS = 60_000_000
DAEMONS = ("munged", "slurmctld", "slurmd", "srun", "sbatch")


def directory(run_dir: Path) -> Path:
    """Returns the folder of a lab's Slurm."""
    return run_dir.resolve() / "lab" / "slurm"


def conf_path(run_dir: Path) -> Path | None:
    """Returns ``slurm.conf`` of the lab's Slurm; None if none is up."""
    path = directory(run_dir) / "slurm.conf"
    return path if path.exists() else None


def up(
    run_dir: Path,
    environ: Mapping[str, str],
    sharing: Sharing = GANG,
    cpus: int | None = None,
) -> Path:
    """Starts a Slurm on the lab that is up and returns its ``slurm.conf``.

    ``environ``: the environment of its commands and daemons. ``cpus``: how many it counts
    on each node; None: as many as the node has.
    """
    lab = _lab(run_dir)
    missing = [name for name in DAEMONS if shutil.which(name) is None]
    if missing:
        raise CoschedError(
            f"{', '.join(missing)} not found: apt-get install munge slurmctld slurmd "
            "slurm-client slurm-wlm-basic-plugins"
        )
    folder = directory(run_dir)
    if folder.exists():
        raise CoschedError("a Slurm is up already: run 'scripts/slurm-lab down' first")
    try:
        counted = [(node.name, cpus or len(node.cpus)) for node in lab.nodes]
        text = slurm_conf(folder, counted, sharing, int(time.time()) % JOBS + 1)
        return _start(lab, folder, environ, text)
    except BaseException:
        try:
            down(run_dir, environ)
        except CoschedError as error:  # the first error is reported
            print(f"slurm-lab: not taken down: {error}", file=sys.stderr)
        raise


def _start(lab: Lab, folder: Path, environ: Mapping[str, str], text: str) -> Path:
    folder.mkdir(mode=0o755)
    first = lab.nodes[0].name
    for name in [
        "state",
        *(f"{kind}.{n.name}" for n in lab.nodes for kind in ("spool", "tmp")),
    ]:
        (folder / name).mkdir()
    key = folder / "munge.key"
    write_whole(key, os.urandom(128), 0o400)
    conf = folder / "slurm.conf"
    write_whole(conf, text)
    options = [f"--{name}={folder}/munge.{name}" for name in ("socket", "seed-file")]
    options += [f"--pid-file={folder}/munged.pid", f"--log-file={folder}/munged.log"]
    # --force: it requires a socket that all users can reach; a lab's may be private.
    words = ["munged", "--force", f"--key-file={key}", *options]
    run_inside(lab, first, conf, words, environ)
    for node in lab.nodes:
        run_inside(lab, node.name, conf, ["slurmd", "-N", node.name], environ)
    run_inside(lab, first, conf, ["slurmctld"], environ)
    _await_nodes(lab, conf, environ)
    return conf


def _await_nodes(lab: Lab, conf: Path, environ: Mapping[str, str]) -> None:
    """Waits until every node takes jobs; Slurm does not report that moment."""
    words = ["sinfo", "--noheader", "--Node", "--format=%T"]
    states: list[str] = []

    def are_idle() -> bool:
        printed = run_inside(lab, lab.nodes[0].name, conf, words, environ, check=False)
        states[:] = printed.split()
        return states == ["idle"] * len(lab.nodes)

    if not comes_true(are_idle, READY_WITHIN_S, POLL_S):
        raise CoschedError(
            f"Slurm's nodes are not idle after {READY_WITHIN_S:g} s but "
            f"'{' '.join(states)}'; see the logs in {conf.parent}"
        )


def run_inside(
    lab: Lab,
    node: str,
    conf: Path,
    words: Sequence[str],
    environ: Mapping[str, str],
    check: bool = True,
) -> str:
    """Returns the output of a Slurm command inside a node; CoschedError if it fails."""
    done = subprocess.run(
        [*lab.enter_argv(node, directory="/"), *words],
        env={**environ, "SLURM_CONF": str(conf)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        check=False,
    )
    if check and done.returncode != 0:
        lines = done.stdout.strip().splitlines() or [f"status {done.returncode}"]
        raise CoschedError(f"{words[0]} on {node}: {lines[-1]}")
    return done.stdout


def down(run_dir: Path, environ: Mapping[str, str]) -> bool:
    """Ends the lab's Slurm and its jobs; False if there was none."""
    folder = directory(run_dir)
    if not folder.exists():
        return False
    lab = _lab(run_dir)
    conf = folder / "slurm.conf"
    if conf.exists():
        _end_jobs(lab, conf, environ)
    for name in ("slurmctld", *(f"slurmd.{node.name}" for node in lab.nodes), "munged"):
        _end(folder / f"{name}.pid", mark_prefix(run_dir.resolve()))
    shutil.rmtree(folder)
    return True


def _end_jobs(lab: Lab, conf: Path, environ: Mapping[str, str]) -> None:
    """Ends all jobs, and waits until Slurm has cleaned up after them."""
    first = lab.nodes[0].name
    for name in SHARINGS:
        words = ["scancel", "--quiet", "--full", "--signal=KILL", f"--partition={name}"]
        run_inside(lab, first, conf, words, environ, check=False)
    words = ["squeue", "--noheader", "--states=all", "--format=%T"]

    def are_over() -> bool:
        left = run_inside(lab, first, conf, words, environ, check=False).split()
        return not {"RUNNING", "SUSPENDED", "CONFIGURING", "COMPLETING"} & set(left)

    comes_true(are_over, READY_WITHIN_S, POLL_S)


def status(run_dir: Path, environ: Mapping[str, str]) -> str:
    """Returns the nodes and the jobs of the lab's Slurm as its own commands print them."""
    conf = conf_path(run_dir)
    if conf is None:
        raise CoschedError(f"no Slurm is up in {run_dir}: run 'scripts/slurm-lab up'")
    lab = _lab(run_dir)
    first = lab.nodes[0].name
    printed = [
        run_inside(lab, first, conf, words, environ) for words in (["sinfo"], ["squeue"])
    ]
    return f"SLURM_CONF={conf}\n{''.join(printed)}"


def _end(pid_file: Path, lab_mark: str) -> None:
    """Ends the daemon that wrote this file, and waits for its end.

    A process outside of the lab that has the number by now is not ended.
    """
    try:
        pid = parse_integer(pid_file.read_bytes(), str(pid_file), 1, PID_MOST)
        pidfd = os.pidfd_open(pid)
    except (FileNotFoundError, ProcessLookupError, Malformed):
        return
    try:
        if not bears_mark(pid, lab_mark):
            return
        send_by_pidfd(pidfd, signal.SIGTERM)
        with selectors.DefaultSelector() as selector:
            selector.register(pidfd, selectors.EVENT_READ)
            if not selector.select(READY_WITHIN_S):
                send_by_pidfd(pidfd, signal.SIGKILL)
    finally:
        os.close(pidfd)


def _lab(run_dir: Path) -> Lab:
    require_root()
    lab = Lab.load(run_dir)
    if lab is None:
        raise CoschedError(f"no lab is up in {run_dir}: run 'cosched lab up' first")
    return lab


def main(words: Sequence[str] | None = None) -> int:
    """Runs ``scripts/slurm-lab``; returns 0, or 1 after one line."""
    begin()
    parser = argparse.ArgumentParser(prog="scripts/slurm-lab", description=__doc__)
    parser.add_argument("command", choices=("up", "down", "status"))
    parser.add_argument("--partition", choices=SHARINGS, default=GANG.partition)
    parser.add_argument("--jobs", type=int, help="jobs that a CPU takes")
    parser.add_argument("--cpus", type=int)
    parser.add_argument(
        "--run-dir", type=Path, default=default_run_dir(os.environ, os.geteuid())
    )
    options = parser.parse_args(words)
    try:
        if options.command == "up":
            sharing = SHARINGS[options.partition]
            if options.jobs is not None:
                sharing = replace(sharing, jobs=checked_jobs(options.jobs))
            conf = up(options.run_dir, os.environ, sharing, options.cpus)
            print(f"slurm is up: SLURM_CONF={conf}")
        elif options.command == "status":
            print(status(options.run_dir, os.environ), end="")
        elif down(options.run_dir, os.environ):
            print("slurm is down")
        else:
            print("no slurm was up")
    except CoschedError as error:
        print(f"slurm-lab: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
