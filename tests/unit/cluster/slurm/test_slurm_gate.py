"""The gate of a job as Slurm runs it: a shell script, and a program for jobs with mates."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time

import msgspec
import pytest

from cosched.cluster.engines.slurm.prolog_scripts import front_script
from cosched.cluster.engines.slurm.waiting_gates import GateHello
from cosched.config.slurm import SlurmSettings

JOB = {
    "SLURM_JOB_ID": "7",
    "SLURM_JOB_UID": "1000",
    "SLURM_JOB_RESTART_COUNT": "2",
    "SLURM_JOB_NODELIST": "n[1-2]",
    "SLURM_JOB_COMMENT": 'cosched:mate=g@b "; exit 1',
}


class Site:
    """A prolog, and the place where the controller listens."""

    def __init__(self, folder):
        self.path = folder / "s"
        self.prolog = folder / "prolog"

    def start(self, python=sys.executable, job=JOB, **settings):
        quick = {"controller_lost_after_s": 30.0, "longest_hold_s": 60.0}
        settings = SlurmSettings(**{**quick, **settings})
        self.prolog.write_text(front_script(python, self.path, settings))
        return subprocess.Popen(
            ["sh", str(self.prolog)],
            env={"PATH": "/usr/bin:/bin", **job},
            stderr=subprocess.PIPE,
        )

    def listen(self):
        server = socket.socket(socket.AF_UNIX)
        server.bind(str(self.path))
        server.listen()
        server.settimeout(20)
        return server

    def serve(self, server, answer):
        """Takes the hello of a gate, and answers it; returns the hello."""
        connection, _ = server.accept()
        with connection, connection.makefile("rb") as file:
            line = file.readline()
            connection.sendall(answer)
            return json.loads(line)


@pytest.fixture
def site(tmp_path):
    return Site(tmp_path)


def ends(process):
    process.stderr.read()
    process.stderr.close()
    return process.wait(30)


@pytest.mark.parametrize("comment", ["", "x", "see cosched:mate=g@b", "Cosched:"])
def test_job_without_mates_starts_without_python(site, comment):
    job = {**JOB, "SLURM_JOB_COMMENT": comment}
    assert ends(site.start(python="/none", job=job, then="yield")) == 0


def test_job_without_a_comment_starts(site):
    job = {key: value for key, value in JOB.items() if key != "SLURM_JOB_COMMENT"}
    assert ends(site.start(python="/none", job=job, then="yield")) == 0


@pytest.mark.parametrize(("order", "status"), [("go", 0), ("yield", 1)])
def test_order_becomes_the_status(site, order, status):
    with site.listen() as server:
        process = site.start()
        hello = site.serve(server, json.dumps({"ok": order}).encode() + b"\n")
    assert ends(process) == status
    assert len(hello.pop("life")) == 16
    assert 0 <= hello.pop("waited_s") < 20
    assert hello == {
        "job": 7,
        "uid": 1000,
        "restarts": 2,
        "nodes": "n[1-2]",
    }


@pytest.mark.parametrize("comment", [b"cosched:caf\xe9", b"cosched:\xff\xfe"])
def test_comment_that_is_no_text_is_not_sent(site, comment):
    with site.listen() as server:
        process = site.start(job={**JOB, "SLURM_JOB_COMMENT": comment})
        connection, _ = server.accept()
        with connection, connection.makefile("rb") as file:
            hello = msgspec.json.decode(file.readline(), type=GateHello)
            connection.sendall(b'{"ok": "go"}\n')
    assert hello.job == 7
    assert ends(process) == 0


def test_gate_that_is_refused_asks_less_and_less_often(site):
    times = []
    with site.listen() as server:
        process = site.start()
        for _ in range(5):
            site.serve(server, b'{"error": "not of this version"}\n')
            times.append(time.monotonic())
        site.serve(server, b'{"ok": "go"}\n')
    assert ends(process) == 0
    assert times[-1] - times[0] > 0.05 + 0.1 + 0.2 + 0.4 - 0.05


def test_hello_of_an_earlier_version_is_taken():
    line = b'{"job":7,"uid":0,"restarts":0,"nodes":"n1","comment":"c","life":"x"}'
    assert msgspec.json.decode(line, type=GateHello).job == 7


@pytest.mark.parametrize(("then", "status"), [("start", 0), ("yield", 1)])
def test_controller_that_stays_away(site, then, status):
    assert ends(site.start(controller_lost_after_s=0.3, then=then)) == status


@pytest.mark.parametrize(("then", "status"), [("start", 0), ("yield", 1)])
def test_broken_program_fails_open_or_closed_as_set(site, then, status):
    assert ends(site.start(python="/none", then=then)) == status


def test_gate_waits_for_a_controller_that_restarts(site):
    with site.listen() as server:
        process = site.start(then="yield")
        first = site.serve(server, b"")
    site.path.unlink()
    time.sleep(0.2)
    assert process.poll() is None
    with site.listen() as server:
        again = site.serve(server, b'{"ok": "go"}\n')
    assert again.pop("waited_s") >= first.pop("waited_s") + 0.2
    assert again == first
    assert ends(process) == 0


def test_garbage_is_no_order(site):
    with site.listen() as server:
        process = site.start(then="yield")
        for answer in (b"go\n", b'{"error": "who"}\n', b"[]\n", b"x" * 9000 + b"\n"):
            site.serve(server, answer)
        site.serve(server, b'{"ok":"go"}\n')
    assert ends(process) == 0


def test_lease_ends_a_hold_without_an_order(site):
    with site.listen():
        assert ends(site.start(longest_hold_s=1.0, then="start")) == 1


def test_gate_ends_with_the_script(site):
    with site.listen() as server:
        process = site.start()
        connection, _ = server.accept()
        with connection, connection.makefile("rb") as file:
            assert file.readline()
            process.kill()
            assert file.read() == b""
    process.wait(30)
    process.stderr.close()


@pytest.mark.skipif(os.geteuid() != 0, reason="needs two users")
def test_socket_of_another_user_is_no_controller(site):
    script = (
        "import os, socket, sys\n"
        "os.setuid(65534)\n"
        "s = socket.socket(socket.AF_UNIX); s.bind(sys.argv[1]); s.listen()\n"
        "print('up', flush=True)\n"
        "while True:\n"
        "    c, _ = s.accept()\n"
        '    c.sendall(b\'{"ok": "go"}\\n\')\n'
    )
    site.prolog.parent.chmod(0o777)
    other = subprocess.Popen(
        [sys.executable, "-c", script, f"/tmp/cosched-t-{os.getpid()}"],
        stdout=subprocess.PIPE,
        text=True,
    )
    site.path = f"/tmp/cosched-t-{os.getpid()}"
    try:
        assert other.stdout.readline() == "up\n"
        assert ends(site.start(controller_lost_after_s=0.5, then="yield")) == 1
    finally:
        other.kill()
        other.wait()
        other.stdout.close()
        os.unlink(site.path)
