"""Judges the facts of one node. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator

from cosched.core.counting import counted
from cosched.core.decoding import parse_integer
from cosched.core.node.division import format_cpus
from cosched.core.units import format_bytes
from cosched.observe.doctor.facts import Daemon, NodeFacts
from cosched.observe.doctor.findings import Finding, good, note, problem, warning

#: pidfds.
KERNEL_LEAST = (5, 3)
#: The mount option favordynmods.
QUICK_MOVES_LEAST = (6, 0)
#: Regions of jobs are small; their tasks' MPI is not.
SHM_LEAST_BYTES = 64 << 20
RUN_DIR_LEAST_BYTES = 64 << 20
#: A clock that is worse than this disturbs slices of 2 s.
CLOCK_ERROR_S = 0.1
#: Below the pressure at which jobs wait: the warning comes before the waits.
WARN_PRESSURE_PERCENT = 10.0
#: Lateness of the timer as a part of GMET.
LATE_PART = 0.5

_RESTART = "run: systemctl restart cosched, or cosched up --restart"


def check_health(facts: NodeFacts) -> Iterator[Finding]:
    """Yields what a running node must have: daemons, clock, directories, memory."""
    yield from _check_daemon(facts)
    yield from _check_surroundings(facts)


def _check_surroundings(facts: NodeFacts) -> Iterator[Finding]:
    yield _check_clock(facts)
    yield from _check_directories(facts)
    yield from _check_memory(facts)


def check_node(facts: NodeFacts, *, personal: bool = False) -> Iterator[Finding]:
    """Yields the findings about a node by itself. personal: it is a user's own machine."""
    yield _check_kernel(facts)
    yield from _check_cgroups(facts, personal=personal)
    if personal and facts.daemon is None:
        yield note(
            "daemons",
            facts.no_daemon,
            "none is needed: cosched-run and cosched submit start private ones",
        )
        yield from _check_surroundings(facts)
    else:
        yield from check_health(facts)
    if not personal:
        yield from _check_unit(facts)
    yield from _check_halves(facts)
    yield from _check_mpis(facts)


def _release(facts: NodeFacts) -> tuple[int, ...]:
    """Returns the first two numbers of the kernel's release; none if it has others."""
    found = re.match(r"(\d{1,9})\.(\d{1,9})", facts.kernel, re.ASCII)
    return tuple(
        [] if found is None else [parse_integer(n, "", 0, 10**9) for n in found.groups()]
    )


def _check_kernel(facts: NodeFacts) -> Finding:
    if _release(facts) < KERNEL_LEAST:
        return problem(
            "kernel",
            f"Linux {facts.kernel} has no pidfds",
            "a node needs Linux 5.3 or later",
        )
    return good("kernel", f"Linux {facts.kernel}, Python {facts.python}")


def _check_cgroups(facts: NodeFacts, *, personal: bool) -> Iterator[Finding]:
    if not facts.cgroup:
        yield warning(
            "cgroups",
            "no cpu controller is mounted, so jobs are stopped and continued instead",
            "mount cgroup2 at /sys/fs/cgroup, or boot with "
            "systemd.unified_cgroup_hierarchy=1",
        )
        return
    yield good("cgroups", f"version {facts.cgroup} with the cpu controller")
    if facts.slow_moves and not personal and _release(facts) >= QUICK_MOVES_LEAST:
        yield note(
            "cgroups",
            "the kernel takes 5 to 20 ms to move the first task of a job to its group",
            f"below 1 ms after: mount -o remount,favordynmods {facts.slow_moves}",
        )


def _check_daemon(facts: NodeFacts) -> Iterator[Finding]:
    daemon = facts.daemon
    if daemon is None:
        remedy = "start them: systemctl start cosched, or cosched up"
        if facts.of_lab:
            up = f"cosched up --run-dir {facts.run_dir}"
            remedy = f"start them: cosched lab exec {facts.node} {up}"
        yield problem("daemons", facts.no_daemon, remedy)
        return
    yield _check_classes(daemon)
    if daemon.version != facts.version:
        yield warning(
            "version",
            f"the daemons run {daemon.version}, installed is {facts.version}",
            _RESTART,
        )
    if not daemon.priority.startswith("SCHED_FIFO"):
        yield warning(
            "priority",
            f"the daemons run at {daemon.priority}, so jobs can delay them",
            "run them as root, or with LimitRTPRIO=1 as in the unit",
        )
    yield _check_timer(daemon)


def _check_classes(daemon: Daemon) -> Finding:
    if daemon.class_scheduler == "dutycycle":
        return warning(
            "daemons",
            "they have no right to control groups, so they stop and continue tasks",
            "'chosen' in 'cosched status --json' has the reasons; the unit of cosched has "
            "Delegate=yes",
        )
    return good("daemons", f"up, {daemon.class_scheduler}, {daemon.mode}")


