"""The script for TaskProlog, with a scontrol of the test."""

from __future__ import annotations

import os
import subprocess

import pytest

from cosched.cluster.engines.slurm.prolog_scripts import task_script

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
        for number, lines in enumerate(each for each in answers if each is not None):
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


def exported(mates):
    return f"export COSCHED_MATES={mates}\nexport COSCHED_MATES_OF=5\n"


def environment(lines):
    """Returns the variables that TaskProlog has set."""
    exports = (line.removeprefix("export ") for line in lines.splitlines())
    return dict(export.split("=", 1) for export in exports)


def test_a_job_gets_its_mates_once_they_are_known(prolog):
    lines = exported("eureka=812@e[1-4] lens=7@l1")
    assert prolog([COMMENT], [COMMENT, MATES]) == (lines, 2)


ALONE = ["   Comment=mine"]
BEGAN_ALONE = [COMMENT, "   AdminComment=cosched: mates"]


@pytest.mark.parametrize(
    ("shown", "mates"),
    [
        (ALONE, ""),
        (BEGAN_ALONE, ""),
        ([COMMENT, MATES], "eureka=812@e[1-4] lens=7@l1"),
    ],
)
def test_slurmctld_is_asked_once_for_all_steps_of_a_script(prolog, shown, mates):
    lines, asked = prolog(shown)
    assert (lines, asked) == (exported(mates), 1)
    for _ in range(3):
        assert prolog(shown, **environment(lines)) == ("", 1)


def test_slurmctld_that_does_not_answer_is_asked_once(prolog):
    assert prolog(None) == (exported(""), 1)
    assert prolog(None, **environment(exported(""))) == ("", 1)


def test_other_tasks_of_a_step_do_not_ask(prolog):
    assert prolog([COMMENT, MATES], SLURM_PROCID="3") == ("", 0)


@pytest.mark.parametrize("mates", ["", "lens=7@l1"])
def test_a_job_that_another_job_submits_has_mates_of_its_own(prolog, mates):
    """sbatch passes the environment of the script on."""
    inherited = {"COSCHED_MATES": mates, "COSCHED_MATES_OF": "4"}
    lines = exported("eureka=812@e[1-4] lens=7@l1")
    assert prolog([COMMENT, MATES], **inherited) == (lines, 1)
