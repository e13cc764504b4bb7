"""A batch script on a node: written there, and run as the kernel runs a script."""

from __future__ import annotations

import os
import subprocess
from types import SimpleNamespace

import pytest

from cosched.cluster.agent.steward.task_process import script_words
from cosched.core.cluster.startup.questions import Command
from cosched.core.errors import CoschedError


def job(folder, text, *arguments):
    commands = (Command(("./job.sh", *arguments), 1),)
    return SimpleNamespace(script=text, directory=str(folder), commands=commands)


@pytest.mark.parametrize(
    ("first", "words"),
    [
        ("#!/bin/sh", ["/bin/sh"]),
        ("#! /bin/sh -eu", ["/bin/sh", "-eu"]),
        ("#!/usr/bin/env -S sh -e", ["/usr/bin/env", "-S sh -e"]),
    ],
)
def test_the_copy_is_run_as_the_kernel_runs_a_script(tmp_path, first, words):
    text = f'{first}\necho "$@" \xe9 \udcff\n'
    found = script_words(job(tmp_path, text, "a b", "c"))
    copy = str(tmp_path / "script")
    assert found == (*words, copy, "a b", "c")
    done = subprocess.run(found, check=True, capture_output=True)
    assert done.stdout == b"a b c " + os.fsencode("\xe9 \udcff") + b"\n"
    assert os.stat(copy).st_mode & 0o777 == 0o600


def test_a_missing_interpreter_is_one_line(tmp_path):
    with pytest.raises(CoschedError) as caught:
        script_words(job(tmp_path, "#!/bin/nosuch -x\ntrue\n"))
    assert str(caught.value) == "./job.sh: its interpreter /bin/nosuch: no such program"


def test_a_file_that_is_there_is_not_written(tmp_path):
    (tmp_path / "script").symlink_to(tmp_path / "other")
    with pytest.raises(CoschedError, match="File exists"):
        script_words(job(tmp_path, "#!/bin/sh\ntrue\n"))
    assert not (tmp_path / "other").exists()
