"""Running a launcher: streams, signals, status, and nothing left behind.

Small programs stand in for the launcher; each run is a process of its own, since it
changes who adopts orphans. Waiting is for something to happen, with a bound.
"""

from __future__ import annotations

import os
import pty
import select
import shlex
import signal
import subprocess
import sys
import uuid
from contextlib import contextmanager
from pathlib import Path

import pytest

PATIENCE_S = 20
RUN = """
import os, resource, sys
from cosched.launch import process
process.RANKS_LINGER_S, process.TERM_S = RANKS_LINGER_S, TERM_S
status = process.run_launcher(sys.argv[1:], os.environ)
if "REPORT" in os.environ:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(used.ru_utime + used.ru_stime, flush=True)
sys.exit(process.exit_like(status))
"""
SAYS_SIGNALS = """
import signal, sys
def say(number, frame):
    print("got", signal.Signals(number).name, flush=True)
    if number == signal.SIGTERM:
        sys.exit(5)
for name in "USR1 USR2 HUP TERM INT".split():
    signal.signal(signal.Signals["SIG" + name], say)
print("ready", flush=True)
while True:
    signal.pause()
"""


def command(*argv, linger_s=0.2, term_s=0.2, before=""):
    """A process that runs ``argv`` and is impatient with what it leaves behind. before:
    Python that runs first."""
    settings = f"RANKS_LINGER_S, TERM_S = {linger_s}, {term_s}\n"
    return [sys.executable, "-c", before + settings + RUN, *argv]


@contextmanager
def start(*argv, before="", **options):
    """Runs ``argv``; kills it if the test fails, which must not wait for its end."""
    pipes = {"stdout": subprocess.PIPE, "text": True, "bufsize": 1}
    argv = command(*argv, before=before)
    with subprocess.Popen(argv, **{**pipes, **options}) as process:
        try:
            yield process
        except BaseException:
            process.kill()
            raise


def run(*argv, patient=False, **options):
    bounds = {"linger_s": PATIENCE_S, "term_s": PATIENCE_S} if patient else {}
    return subprocess.run(
        command(*argv, **bounds),
        **{"capture_output": True, "text": True, "timeout": PATIENCE_S, **options},
        check=False,
    )


def shell(script, **options):
    return run("sh", "-c", script, **options)


def gone(pid):
    """Waits for the end of a process that need not be our child."""
    try:
        pidfd = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    with os.fdopen(pidfd):
        return bool(select.select([pidfd], [], [], PATIENCE_S)[0])


@pytest.mark.parametrize("status", [0, 3, 255])
def test_exit_status_equals_the_launchers(status):
    assert shell(f"exit {status}").returncode == status


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL, signal.SIGSEGV, 33, 40])
def test_death_by_signal_is_passed_on(number):
    assert shell(f"kill -{int(number)} $$").returncode == -number


def test_launcher_inherits_the_streams():
    done = shell("cat; echo error >&2", input="one\ntwo\n")
    assert (done.stdout, done.stderr) == ("one\ntwo\n", "error\n")


def test_launcher_that_cannot_be_started_is_an_error():
    done = run("/nonexistent/launcher")
    assert (
        "CoschedError: /nonexistent/launcher: cannot be started: No such file"
        in done.stderr
    )
    assert done.returncode == 1


