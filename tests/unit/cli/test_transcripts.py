"""Checks that the tool which runs the docs' sessions finds mistakes."""

from __future__ import annotations

import os

import pytest

from tests.tools.transcripts import files_of, matches, mistakes, run_page, steps_of

PAGE = """
Save this as `greet.sh`:

```sh
echo hello $1
```

```console
$ cd .
$ sh greet.sh 7
hello 3
$ sh greet.sh; sh greet.sh you
...
hello you
```
"""


def run(page, folder):
    return mistakes(run_page(page, folder, dict(os.environ), timeout_s=60))


def test_correct_page_has_no_mistakes(tmp_path):
    assert [step.command for step in steps_of(PAGE)][1] == "sh greet.sh 7"
    assert files_of(PAGE) == {"greet.sh": "echo hello $1\n"}
    assert run(PAGE, tmp_path) == []


def test_different_output_is_a_mistake(tmp_path):
    (mistake,) = run(PAGE.replace("hello 3", "good day 3"), tmp_path)
    assert "hello 7" in mistake


def test_missing_output_is_a_mistake(tmp_path):
    assert len(run("```console\n$ echo more\n```\n", tmp_path)) == 1


def test_failed_command_is_a_mistake(tmp_path):
    assert len(run("```console\n$ false\n```\n", tmp_path)) == 1


def test_printed_failure_must_fail(tmp_path):
    error = "cosched: no such thing"
    right = f"```console\n$ echo {error}; false\n{error}\n```\n"
    assert run(right, tmp_path) == []
    assert len(run(right.replace("; false", ""), tmp_path)) == 1


def test_steps_share_one_shell(tmp_path):
    assert run("```console\n$ thing=8\n$ echo is $thing\nis 8\n```\n", tmp_path) == []


def test_command_of_two_lines_is_joined(tmp_path):
    assert run("```console\n$ echo one \\\n  two\none two\n```\n", tmp_path) == []


@pytest.mark.parametrize(
    ("shown", "output", "same"),
    [
        ("took 1.5 s", "took 23 s", True),
        ("took 1.5 s", "took a while", False),
        ("a...c", "a\nb\nc", True),
        ("a...c", "a\nb", False),
        ("a  b\n", "a b", True),
        ("a\nb", "a b", False),
        ("(x)", "(x)", True),
    ],
)
def test_matches_compares_numbers_and_spaces_loosely(shown, output, same):
    assert matches(shown, output) is same
