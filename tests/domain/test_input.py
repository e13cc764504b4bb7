"""Gives jobs of a domain of two nodes standard input by cosched submit --wait."""

import hashlib
import os
import pty
import signal
import subprocess
import time

import pytest

from tests.domain.rig import WITHIN_S
from tests.domain.user import BIN, User
from tests.tools.commands import GIVEN_MOST

pytestmark = pytest.mark.mpi_job
#: Rank 0 of a job on both nodes is on n1, where the user's commands ask by default.
OTHER = {"COSCHED_NODE": "n2"}


@pytest.fixture(scope="module")
def user(pair):
    return User(pair)


def given(user, data, *words, **environ):
    """Runs cosched submit --wait with this input; returns status, output, errors."""
    if len(data) <= GIVEN_MOST:
        return user.run_with(data, "submit", "--wait", *words, text=False, **environ)
    with user.start(
        "submit", "--wait", *words, stdin=subprocess.PIPE, text=False, **environ
    ) as process:
        out, err = process.communicate(data, timeout=4 * WITHIN_S)
    return process.returncode, out, err


def test_rank_0_reads_the_input_and_others_read_nothing(user):
    done = given(user, b"a\n\xff\0b", "-n", "8", "cat")
    assert done == (0, b"a\n\xff\0b", b"")


def test_input_comes_through_another_node_than_that_of_rank_0(user):
    done = given(user, b"over\n", "--nodes", "2", "--ppn", "1", "cat", **OTHER)
    assert done == (0, b"over\n", b"")


def test_input_comes_through_the_controller(user):
    nowhere = {"COSCHED_NODE": "nowhere"}  # only the controller's socket is left
    assert given(user, b"through\n", "cat", **nowhere) == (0, b"through\n", b"")


def test_empty_and_missing_input_end_at_once(user):
    assert given(user, b"", "cat") == (0, b"", b"")
    words = ("submit", "--wait", "cat")
    script = f"exec {BIN}/cosched {' '.join(words)} <&-"
    done = subprocess.run(
        ["sh", "-c", script],
        cwd=user.rig.work,
        env=user.environ,
        capture_output=True,
        timeout=WITHIN_S,
        check=True,
    )
    assert done.stdout == b""


def test_file_and_none_replace_the_input(user):
    (user.rig.work / "data").write_text("from the file\n")
    assert given(user, b"own", "--input", "data", "cat")[1] == b"from the file\n"
    for none in ("none", "/dev/null"):
        assert given(user, b"own", "--input", none, "cat")[1] == b""
    assert given(user, b"own", "--requeue", "cat")[1] == b""
    assert given(user, b"own", "--input", "-", "cat")[1] == b"own"


def test_loop_loses_nothing_that_the_job_does_not_get(user):
    script = (
        f"while read line; do {BIN}/cosched submit --wait --input none echo $line; done"
    )
    done = subprocess.run(
        ["sh", "-c", script],
        input="1\n2\n",
        text=True,
        cwd=user.rig.work,
        env=user.environ,
        capture_output=True,
        timeout=2 * WITHIN_S,
        check=True,
    )
    assert done.stdout == "1\n2\n"


@pytest.mark.parametrize("where", [{}, OTHER], ids=["here", "other"])
def test_100_megabytes_arrive_whole(user, where):
    data = os.urandom(1 << 20) * 100
    words = ("--nodes", "2", "--ppn", "1", "sha256sum")
    status, out, err = given(user, data, *words, **where)
    assert (status, err) == (0, b"")
    assert hashlib.sha256(data).hexdigest().encode() in out


def test_program_that_closes_its_input_stops_the_copy(user):
    status, out, err = given(user, b"line\n" * (1 << 20), "head", "-n", "2")
    assert (status, out, err) == (0, b"line\nline\n", b"")
    script = "read line; exec 0<&-; sleep 1; echo $line"
    status, out, err = given(user, b"line\n" * (1 << 20), "sh", "-c", script)
    assert (status, out, err) == (0, b"line\n", b"")