def test_launcher_gets_default_signal_settings():
    ours = "SigBlk|SigIgn"
    done = shell(f"grep -E '{ours}' /proc/self/status")
    expected = subprocess.run(
        ["grep", "-E", ours, "/proc/self/status"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == expected.stdout


def test_ignored_signals_stay_ignored_in_the_launcher():
    done = shell(
        "kill -HUP $$; kill -HUP $PPID; echo alive",
        preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN),
    )
    assert (done.stdout, done.returncode) == ("alive\n", 0)


def test_signals_are_passed_on_once_and_in_order():
    names = ("SIGUSR1", "SIGUSR2", "SIGHUP", "SIGINT", "SIGTERM")

    def ignore_none():  # as who runs the tests in the background does
        for name in names:
            signal.signal(signal.Signals[name], signal.SIG_DFL)

    with start(sys.executable, "-c", SAYS_SIGNALS, preexec_fn=ignore_none) as running:
        assert running.stdout.readline() == "ready\n"
        for name in names:
            running.send_signal(signal.Signals[name])
            assert running.stdout.readline() == f"got {name}\n"
        assert running.stdout.read() == ""
        assert running.wait(PATIENCE_S) == 5


@pytest.mark.parametrize(("status", "seen"), [(1, 130), (255, 130), (0, 0), (3, 3)])
def test_interrupted_launcher_has_the_status_of_an_interrupt(status, seen):
    """As mpiexec, which fails then; a program's own status stays."""
    script = f"trap 'exit {status}' INT; echo ready; while :; do sleep 0.01; done"
    with start("sh", "-c", script, preexec_fn=_take_interrupts) as running:
        assert running.stdout.readline() == "ready\n"
        running.send_signal(signal.SIGINT)
        assert running.wait(PATIENCE_S) == seen


def test_interrupt_before_the_launcher_runs_is_an_interrupt():
    """It comes while the new process looks for the launcher in PATH."""
    argv = command("true")
    argv[2] = (
        "import os, signal\n"
        "find = os.execvpe\n"
        "os.execvpe = lambda *to: (os.kill(os.getpid(), signal.SIGINT), find(*to))\n"
    ) + argv[2]
    done = subprocess.run(argv, preexec_fn=_take_interrupts, check=False)
    assert done.returncode == -signal.SIGINT


def _take_interrupts():
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def test_stop_and_continue_reach_the_launcher():
    with start(sys.executable, "-c", SAYS_SIGNALS, preexec_fn=os.setpgrp) as running:
        assert running.stdout.readline() == "ready\n"
        running.send_signal(signal.SIGTSTP)
        _, status = os.waitpid(running.pid, os.WUNTRACED)
        assert os.WIFSTOPPED(status)
        running.send_signal(signal.SIGCONT)
        running.send_signal(signal.SIGUSR1)
        assert running.stdout.readline() == "got SIGUSR1\n"
        running.send_signal(signal.SIGTERM)
        assert running.wait(PATIENCE_S) == 5


@pytest.mark.parametrize("name", ["ALRM", "ABRT", "XCPU", "PROF", "PWR", "RTMIN+6"])
def test_signal_that_a_batch_system_may_send_is_passed_on(name):
    """Open MPI's launchers pass some of them on to their ranks."""
    script = f"trap 'echo got; exit 4' {name}; echo ready; while :; do sleep 0.01; done"
    with start("bash", "-c", script) as running:
        assert running.stdout.readline() == "ready\n"
        subprocess.run(["bash", "-c", f"kill -s {name} {running.pid}"], check=True)
        assert running.communicate(timeout=PATIENCE_S)[0] == "got\n"
    assert running.returncode == 4


def test_signal_of_a_key_reaches_the_launcher_once():
    """Ctrl-C on a terminal of our own: the kernel sends it to both of us."""
    pid, terminal = pty.fork()
    if pid == 0:
        argv = command(sys.executable, "-c", SAYS_SIGNALS)
        os.execv(argv[0], argv)
    said = read_until(terminal, b"ready")
    os.write(terminal, b"\x03")
    said += read_until(terminal, b"got SIGINT")
    os.kill(pid, signal.SIGUSR1)
    said += read_until(terminal, b"got SIGUSR1")
    os.kill(pid, signal.SIGTERM)
    _, status = os.waitpid(pid, 0)
    os.close(terminal)
    assert os.waitstatus_to_exitcode(status) == 5
    assert said.count(b"got SIGINT") == 1


def read_until(terminal, text):
    said = b""
    while text not in said:
        assert select.select([terminal], [], [], PATIENCE_S)[0], said
        said += os.read(terminal, 4096)
    return said


def test_orphans_are_ended_after_the_launcher():
    done = shell("setsid sleep 1000 & echo $!; exit 7")
    assert done.returncode == 7
    assert gone(int(done.stdout))


def test_orphans_that_ignore_sigterm_are_killed():
    done = shell("(trap '' TERM; setsid sleep 1000 & echo $!); exit 7", stderr=None)
    assert done.returncode == 7
    assert gone(int(done.stdout))


MAPS_A_SEGMENT = """
import mmap, os, signal, sys
signal.signal(signal.SIGINT, signal.SIG_DFL)
os.umask(0o077)
with open(sys.argv[1], "w+b") as file:
    file.truncate(4096)
    kept = mmap.mmap(file.fileno(), 0)
os.write(1, b"mapped\\n")  # in one piece, since two processes write
signal.pause()
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_shared_memory_of_interrupted_ranks_is_removed(number):
    path = Path(f"/dev/shm/mpich_shm_{uuid.uuid4().hex}")
    other = path.with_name(f"cosched-test-{path.name}")
    program = shlex.join([sys.executable, "-c", MAPS_A_SEGMENT])
    script = f"{program} {other} & exec {program} {path}"
    try:
        with start("sh", "-c", script) as process:
            assert [process.stdout.readline() for _ in range(2)] == ["mapped\n"] * 2
            process.send_signal(number)
        assert not path.exists()
        assert other.exists()  # its name is not that of an MPI library
    finally:
        path.unlink(missing_ok=True)
        other.unlink(missing_ok=True)


LOOKS_SOON = """
from cosched.launch import process
process.FIRST_LOOK_S, look = 0.05, process.mapped_files
def report(pids):
    found = look(pids)
    if found:
        print("looked", flush=True)
    return found
process.mapped_files = report
"""


def test_shared_memory_of_ranks_that_die_at_once_is_removed():
    path = Path(f"/dev/shm/mpich_shm_{uuid.uuid4().hex}")
    rank = shlex.join([sys.executable, "-c", MAPS_A_SEGMENT, str(path)])
    try:
        with start("sh", "-c", f"echo $$; exec {rank}", before=LOOKS_SOON) as process:
            pid = int(process.stdout.readline())
            lines = [process.stdout.readline() for _ in range(2)]
            assert lines == ["mapped\n", "looked\n"]
            os.kill(pid, signal.SIGKILL)
        assert not path.exists()
    finally:
        path.unlink(missing_ok=True)


def test_orphans_have_time_to_end():
    assert shell("(sleep 0.2; echo late) & exit 0", patient=True).stdout == "late\n"


def test_connection_that_ssh_keeps_is_left():
    """It serves later commands of the user, and would make the job seem to go on."""
    name = f"master-of-{os.getpid()}"
    master = shlex.quote(f"exec -a 'ssh: /run/{name} [mux]' sleep 1000 >&- 2>&-")
    until = f"until pgrep -f '^ssh: .*{name}'; do sleep 0.01; done"
    done = run("bash", "-c", f"setsid -f bash -c {master}; {until}; exit 7", patient=True)
    assert done.returncode == 7
    os.kill(int(done.stdout), signal.SIGKILL)  # an error if it has ended


def test_continued_orphans_have_time_to_end_after_sigterm():
    """The kernel sends SIGCONT after SIGHUP when a terminal closes; it asks for no end."""
    trap = "trap 'echo asked; sleep 0.2; echo saved; exit' TERM"
    orphan = f"{trap}; echo ready; sleep 1000 & wait"
    script = f"setsid sh -c {shlex.quote(orphan)} & read x; exit 0"
    argv = command("sh", "-c", script, term_s=PATIENCE_S)
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(argv, **pipes, text=True, bufsize=1) as running:
        assert running.stdout.readline() == "ready\n"
        running.stdin.close()
        assert running.stdout.readline() == "asked\n"
        running.send_signal(signal.SIGCONT)
        assert running.stdout.readline() == "saved\n"
        assert running.wait(PATIENCE_S) == 0


def test_ranks_of_a_killed_launcher_are_ended():
    with start("sh", "-c", "setsid sleep 1000 & echo $$ $!; wait") as running:
        launcher, rank = map(int, running.stdout.readline().split())
        os.kill(launcher, signal.SIGKILL)
        assert running.wait(PATIENCE_S) == -signal.SIGKILL
    assert gone(rank)


def test_launcher_ends_when_cosched_run_is_killed():
    with start("sh", "-c", "echo $$; exec sleep 1000") as running:
        launcher = int(running.stdout.readline())
        running.kill()
        running.wait(PATIENCE_S)
    assert gone(launcher)


def test_cpu_time_of_orphans_is_counted():
    """The launcher does not wait for its rank: only an adopter's wait can count it."""
    burn = "import time\nwhile time.process_time() < 0.3: pass"
    done = run(
        *("sh", "-c", f'"{sys.executable}" -S -c "{burn}" & exit 0'),
        env={**os.environ, "REPORT": "1"},
        patient=True,
    )
    assert float(done.stdout) >= 0.3
