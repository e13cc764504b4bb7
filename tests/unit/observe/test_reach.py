"""The ways to the nodes of a job, and the answers from there."""

from __future__ import annotations

import shlex
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from cosched.core.errors import CoschedError
from cosched.jobs.job_nodes import MOST_JOBS, JobNodes, read_job_nodes, write_job_nodes
from cosched.observe.reach import on_nodes
from cosched.observe.reach.named_nodes import way_to_hosts
from cosched.observe.reach.on_nodes import (
    AT_ONCE,
    ask_all,
    ask_nodes,
    complaints,
    merged,
    refuse_silence,
)
from cosched.observe.reach.ways import Inside, Shell, slurm_job_in

HERE = frozenset(["n1"])


def test_remote_shell_gets_one_word():
    way = Shell(("rsh", "-x"), ("n1", "n2"), HERE)
    assert way.command("n2", ["echo", "a b"]) == ["rsh", "-x", "n2", "echo 'a b'"]
    assert way.command("n1", ["echo", "a b"]) == ["echo", "a b"]


def test_srun_as_the_shell_gets_the_words():
    way = Shell(("/usr/bin/srun", "-w"), ("n2",), HERE)
    assert way.command("n2", ["echo", "a b"]) == [
        "/usr/bin/srun",
        "-w",
        "n2",
        "echo",
        "a b",
    ]


def test_nodes_of_a_lab_are_entered():
    way = Inside({"lab1": ("enter", "1")}, Shell(("ssh",), ("lab1", "n2"), HERE))
    assert way.nodes == ("lab1", "n2")
    assert way.command("lab1", ["echo", "a b"]) == ["enter", "1", "echo", "a b"]
    assert way.command("n2", ["x"]) == ["ssh", "n2", "x"]


def test_hosts_are_reached_by_the_shell_of_the_environment(tmp_path):
    environ = {"COSCHED_REMOTE_SHELL": "rsh -x"}
    usual = way_to_hosts(["far"], tmp_path, environ)
    assert usual.command("far", ["y"]) == ["rsh", "-x", "far", "y"]
    given = way_to_hosts(["far"], tmp_path, environ, ("ssh", "-v"))
    assert given.command("far", ["y"]) == ["ssh", "-v", "far", "y"]
    with pytest.raises(
        CoschedError, match=r"^COSCHED_REMOTE_SHELL: .*No closing quotation"
    ):
        way_to_hosts(["far"], tmp_path, {"COSCHED_REMOTE_SHELL": "rsh '"})


@pytest.mark.parametrize(
    ("name", "number"),
    [("slurm-12.0", "12"), ("1000.slurm-12.3", "12"), ("app-12-abcde", None)],
)
def test_name_of_the_prolog_has_the_number_of_the_job(name, number):
    assert slurm_job_in(name) == number


class FakeWay:
    """Runs a script of the test in place of the command."""

    def __init__(self, **scripts):
        self.nodes = tuple(scripts)
        self._scripts = scripts

    def command(self, node, words):
        assert words[-3:] == ["--node", ".", "--json"]
        return ["sh", "-c", self._scripts[node], shlex.join(words)]


def test_answers_of_all_nodes_are_merged():
    way = FakeWay(
        a="""echo '{"nodes": [1]}'""",
        b="echo 'ssh: no route' >&2; exit 255",
        c="echo 'cosched: no job x' >&2; echo noise >&2; exit 1",
        d="exec sleep 60",
        e="""echo '{"nodes": [2, 3]}'; exit 1""",
        f="kill -9 $$",
    )
    seen = []
    answers = ask_nodes(
        way, ["status"], within_s=1, progress=lambda *counts: seen.append(counts)
    )
    assert merged(answers, "nodes") == [1, 2, 3]
    assert complaints(answers) == [
        "node b: ssh: no route",
        "node c: no job x",
        "node d: no answer within 1 s",
        "node f: no answer (exit status -9)",
    ]
    assert seen[-1] == (6, 6)
    refuse_silence(answers)


def test_interrupt_leaves_the_nodes_that_wait_unasked(monkeypatch):
    nodes = [f"n{index}" for index in range(4 * AT_ONCE)]
    asked = []
    ending = threading.Event()

    class Pool(ThreadPoolExecutor):
        def shutdown(self, *words, **options):
            ending.set()
            super().shutdown(*words, **options)

    def ask(node):
        asked.append(node)
        if node != nodes[0]:
            ending.wait()

    def interrupt(_done, _of):
        raise KeyboardInterrupt

    monkeypatch.setattr(on_nodes, "ThreadPoolExecutor", Pool)
    with pytest.raises(KeyboardInterrupt):
        ask_all(nodes, ask, interrupt)
    assert len(asked) <= AT_ONCE + 1


def test_silence_of_all_nodes_is_an_error():
    answers = ask_nodes(FakeWay(a="exit 3", b="exit 4"), ["status"])
    with pytest.raises(CoschedError, match=r"^node a: no answer \(exit status 3\)$"):
        refuse_silence(answers)


def test_missing_shell_is_an_answer():
    (answer,) = ask_nodes(Shell(("/none/ssh",), ("n2",), HERE), ["status"])
    assert answer.error == "/none/ssh: No such file or directory"


def test_place_of_a_job_is_remembered(tmp_path):
    place = JobNodes("12", ("n1", "n2"))
    write_job_nodes(tmp_path, "app-12-abcde", place)
    assert read_job_nodes(tmp_path, "app-12-abcde") == place
    assert read_job_nodes(tmp_path, "other") is None
    assert read_job_nodes(None, "app") is None
    (tmp_path / "places/app.json").write_text("{")
    assert read_job_nodes(tmp_path, "app") is None


def test_old_places_are_removed(tmp_path):
    for number in range(MOST_JOBS + 3):
        write_job_nodes(tmp_path, f"j{number}", JobNodes(hosts=("n",)))
    assert len(list((tmp_path / "places").iterdir())) == MOST_JOBS


def test_place_that_another_command_removes_meanwhile_is_none(tmp_path, monkeypatch):
    glob = Path.glob
    gone = tmp_path / "places/gone.json"
    monkeypatch.setattr(Path, "glob", lambda *given: [*glob(*given), gone])
    write_job_nodes(tmp_path, "app", JobNodes("12"))
    assert read_job_nodes(tmp_path, "app") == JobNodes("12")


def test_place_that_cannot_be_written_is_one_line(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(CoschedError, match="Not a directory"):
        write_job_nodes(tmp_path / "file", "app", JobNodes())
