"""The script for TaskProlog, with a scontrol of the test."""

from __future__ import annotations

import os
import subprocess

import pytest

from cosched.cluster.engines.slurm.front import task_script

MATES = "   AdminComment=cosched: mates eureka=812@e[1-4] lens=7@l1 "
COMMENT = "   Comment=cosched:mate=g@eureka"


@pytest.fixture
def prolog(tmp_path):
    """Returns a function that runs the script; each answer of scontrol is a list of lines,
    the last one again and again."""
    script = tmp_path / "prolog"
    script.write_text(task_script())
    script.chmod(0o755)

    def run(*answers, **environ):
        for number, lines in enumerate(answers):
            (tmp_path / f"answer.{number}").write_text("\n".join(lines) + "\n")
        fake = tmp_path / "scontrol"
        fake.write_text(
            f'#!/bin/sh\ncd {tmp_path}\n[ "$*" = "show job 5" ] || exit 1\n'
            "echo asked >> asked\ncount=$(($(wc -l < asked) - 1))\n"
            f"[ $count -lt {len(answers)} ] || count={len(answers) - 1}\n"
            "cat answer.$count\n"
        )
        fake.chmod(0o755)
        path = f"{tmp_path}:{os.environ['PATH']}"
        done = subprocess.run(
            [str(script)],
            env={"PATH": path, "SLURM_JOB_ID": "5", "SLURM_PROCID": "0", **environ},
            capture_output=True,
            text=True,
            check=True,
        )
        asked = tmp_path / "asked"
        return done.stdout, len(asked.read_text().split()) if asked.exists() else 0

    return run


def test_a_job_gets_its_mates_once_they_are_known(prolog):
    line = "export COSCHED_MATES=eureka=812@e[1-4] lens=7@l1\n"
    assert prolog([COMMENT], [COMMENT, MATES]) == (line, 2)


def test_a_job_without_mates_asks_once(prolog):
    assert prolog(["   Comment=mine"]) == ("", 1)


def test_a_job_that_began_without_its_mates_does_not_wait(prolog):
    assert prolog([COMMENT, "   AdminComment=cosched: mates"]) == ("", 1)


@pytest.mark.parametrize("environ", [{"COSCHED_MATES": "x"}, {"SLURM_PROCID": "3"}])
def test_steps_have_the_environment_of_their_script(prolog, environ):
    assert prolog([COMMENT, MATES], **environ) == ("", 0)
