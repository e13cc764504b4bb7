"""Limits that travel with a job, and background processes that keep nothing of the command
which started them."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from cosched.linux.processes.limits import (
    TRAVELLING,
    UNLIMITED,
    limit_task,
    limits_of,
    lower,
    most_processes,
    own_limits,
    what_holds_back,
)

#: Prints the state of a process.
STATE = """
import json, os, psutil, resource, signal
print(json.dumps({
    "cpus": len(os.sched_getaffinity(0)), "umask": os.umask(0), "cwd": os.getcwd(),
    "files": resource.getrlimit(resource.RLIMIT_NOFILE)[0],
    "hangup": signal.getsignal(signal.SIGHUP).name,
    "realtime": signal.getsignal(signal.SIGRTMIN + 6).name,
    "io": psutil.Process().ionice().ioclass.name,
    "score": int(open("/proc/self/oom_score_adj").read()),
    "blocked": sorted(signal.pthread_sigmask(signal.SIG_BLOCK, ())),
    "nice": os.getpriority(os.PRIO_PROCESS, 0), "leads": os.getsid(0) == os.getpid(),
    "variables": sorted(set(os.environ) & {"LD_AUDIT", "OMPI_MCA_x", "HOME"}),
}))
"""
#: Gets into a state of its own, and starts a background process.
STARTER = """
import os, psutil, resource, signal, subprocess, sys
from cosched.linux.processes.background import start_background
hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (50, hard))
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
os.umask(0o077)
if os.geteuid() == 0:
    os.setpriority(os.PRIO_PROCESS, 0, 5)
signal.signal(signal.SIGHUP, signal.SIG_IGN)
signal.signal(signal.SIGRTMIN + 6, signal.SIG_IGN)
psutil.Process().ionice(psutil.IOPRIO_CLASS_IDLE)
open("/proc/self/oom_score_adj", "w").write("500")
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
os.environ.update(LD_AUDIT="", OMPI_MCA_x="1", HOME="/tmp")
words = [sys.executable, "-c", sys.argv[1]]
process = start_background(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
print(process.communicate()[0].decode())
"""


def test_a_background_process_keeps_nothing_of_its_starter() -> None:
    words = [sys.executable, "-c", STARTER, STATE]
    done = subprocess.run(words, check=True, capture_output=True, text=True)
    first = limits_of(1)[resource.RLIMIT_NOFILE][0]
    files = lower(first, resource.getrlimit(resource.RLIMIT_NOFILE)[1])
    assert json.loads(done.stdout) == {
        "cpus": len(os.sched_getaffinity(0)),
        "umask": 0o022,
        "cwd": "/",
        "files": files,
        "hangup": "SIG_DFL",
        "realtime": "SIG_DFL",
        "io": "IOPRIO_CLASS_NONE",
        "score": int(Path("/proc/1/oom_score_adj").read_text()),
        "blocked": [],
        "nice": 0,
        "leads": True,
        "variables": ["HOME"],
    }


def test_a_process_with_lower_hard_limits_or_a_higher_nice_value_is_held_back() -> None:
    def start(*words: str) -> subprocess.Popen[bytes]:
        script = "$@; read go"
        return subprocess.Popen(
            ["sh", "-c", f'echo; eval "{words[0]}"; {script}', "sh", "echo"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )

    nice = os.getpriority(os.PRIO_PROCESS, 0)
    cases = {
        "ulimit -t 1000": "the hard limit cpu 1000, not unlimited",
        "ulimit -St 1000": "",
        ":": "",
        f"renice -n {nice + 3} $$ >/dev/null": f"the nice value {nice + 3}, not {nice}",
    }
    if resource.getrlimit(resource.RLIMIT_CPU)[1] != UNLIMITED:
        pytest.skip("this process has a limit of CPU time")
    for words, expected in cases.items():
        with start(words) as process:
            assert process.stdout is not None
            process.stdout.readline()
            process.stdout.readline()  # the state is set
            assert what_holds_back(process.pid) == expected
            process.communicate(b"\n")
    assert what_holds_back(process.pid) == ""  # it has ended


def test_limits_travel_as_far_as_the_hard_limits_allow() -> None:
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as child:
        resource.prlimit(child.pid, resource.RLIMIT_NOFILE, (50, 100))
        wanted = {"nofile": UNLIMITED, "cpu": 77, "core": 0}
        limit_task(child.pid, wanted, most_processes=1000)
        found = limits_of(child.pid)
        child.communicate()
    assert found[resource.RLIMIT_NOFILE] == (100, 100)
    assert found[resource.RLIMIT_CPU][0] == 77
    assert found[resource.RLIMIT_CORE][0] == 0
    assert found[resource.RLIMIT_NPROC][1] <= 1000
    assert found[resource.RLIMIT_STACK] == resource.getrlimit(resource.RLIMIT_STACK)


def test_limits_are_read_as_the_kernel_has_them() -> None:
    own = limits_of(os.getpid())
    assert own == {number: resource.getrlimit(number) for number in own}
    assert set(TRAVELLING.values()) <= set(own)
    assert own_limits() == {name: own[number][0] for name, number in TRAVELLING.items()}
    assert limits_of(1 << 22) == {}
    assert (lower(UNLIMITED, 5), lower(5, UNLIMITED), lower(3, 5)) == (5, 5, 3)
    assert lower(UNLIMITED, UNLIMITED) == UNLIMITED
    with open("/proc/sys/kernel/pid_max") as file:
        assert most_processes() == int(file.read()) // 2
