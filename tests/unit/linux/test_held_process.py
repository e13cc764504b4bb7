"""Processes that wait at a gate and become programs, with real processes."""

import contextlib
import os
import re
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from cosched.linux.native.held_process import CANNOT_EXECUTE, HeldProcess, Program

WITHIN_S = 20.0
ENVIRON = {"PATH": os.environ["PATH"]}
#: As in gate.c.
STACK_BYTES = 64 << 10


@pytest.fixture
def make():
    """Returns a function that makes a process; all of them end with the test."""
    made = []  # each with a pidfd

    def start(script="exit 0", *, path="/bin/sh", argv=None, **more):
        null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
        more.setdefault("standard", (null, null, null))
        try:
            gated = HeldProcess(Program(path, argv or ("sh", "-c", script), **more))
        finally:
            os.close(null)
        made.append((gated, os.pidfd_open(gated.pid)))
        return gated

    yield start
    for gated, pidfd in made:
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(pidfd, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            os.waitid(os.P_PIDFD, pidfd, os.WEXITED)
        os.close(pidfd)
        gated.close()


@pytest.fixture
def pipe():
    """A pipe: its end to read, as a file, and its end to write."""
    reads, writes = os.pipe2(os.O_CLOEXEC)
    with os.fdopen(reads) as file:
        yield file, writes
        with contextlib.suppress(OSError):  # the test has closed it
            os.close(writes)


def open_descriptors():
    return {int(name) for name in os.listdir("/proc/self/fd")}


def output_of(make, pipe, script, environ=ENVIRON, **more):
    """Returns what a process with this script writes."""
    file, writes = pipe
    null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    gated = make(script, standard=(null, writes, writes), **more)
    os.close(null)
    os.close(writes)
    gated.open(environ)
    text = file.read()
    assert status_of(gated) == 0
    return text


def memory_of_maps():
    """Returns the bytes of this process's memory, used or not."""
    text = Path("/proc/self/status").read_text()
    return int(re.search(r"VmSize:\s+(\d+) kB", text)[1]) << 10


def status_of(gated):
    _, status = os.waitpid(gated.pid, 0)
    return os.waitstatus_to_exitcode(status)


def state_of(gated):
    return Path(f"/proc/{gated.pid}/stat").read_text().rpartition(")")[2].split()[0]


def until(check):
    deadline = time.monotonic() + WITHIN_S
    while not check():
        assert time.monotonic() < deadline
        time.sleep(0.005)


# --- the program --------------------------------------------------------------------------


def test_a_process_becomes_its_program_with_arguments_and_environment(make, pipe):
    script = 'echo "$0 $1 $A $B"; env | sort'
    environ = {**ENVIRON, "A": "one two", "B": "ä"}
    argv = ("sh", "-c", script, "name", "word")
    text = output_of(make, pipe, script, environ, argv=argv)
    assert text.splitlines()[0] == "name word one two ä"
    assert {"A=one two", "B=ä"} <= set(text.splitlines())


def test_it_is_the_leader_of_its_group_and_a_child_of_its_maker(make, pipe):
    text = output_of(make, pipe, "echo $$ $PPID; ps -o pgid= -p $$")
    pid, parent, group = map(int, text.split())
    assert (parent, group) == (os.getpid(), pid)


def test_it_has_its_standard_descriptors_and_those_that_it_keeps_only(make, pipe):
    kept = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    other = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    try:
        text = output_of(make, pipe, "exec ls /proc/self/fd", inherited=(kept,))
        usual = {0, 1, 2, kept} | set(filter(is_inheritable, open_descriptors()))
    finally:
        os.close(kept)
        os.close(other)
    found = set(map(int, text.split()))
    assert usual <= found
    assert len(found) == len(usual) + 1  # ls opens one, for the directory
    assert other not in found or found - usual == {other}


def is_inheritable(descriptor):
    try:
        return os.get_inheritable(descriptor)
    except OSError:  # it was that of the directory
        return False


def test_it_may_use_its_cpus_only(make, pipe):
    before = os.sched_getaffinity(0)
    cpu = max(before)
    script = "grep Cpus_allowed_list /proc/self/status"
    assert output_of(make, pipe, script, cpus=(cpu,)).split()[1] == str(cpu)
    assert os.sched_getaffinity(0) == before


def test_its_signals_have_their_default_actions(make, pipe):
    file, writes = pipe
    ignored = [signal.SIGCHLD, signal.SIGPIPE, signal.SIGXFSZ, signal.SIGINT]
    ignored.append(signal.SIGTERM)
    before = {number: signal.signal(number, signal.SIG_IGN) for number in ignored}
    try:
        gated = make("exec cat /proc/self/status", standard=(writes, writes, writes))
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    os.close(writes)
    gated.open(ENVIRON)
    found = re.findall(r"(Sig\w+):\s+(\w+)", file.read())
    masks = {name: int(mask, 16) for name, mask in found}
    assert masks["SigBlk"] == 0
    assert [number for number in ignored if masks["SigIgn"] & 1 << number - 1] == []


def test_a_program_that_is_not_there_is_a_failure_with_its_reason(make):
    gated = make(path="/none/such")
    gated.open(ENVIRON)
    assert status_of(gated) == CANNOT_EXECUTE
    assert gated.read_failure() == "No such file or directory"


def test_cpus_that_are_not_there_are_a_failure_with_its_reason(make):
    gated = make(cpus=(100_000,))
    assert status_of(gated) == CANNOT_EXECUTE
    gated.open(ENVIRON)  # nothing happens
    assert gated.read_failure() == "Invalid argument"


def test_a_program_has_no_failure(make):
    gated = make("exit 3")
    gated.open(ENVIRON)
    assert (status_of(gated), gated.read_failure()) == (3, "")


@pytest.mark.parametrize("word", ["a\0b"])
def test_a_word_with_a_nul_is_refused(make, word):
    before = open_descriptors()
    with pytest.raises(ValueError, match="NUL"):
        make(argv=("sh", word))
    assert open_descriptors() == before


# --- the gate -----------------------------------------------------------------------------


def test_the_program_does_not_begin_before_the_gate_opens(make, tmp_path):
    gated = make(f"touch {tmp_path}/began")
    until(lambda: state_of(gated) == "S")
    assert not (tmp_path / "began").exists()
    gated.open(ENVIRON)
    assert status_of(gated) == 0
    assert (tmp_path / "began").exists()


def test_a_process_whose_gate_closes_ends_well(make):
    gated = make("exit 3")
    gated.discard()
    assert (status_of(gated), gated.read_failure()) == (0, "")


def test_a_signal_at_the_gate_ends_the_process_and_runs_no_handler_of_its_maker(make):
    came = []
    before = signal.signal(signal.SIGTERM, lambda *_: came.append(1))
    try:
        gated = make()
        os.kill(gated.pid, signal.SIGTERM)
        assert status_of(gated) == -signal.SIGTERM
    finally:
        signal.signal(signal.SIGTERM, before)
    assert came == []


def test_a_gate_can_open_for_a_process_that_was_killed(make):
    gated = make()
    os.kill(gated.pid, signal.SIGKILL)
    assert status_of(gated) == -signal.SIGKILL
    gated.open(ENVIRON)


def test_a_gate_that_is_closed_stays_closed(make):
    gated = make("exit 3")
    gated.discard()
    gated.open(ENVIRON)
    assert status_of(gated) == 0


def test_a_process_that_stops_and_continues_at_the_gate_becomes_the_program(make):
    gated = make("exit 5")
    os.kill(gated.pid, signal.SIGSTOP)
    until(lambda: state_of(gated) == "T")
    gated.open(ENVIRON)
    os.kill(gated.pid, signal.SIGCONT)
    assert status_of(gated) == 5


MAKER = """
import os, time
from cosched.linux.native.held_process import HeldProcess, Program
gated = HeldProcess(Program("/bin/sh", ("sh", "-c", "exit 0"), (0, 1, 2)))
print(gated.pid, flush=True)
time.sleep(1000)
"""


def test_a_process_ends_with_its_maker():
    with subprocess.Popen([sys.executable, "-c", MAKER], stdout=subprocess.PIPE) as maker:
        pidfd = os.pidfd_open(int(maker.stdout.readline()))
        with os.fdopen(pidfd):
            maker.kill()
            assert select.select([pidfd], [], [], WITHIN_S)[0]


# --- the maker ----------------------------------------------------------------------------


def test_many_processes_wait_while_their_maker_works(make, tmp_path):
    gated = [make(f"echo $VALUE > {tmp_path}/{number}") for number in range(100)]
    work = {number: str(number) * 50 for number in range(20_000)}
    for number, each in enumerate(gated):
        each.open({**ENVIRON, "VALUE": str(number)})
    assert [status_of(each) for each in gated] == [0] * 100
    found = [int((tmp_path / str(number)).read_text()) for number in range(100)]
    assert found == list(range(100))
    assert all(text == str(number) * 50 for number, text in work.items())


def test_processes_leave_no_memory_and_no_descriptor():
    def run():
        null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
        gated = HeldProcess(Program("/bin/true", ("true",), (null, null, null)))
        os.close(null)
        gated.open({})
        assert status_of(gated) == 0
        gated.close()

    run()
    bytes_before, descriptors = memory_of_maps(), open_descriptors()
    for _ in range(200):
        run()
    assert memory_of_maps() < bytes_before + 100 * STACK_BYTES
    assert open_descriptors() == descriptors


def test_the_signal_mask_of_the_maker_stays(make):
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    make()
    assert signal.pthread_sigmask(signal.SIG_BLOCK, ()) == before


def test_a_process_that_cannot_be_made_leaves_nothing():
    script = """
import os, resource
from cosched.linux.native.held_process import HeldProcess, Program
os.setgroups([])
os.setresuid(12345, 12345, 12345)
before = os.listdir("/proc/self/fd")
resource.setrlimit(resource.RLIMIT_NPROC, (0, 0))
try:
    HeldProcess(Program("/bin/true", ("true",), (0, 1, 2)))
except BlockingIOError:
    print(os.listdir("/proc/self/fd") == before)
"""
    if os.geteuid() != 0:
        pytest.skip("needs root")
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout == "True\n"
