"""Collects the facts about this node. Nothing here judges them."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from cosched.core.config.schema import LIVE
from cosched.core.errors import CoschedError, NoDaemon
from cosched.lab.lab import Lab
from cosched.launch.family import Family
from cosched.launch.mpi import SearchPath, find_mpi
from cosched.launch.program import Program
from cosched.launch.shim import ShimBuild, plan_build, site_cache
from cosched.launch.spoken_pmi import spoken_by
from cosched.launch.target import main_library
from cosched.linux import proc
from cosched.linux.cgroups.mounts import Mount, parse_mountinfo
from cosched.linux.clock import clock_error_s
from cosched.linux.cpu_surroundings import read_division
from cosched.linux.memory import machine_memory
from cosched.linux.processes.tools import ask_tool, run_tool
from cosched.node.sockets.client import request
from cosched.observe.doctor.facts import Clock, Daemon, MpiFacts, NodeFacts
from cosched.observe.status import gather
from cosched.rundir.directories import SITE_STATE, SYSTEM_RUN_DIR
from cosched.rundir.paths import NodePaths
from cosched.shm._native import lib
from cosched.version import VERSION

UNIT = "cosched.service"
_SYSTEMD_S = 10.0
_COMPILER_S = 30.0
_SHM = Path("/dev/shm")
#: The option of cgroup2 with which tasks move without a wait for all CPUs (Linux 6.0).
_QUICK_MOVES = "favordynmods"


def gather_health(paths: NodePaths, root: Path = proc.ROOT) -> NodeFacts:
    """Returns the facts for a health check; it starts no program but systemctl."""
    return NodeFacts(**_base(paths, root))


def gather_node(
    paths: NodePaths, python_bin: Path, environ: Mapping[str, str]
) -> NodeFacts:
    """Returns all facts about this node; those of Slurm are read once for all nodes."""
    places = SearchPath(python_bin, environ)
    halves, why = _halves()
    more: dict[str, Any] = {"halves": halves, "halves_why": why, "mpis": _mpis(places)}
    return NodeFacts(**_base(paths, proc.ROOT), **more)


def _base(paths: NodePaths, root: Path) -> dict[str, Any]:
    error_s, memory = clock_error_s(), machine_memory(root)
    daemon, no_daemon = _daemon(paths)
    mounts = parse_mountinfo(proc.read_text(root / "proc/self/mountinfo") or "")
    history = SITE_STATE if paths.run_dir == SYSTEM_RUN_DIR else paths.directory
    return {
        "node": paths.node,
        "version": VERSION,
        "abi": int(lib.COSCHED_ABI),
        "python": platform.python_version(),
        "kernel": os.uname().release,
        "cgroup": _cgroup(mounts, root),
        "slow_moves": _slow_moves(mounts),
        "clock": Clock(synchronised=error_s is not None, error_s=error_s),
        "run_dir": str(paths.run_dir),
        "run_dir_problem": _run_dir_problem(paths),
        "history": str(history),
        "history_problem": _history_problem(history),
        "run_dir_free_bytes": _free_bytes(paths.run_dir),
        "shm_free_bytes": _free_bytes(_SHM),
        "memory_bytes": memory.total_bytes,
        "swap_bytes": memory.swap_bytes,
        "unit": _unit(root),
        "daemon": daemon,
        "no_daemon": no_daemon,
        "of_lab": _is_of_lab(paths),
    }


def _daemon(paths: NodePaths) -> tuple[Daemon | None, str]:
    try:
        status = request(paths, "status")
    except NoDaemon:
        others = ", ".join(status["node"] for status in gather(paths.run_dir))
        if others:
            return None, f"none of {paths.node} is up in {paths.run_dir}, but of {others}"
        return None, f"none is up in {paths.run_dir}"
    except CoschedError as error:
        return None, str(error).partition(": ")[2] or str(error)
    return daemon_of(status), ""


def _is_of_lab(paths: NodePaths) -> bool:
    """Whether the node belongs to the lab of its run directory."""
    try:
        lab = Lab.load(paths.run_dir)
    except CoschedError:  # a damaged lab: 'cosched lab status' prints the reason
        return False
    return lab is not None and any(node.name == paths.node for node in lab.nodes)


def daemon_of(status: Mapping[str, Any]) -> Daemon:
    """Returns the facts of a daemon's status."""
    settings, timer = status["settings"], status["timer"]
    texts = {name: settings[name] for name in LIVE if name in settings}
    return Daemon(
        # Older daemons do not report it.
        version=status.get("version", "0.1.0 or older"),
        class_scheduler=status["class_scheduler"]["name"],
        mode=status["class_scheduler"]["mode"],
        priority=status["priority"],
        settings={**texts, "align": "on" if settings["align"] else "off"},
        slice_s=settings["slice_s"],
        gmet_s=settings["gmet_s"],
        timer_up=bool(timer["pid"]),
        timer_restarts=timer["restarts"],
        timer_ticks=timer["ticks"],
        timer_late_s=timer["late_mean_us"] / 1e6,
        memory_guarded=status["memory"]["guarded"],
        memory_pressure_percent=status["memory"]["pressure_percent"],
    )


