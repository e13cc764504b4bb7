"""Starts processes that serve others after the command that starts them has ended.

They do not keep the state of that command, since it is that of any one shell: limits, nice
value, I/O class, CPUs, umask, ignored signals, their score for the out-of-memory killer,
and variables that steer loaders and MPI libraries.

Inside an engine's group of one job, a batch job for example, the engine sets CPUs, nice
value, I/O class and score, so they stay.

Limits: an ordinary user cannot raise a hard limit or lower a nice value again, so those of
the starting command stay. Control groups stay: they belong to the site.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import IO

from cosched.linux import proc
from cosched.linux.cgroups.cgroupfs import hierarchies
from cosched.linux.cgroups.inplace.job_groups import job_group
from cosched.linux.processes.limits import take_limits_of_the_machine

UMASK = 0o022
#: More CPUs than a kernel has; it takes those that are there.
_CPUS = 8192
#: The first letters of variables of other programs' jobs.
_DROPPED = (
    *("LD_PRELOAD", "LD_AUDIT", "GLIBC_TUNABLES", "MALLOC_"),
    *("PMI_", "PMI2_", "PMIX_", "OMPI_", "PRTE_", "MPICH_", "HYDRA_", "HYDI_"),
    *("HWLOC_", "UCX_", "OMP_", "COSCHED_DOMAIN_"),
)
_DROPPED_NAMES = (
    *("COSCHED_JOB", "COSCHED_JOIN", "COSCHED_EXPECTED", "COSCHED_LAUNCHED"),
    *("COSCHED_LAUNCHER", "COSCHED_STATUS", "COSCHED_SUBMITTED", "COSCHED_MEMORY"),
    "COSCHED_LIMITED_BY",
)


def start_background(
    command: Sequence[str],
    *,
    stdout: int,
    stderr: int | IO[bytes],
    pass_fds: Sequence[int] = (),
) -> subprocess.Popen[bytes]:
    """Starts a process in a session of its own, with the state that the machine gives.
    stdout, stderr, pass_fds: as of Popen. OSError passes."""
    return subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=stdout,
        stderr=stderr,
        pass_fds=pass_fds,
        start_new_session=True,
        # A module in the current directory must not replace one of cosched.
        cwd="/",
        umask=UMASK,
        preexec_fn=forget_starter,  # noqa: PLW1509  (cosched's commands have one thread)
    )


def leave_running(child: subprocess.Popen[bytes]) -> None:
    """Lets a child run on without this process, which closes the pipe of its output."""
    assert child.stdout is not None
    child.stdout.close()
    child.returncode = 0  # or its end would be awaited


def forget_starter() -> None:
    """Gives this process the state that the machine gives, as far as it may."""
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    take_limits_of_the_machine()
    if not is_in_a_job():
        for reset in (
            _use_all_cpus,
            _be_as_nice_as_others,
            _use_usual_io_class,
            _be_scored_as_others,
        ):
            with contextlib.suppress(OSError):
                reset()
    for name in [name for name in os.environ if _is_dropped(name)]:
        del os.environ[name]


def _use_all_cpus() -> None:
    os.sched_setaffinity(0, range(_CPUS))


def _be_as_nice_as_others() -> None:
    os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
    os.setpriority(os.PRIO_PROCESS, 0, 0)


def _use_usual_io_class() -> None:
    from cosched.linux.io_class import use_usual_io_class  # only a new process needs it

    use_usual_io_class()


def _be_scored_as_others() -> None:
    usual = proc.read_of(1, "oom_score_adj")
    if usual is not None:
        Path("/proc/self/oom_score_adj").write_text(usual)


def _is_dropped(name: str) -> bool:
    return name.startswith(_DROPPED) or name in _DROPPED_NAMES


def is_in_a_job() -> bool:
    """Returns whether this process is in an engine's group of one job."""
    for hierarchy in hierarchies():
        group = hierarchy.group_of("self")
        if group is not None and job_group(tuple(group.strip("/").split("/"))) is not None:
            return True
    return False
