"""No control sequence of a daemon, a file or another user reaches the terminal."""

from __future__ import annotations

import io
import json
import socket
import sys
import threading

import click
import pytest

from cosched.cli.entry import run_cli
from cosched.cli.printing import PrintableStream, display_stream, printable_output
from cosched.core.errors import CoschedError
from tests.tools.commands import run_command

HOSTILE = "a\x1b]0;title\x07\x9b31m\rforged\u2028\ud800"
SHOWN = "a\ufffd]0;title\ufffd\ufffd31m\ufffdforged\ufffd\ufffd"


@pytest.mark.parametrize("printed", [print, click.echo, sys.stdout.write])
def test_text_of_a_command_has_no_control_characters(capsys, printed):
    @click.command("cosched")
    def command():
        if printed in (print, click.echo):
            printed(HOSTILE)
            printed(f"two\tlines\n{HOSTILE}", file=sys.stderr)
        else:
            sys.stdout.write(f"{HOSTILE}\n")
            sys.stderr.writelines([f"two\tlines\n{HOSTILE}", "\n"])

    assert run_cli(command, []) == 0
    shown = capsys.readouterr()
    assert shown.out == f"{SHOWN}\n"
    assert shown.err == f"two\tlines\n{SHOWN}\n"


def test_an_error_has_no_control_characters(capsys):
    @click.command("cosched")
    def command():
        raise CoschedError(HOSTILE)

    assert run_cli(command, []) == 1
    assert capsys.readouterr().err == f"cosched: {SHOWN}\n"


def test_the_streams_are_as_before_after_a_command(capsys):
    before = sys.stdout, sys.stderr
    run_cli(click.command("cosched")(lambda: None), [])
    assert (sys.stdout, sys.stderr) == before


def test_a_line_of_progress_begins_with_a_carriage_return():
    out = io.StringIO()
    PrintableStream(out).write("\r1 of 2\r")
    assert out.getvalue() == "\r1 of 2\ufffd"


def test_an_encoding_without_the_mark_gets_another_one():
    raw = io.BytesIO()
    out = io.TextIOWrapper(raw, encoding="iso-8859-1")
    PrintableStream(out).write("a\x1b")
    out.flush()
    assert raw.getvalue() == b"a?"


def test_a_display_gets_the_stream_itself(capsys):
    before = display_stream()
    with printable_output():
        assert display_stream() is before
        assert sys.stderr is not before


def test_status_of_a_hostile_daemon_has_no_control_characters(tmp_path):
    folder = tmp_path / "n1"
    folder.mkdir()
    with socket.socket(socket.AF_UNIX) as door:
        door.bind(str(folder / "control.sock"))
        door.listen()

        def serve():
            connection, _ = door.accept()
            with connection:
                connection.recv(4096)
                answer = {"error": "\x1b]0;title\x07\x9b2J\nforged line"}
                connection.sendall(json.dumps(answer).encode() + b"\n")

        thread = threading.Thread(target=serve)
        thread.start()
        words = ["status", "--run-dir", str(tmp_path), "--node", "n1"]
        done = run_command(*words)
        thread.join()
    assert done.returncode == 1
    assert done.stderr.replace("\n", "").isprintable()
    assert "\ufffd]0;title\ufffd\ufffd2J" in done.stderr