def _halves() -> tuple[tuple[tuple[int, ...], ...], str]:
    """Returns the halves into which a domain would divide this node, and the reason."""
    try:
        division = read_division(os.sched_getaffinity(0))
    except CoschedError as error:
        return (), str(error)
    return division.parts, division.why


def _cgroup(mounts: Sequence[Mount], root: Path) -> int:
    """Returns the version of the hierarchy that has the cpu controller; 0 for none."""
    found = 0
    for mount in mounts:
        point = root / mount.point.lstrip("/")
        if mount.fstype == "cgroup" and "cpu" in mount.super_options:
            return 1
        if mount.fstype == "cgroup2":
            controllers = proc.read_text(point / "cgroup.controllers") or ""
            found = 2 if "cpu" in controllers.split() else found
    return found


def _slow_moves(mounts: Sequence[Mount]) -> str:
    """Returns where cgroup2 is mounted without ``favordynmods``; empty: nowhere.

    The option holds for version 1, too: the kernel has one lock for all hierarchies."""
    own = [mount for mount in mounts if mount.fstype == "cgroup2"]
    if any(_QUICK_MOVES in mount.super_options for mount in own):
        return ""
    return own[0].point if own else ""


def _run_dir_problem(paths: NodePaths) -> str:
    try:
        paths.check_length()
    except CoschedError as error:
        return str(error)
    if paths.run_dir.exists() and not paths.run_dir.is_dir():
        return f"{paths.run_dir} is not a directory"
    return ""


def _history_problem(directory: Path) -> str:
    if os.geteuid() == 0 and directory.exists() and not os.access(directory, os.W_OK):
        return f"{directory} cannot be written, so no history is kept"
    return ""


def _free_bytes(directory: Path) -> int:
    """Returns the free space for the directory, which need not exist yet."""
    place = next(one for one in (directory, *directory.parents) if one.exists())
    return shutil.disk_usage(place).free


def _unit(root: Path) -> str:
    """Returns what systemd reports of the unit; nothing where it does not run."""
    if not (root / "run/systemd/system").is_dir() or shutil.which("systemctl") is None:
        return ""
    answer = ask_tool(("systemctl", "is-enabled", UNIT), _SYSTEMD_S)
    return answer.output.strip() or "not-found"


def _mpis(places: SearchPath) -> tuple[MpiFacts, ...]:
    found = []
    for family in Family:
        try:
            mpi = find_mpi(Program((), None, ""), family.value, places)
        except CoschedError:
            continue
        build = None if mpi.mpicc is None else _planned_build(mpi.mpicc, places)
        shim = "" if build is None else _site_shim(build)
        spoken = spoken_by(
            family, None if build is None else main_library(build), mpi.major
        )
        found.append(
            MpiFacts(
                title=mpi.title,
                version=mpi.version,
                mpiexec=str(mpi.mpiexec),
                mpicc=None if mpi.mpicc is None else str(mpi.mpicc),
                no_shim="" if mpi.mpicc is None or shim else _no_shim(mpi.mpicc),
                site_shim=shim,
                pmi2=spoken.pmi2,
                pmix=spoken.pmix,
            )
        )
    return tuple(found)


def _planned_build(mpicc: Path, places: SearchPath) -> ShimBuild | None:
    """Returns the build of a shim; None if the wrapper fails: _no_shim returns why."""
    try:
        return plan_build(mpicc, places.environ)
    except CoschedError:
        return None


def _site_shim(build: ShimBuild) -> str:
    """Returns the path of the shim that this installation has for all users."""
    library = build.library
    return str(library) if library.is_relative_to(site_cache()) else ""


def _no_shim(mpicc: Path) -> str:
    """Returns why the compiler finds no MPI: Debian's compilers come without headers."""
    words = [str(mpicc), "-fsyntax-only", "-include", "mpi.h", "-x", "c", "/dev/null"]
    try:
        done = run_tool(words, _COMPILER_S)
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{mpicc}: {error}"
    errors = [line for line in done.stderr.splitlines() if "error" in line]
    if done.returncode == 0:
        return ""
    return errors[0].strip() if errors else f"{mpicc} failed with status {done.returncode}"
