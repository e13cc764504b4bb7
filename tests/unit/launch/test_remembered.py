"""Answers of tools are kept for this user, and count while nothing has changed."""

from __future__ import annotations

import os
import stat
import time

import pytest

from cosched.launch import remembered as module
from cosched.launch.remembered import MOST, VALID_S, remembered

QUESTION = ("/bin/mpicc", "-show")


@pytest.fixture
def tool(tmp_path):
    """A file on which the answer depends, the environment, and a tool that counts."""
    file = tmp_path / "mpicc"
    file.write_text("one")
    environ = {"HOME": str(tmp_path / "home"), "MPICH_CC": "gcc", "TOKEN": "hidden-secret"}
    (tmp_path / "home").mkdir()
    return Tool(file, environ)


class Tool:
    def __init__(self, file, environ):
        self.file, self.environ, self.asked = file, environ, 0

    def ask(self):
        self.asked += 1
        return f"answer {self.asked}"

    def answer(self, question=QUESTION, **more):
        return remembered(question, (self.file,), {**self.environ, **more}, self.ask)

    @property
    def kept(self):
        (found,) = (self.file.parent / "home/.cache/cosched/answers").iterdir()
        return found


def test_answer_is_asked_once(tool):
    assert [tool.answer(), tool.answer(), tool.answer(SHLVL="7")] == ["answer 1"] * 3
    assert stat.S_IMODE(tool.kept.stat().st_mode) == 0o600
    assert stat.S_IMODE(tool.kept.parent.stat().st_mode) == 0o700
    assert b"secret" not in tool.kept.read_bytes()


@pytest.mark.parametrize(
    "change",
    [
        lambda file: file.write_text("two"),
        lambda file: os.utime(file, ns=(1, 1)),
        lambda file: file.chmod(0o700),  # the time of the inode
        lambda file: (file.rename(f"{file}.old"), file.write_text("one")),
        lambda file: file.unlink(),
    ],
    ids=["content", "time", "mode", "other file", "none"],
)
def test_changed_file_is_asked_about_again(tool, change):
    tool.answer()
    change(tool.file)
    assert tool.answer() == "answer 2"


def test_other_environment_and_question_are_asked_again(tool):
    tool.answer()
    assert tool.answer(MPICH_CC="clang") == "answer 2"
    assert tool.answer((*QUESTION, "-x"), MPICH_CC="clang") == "answer 3"


def test_old_answer_is_asked_again(tool):
    tool.answer()
    past = time.time() - VALID_S - 5
    os.utime(tool.kept, (past, past))
    assert tool.answer() == "answer 2"
    future = time.time() + 3600
    os.utime(tool.kept, (future, future))
    assert tool.answer() == "answer 3"


def test_answer_that_others_can_write_does_not_count(tool):
    tool.answer()
    tool.kept.chmod(0o622)
    assert tool.answer() == "answer 2"
    tool.kept.parent.chmod(0o777)
    assert [tool.answer(), tool.answer()] == ["answer 3", "answer 4"]


@pytest.mark.skipif(os.geteuid() != 0, reason="gives a file away: needs root")
def test_answer_of_another_user_does_not_count(tool):
    tool.answer()
    os.chown(tool.kept, 12345, -1)
    assert tool.answer() == "answer 2"


def test_link_does_not_count(tool):
    tool.answer()
    other = tool.file.with_name("other")
    tool.kept.rename(other)
    (tool.file.parent / "home/.cache/cosched/answers" / "+bin+mpicc+-show").symlink_to(
        other
    )
    assert tool.answer() == "answer 2"


def test_failure_and_nothing_are_not_kept(tool):
    tool.ask = lambda: ""
    assert tool.answer() == ""
    assert not (tool.file.parent / "home/.cache").exists()


def test_user_without_a_folder_is_answered(tool):
    (tool.file.parent / "home/.cache").write_text("")
    assert [tool.answer(), tool.answer()] == ["answer 1", "answer 2"]


def test_folder_stays_small(tool, monkeypatch):
    monkeypatch.setattr(module, "MOST", 2)
    assert MOST > 100
    for number in range(4):
        tool.answer((f"/bin/mpicc{number}", "-show"))
    assert len(list(tool.file.parent.glob("home/.cache/cosched/answers/*"))) <= 3