def _check_timer(daemon: Daemon) -> Finding:
    if not daemon.timer_up:
        return problem("timer", "the timer daemon is dead", _RESTART)
    if daemon.timer_restarts:
        return warning(
            "timer",
            f"the timer daemon died {counted(daemon.timer_restarts, 'time')}",
            "read scheduler.log in the node's run directory",
        )
    if daemon.timer_ticks and daemon.timer_late_s > LATE_PART * daemon.gmet_s:
        return warning(
            "timer",
            f"slices end {daemon.timer_late_s * 1e3:.0f} ms late, GMET is "
            f"{daemon.gmet_s * 1e3:.0f} ms",
            "find the load outside of the jobs, or set a longer GMET",
        )
    return good("timer", f"{daemon.timer_late_s * 1e3:.1f} ms late on average")


def _check_clock(facts: NodeFacts) -> Finding:
    clock = facts.clock
    aligned = facts.daemon is None or facts.daemon.settings.get("align") == "on"
    remedy = "start chrony or NTP" + ("; until then align=off" if aligned else "")
    if not clock.synchronised:
        judge = warning if aligned else note
        return judge("clock", "the kernel reports that it is not synchronised", remedy)
    if clock.error_s is not None and clock.error_s > CLOCK_ERROR_S and aligned:
        return warning("clock", f"it may be wrong by {clock.error_s:.2f} s", remedy)
    error_ms = (clock.error_s or 0.0) * 1e3
    within = "" if clock.error_s is None else f", at most {error_ms:.0f} ms wrong"
    return good("clock", f"synchronised{within}")


def _check_directories(facts: NodeFacts) -> Iterator[Finding]:
    if facts.run_dir_problem:
        yield problem("run-dir", facts.run_dir_problem, "name another with --run-dir")
    elif facts.run_dir_free_bytes < RUN_DIR_LEAST_BYTES:
        yield warning(
            "run-dir",
            f"{facts.run_dir}: {format_bytes(facts.run_dir_free_bytes)} are free",
            "free some, or give the trace less: trace = 4M in [node]",
        )
    else:
        yield good("run-dir", facts.run_dir)
    if facts.history_problem:
        yield warning("history", facts.history_problem, "make it writable for the daemons")
    if facts.shm_free_bytes < SHM_LEAST_BYTES:
        yield problem(
            "shm",
            f"/dev/shm: {format_bytes(facts.shm_free_bytes)} are free",
            "remove files of dead jobs there, or mount it with a larger size=",
        )


def _check_memory(facts: NodeFacts) -> Iterator[Finding]:
    daemon = facts.daemon
    pressure = daemon.memory_pressure_percent if daemon else None
    if pressure is not None and pressure > WARN_PRESSURE_PERCENT:
        yield warning(
            "memory",
            f"tasks waited for memory in {pressure:.0f}% of the last ten seconds",
            "let the batch system count memory, or declare it: cosched-run --memory",
        )
        return
    if daemon is not None and not daemon.memory_guarded:
        yield note(
            "memory",
            "jobs are not kept waiting for memory",
            'memory = "auto" in [node], unless the batch system counts it',
        )
    swap = f", swap {format_bytes(facts.swap_bytes)}" if facts.swap_bytes else ""
    yield good("memory", f"{format_bytes(facts.memory_bytes)}{swap}")


def _check_halves(facts: NodeFacts) -> Iterator[Finding]:
    """Yields how a domain whose jobs share nodes would divide this one."""
    if facts.halves:
        sets = " and ".join(format_cpus(part) for part in facts.halves)
        yield good("halves", f"CPUs {sets} would be the halves, {facts.halves_why}")
    elif facts.halves_why:
        yield note("halves", "a domain with parts = 2 cannot use it", facts.halves_why)


def _check_unit(facts: NodeFacts) -> Iterator[Finding]:
    if facts.unit in ("disabled", "not-found"):
        what = "is not installed" if facts.unit == "not-found" else "is disabled"
        yield note(
            "unit",
            f"cosched.service {what}, so no daemons are up after a boot",
            "see docs/cluster.md; then: systemctl enable cosched",
        )
    elif facts.unit:
        yield good("unit", f"cosched.service is {facts.unit}")


def _check_mpis(facts: NodeFacts) -> Iterator[Finding]:
    if facts.mpis is None:
        return
    if not facts.mpis:
        yield note(
            "mpi",
            "no mpiexec is in PATH",
            "users name theirs: cosched-run --mpi, or load its module first",
        )
    for mpi in facts.mpis:
        name = f"{mpi.title} {mpi.version}"
        if mpi.mpicc is None:
            yield warning(
                "mpi",
                f"{name} has no mpicc, so the shim cannot be built here",
                "build it where mpicc is: cosched shim build",
            )
        elif mpi.site_shim:
            yield good("mpi", f"{name}, its shim is {mpi.site_shim}")
        elif mpi.no_shim:
            yield warning(
                "mpi",
                f"{name}: its shim cannot be built here: {mpi.no_shim}",
                "install a C compiler and the MPI's headers: apt install gcc libmpich-dev, "
                "or libopenmpi-dev",
            )
        else:
            yield good("mpi", f"{name}, its shim can be built with {mpi.mpicc}")
