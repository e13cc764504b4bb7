"""Standard streams that are closed, non-blocking, or without a reader."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys

import pytest

from cosched.start.streams import write_some

#: The first act of each program of cosched.
BEGIN = "from cosched.start.streams import begin; begin(); import os, sys\n"
SIZE = 400_000


def program(text):
    return [sys.executable, "-c", BEGIN + text]


def shell(text, redirections):
    words = " ".join(f"'{word}'" for word in program(text))
    return subprocess.run(
        ["sh", "-c", f"{words} {redirections}"], capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_streams_become_dev_null(closed):
    """A file that is opened later gets none of the three numbers."""
    text = (
        "print(1); print(2, file=sys.stderr); sys.stdin.fileno(); "
        "sys.exit(9 if os.open(os.devnull, os.O_RDONLY) > 2 else 1)"
    )
    done = shell(text, closed)
    assert done.returncode == 9
    assert done.stdout == ("" if ">&-" in closed.split() else "1\n")


def test_a_child_inherits_what_was_opened():
    text = 'import subprocess; sys.exit(subprocess.run(["sh", "-c", "echo x"]).returncode)'
    assert shell(text, ">&-").returncode == 0


def through_a_nonblocking_pipe(words, **variables):
    """Returns the status and the length of the output; the reader begins when the pipe is
    full."""
    reader, writer = os.pipe()
    fcntl.fcntl(writer, fcntl.F_SETFL, os.O_WRONLY | os.O_NONBLOCK)
    full = fcntl.fcntl(writer, fcntl.F_GETPIPE_SZ)
    with subprocess.Popen(words, stdout=writer, env={**os.environ, **variables}) as process:
        os.close(writer)
        length, begun = 0, False
        while True:
            if not begun:
                begun = pending(reader) >= full // 2 or process.poll() is not None
                continue
            data = os.read(reader, 1000)
            if not data:
                break
            length += len(data)
        os.close(reader)
    return process.returncode, length


def pending(descriptor):
    import termios

    found = fcntl.ioctl(descriptor, termios.FIONREAD, b"\0" * 4)
    return int.from_bytes(found, sys.byteorder)


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize(
    "text",
    [
        f"print('x' * {SIZE - 1})",
        f"import click; click.echo('x' * {SIZE - 1})",
        f"sys.stdout.buffer.write(b'x' * {SIZE})",
        f"[print('x' * 99) for _ in range({SIZE // 100})]",
    ],
)
def test_output_through_a_nonblocking_pipe_is_complete(text, unbuffered):
    words = program(text)
    found = through_a_nonblocking_pipe(words, PYTHONUNBUFFERED=unbuffered)
    assert found == (0, SIZE)


def test_a_write_waits_for_room():
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    size = fcntl.fcntl(writer, fcntl.F_GETPIPE_SZ)
    try:
        assert write_some(writer, b"x" * 3 * size) == size
        os.close(reader)
        with pytest.raises(BrokenPipeError):
            write_some(writer, b"x")
    finally:
        os.close(writer)


def test_reports_without_a_reader_end_nothing():
    text = '[print("x", file=sys.stderr) for _ in range(9)]; print("end")'
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(program(text), stdout=subprocess.PIPE, stderr=writer, check=False)
    os.close(writer)
    assert (done.returncode, done.stdout) == (0, b"end\n")


def test_a_locale_that_python_has_set_is_not_passed_on():
    environ = {"PATH": os.environ["PATH"]}
    text = "import subprocess; subprocess.run(['printenv', 'LC_CTYPE'])"
    words = program(text)
    assert output_of(words, environ) == b""
    given = {**environ, "LC_CTYPE": "C.UTF-8"}
    assert output_of(words, given) == b"C.UTF-8\n"


def output_of(words, environ):
    return subprocess.run(words, env=environ, capture_output=True, check=True).stdout
