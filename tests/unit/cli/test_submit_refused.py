"""A job that can be refused at once starts no private domain."""

from __future__ import annotations

import pytest

from cosched.cli.commands import cosched
from cosched.cli.entry import run_cli


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["./nothere"], "program './nothere': no such file"),
        (["nothere"], "program 'nothere': not found in PATH"),
        (
            ["--no-shim", "/nothere/mpiexec", "-n", "2", "true"],
            "launcher '/nothere/mpiexec'",
        ),
        (["--cwd", "there", "./app"], "the job's directory has one: give "),
        (["--cwd", "there", "./nothere"], "nothere': no such file"),
        (["--output", ".", "true"], "is a directory, so the job has no place"),
    ],
)
def test_nothing_is_started_for_it(tmp_path, monkeypatch, capsys, words, error):
    started = []

    def start(*_):
        started.append(words)
        raise AssertionError("it was started")

    monkeypatch.setattr("cosched.cluster.up.private.start_private", start)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "there").mkdir()
    (tmp_path / "there/app").touch(0o755)
    assert run_cli(cosched, ["submit", "--run-dir", str(tmp_path / "run"), *words]) == 1
    assert error in capsys.readouterr().err
    assert not started