def test_input_that_is_not_read_waits_at_its_writer(user):
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    process = user.start("submit", "--wait", "sleep", "2", stdin=reading)
    os.close(reading)
    sent = 0
    while process.poll() is None:
        try:
            sent += os.write(writing, b"x" * 65536)
        except BlockingIOError:
            time.sleep(0.01)
        except BrokenPipeError:
            break
    os.close(writing)
    assert process.communicate(timeout=WITHIN_S) == ("", "")
    assert sent < 1 << 20


def test_nothing_is_read_before_the_job_runs(user):
    reading, writing = os.pipe()
    os.write(writing, b"kept\n")
    with user.start("submit", "--wait", "--hold", "cat", stdin=reading) as process:
        user.rig.until(lambda: "held" in user.run("queue")[1], "does not wait")
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=WITHIN_S)
    assert os.read(reading, 100) == b"kept\n"
    os.close(reading)
    os.close(writing)


def test_killed_user_ends_the_input(user):
    script = "cat; echo over > over"
    over = user.rig.work / "over"
    with user.start(
        *("submit", "--wait", "--nodes", "1", "sh", "-c", script),
        stdin=subprocess.PIPE,
        text=False,
        XDG_CACHE_HOME=str(user.rig.work),
        **OTHER,
    ) as process:
        process.stdin.write(b"begin\n")
        process.stdin.flush()
        assert process.stdout.readline() == b"begin\n"
        process.kill()
        user.rig.until(over.exists, "the input has not ended")
    over.unlink()


def test_input_goes_on_while_the_controller_restarts(user):
    with user.start("submit", "--wait", "cat", stdin=subprocess.PIPE) as process:
        process.stdin.write("a\n")
        process.stdin.flush()
        assert process.stdout.readline() == "a\n"
        user.rig.kill("controller")
        process.stdin.write("b\n")
        process.stdin.flush()
        user.rig.start("controller")
        user.rig.until_up()
        assert process.communicate("c\n", timeout=WITHIN_S) == ("b\nc\n", "")


# -- terminals -----------------------------------------------------------------------------


@pytest.fixture
def terminal(user):
    """A shell on a terminal."""
    pid, descriptor = pty.fork()
    if pid == 0:
        os.chdir(user.rig.work)
        os.execve("/bin/bash", ["bash", "--norc", "-i"], {**user.environ, "PS1": "> "})
    yield Terminal(descriptor)
    os.kill(pid, signal.SIGKILL)
    os.close(descriptor)
    os.waitpid(pid, 0)


class Terminal:
    """A person's terminal. seen: the text that was shown and not yet waited for."""

    def __init__(self, descriptor):
        self._descriptor = descriptor
        os.set_blocking(descriptor, False)
        self.seen = ""

    def send(self, text):
        """Types a text."""
        os.write(self._descriptor, text.encode())

    def until(self, text):
        """Waits until the terminal shows the text, after all that was waited for."""
        deadline = time.monotonic() + WITHIN_S
        while text not in self.seen:
            assert time.monotonic() < deadline, self.seen
            try:
                self.seen += os.read(self._descriptor, 4096).decode().replace("\r", "")
            except BlockingIOError:
                time.sleep(0.01)
        self.seen = self.seen.partition(text)[2]


def test_program_answers_at_a_terminal(terminal):
    terminal.send("cosched submit --wait sh -c 'while read a; do echo got $a; done'\n")
    for word in ("one", "two"):
        terminal.send(f"{word}\n")
        terminal.until(f"got {word}\n")
    terminal.send("\x04")
    terminal.until("> ")


def test_background_process_takes_the_terminal_only_in_the_foreground(terminal):
    terminal.send("cosched submit --wait sh -c 'echo began; read a; echo got $a' &\n")
    terminal.until("began\n")
    time.sleep(0.5)
    terminal.send("echo $((6 * 7))\n")
    terminal.until("42\n")
    terminal.send("jobs\n")
    terminal.until("Running")
    terminal.send("fg\n")
    terminal.until("fg\n")
    time.sleep(0.5)
    terminal.send("mine\n")
    terminal.until("got mine\n")
