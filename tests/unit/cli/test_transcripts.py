"""The tool that runs the docs' sessions: it must find what is wrong."""

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


def test_a_page_that_is_right(tmp_path):
    assert [step.command for step in steps_of(PAGE)][1] == "sh greet.sh 7"
    assert files_of(PAGE) == {"greet.sh": "echo hello $1\n"}
    assert run(PAGE, tmp_path) == []


def test_other_words_are_a_mistake(tmp_path):
    (mistake,) = run(PAGE.replace("hello 3", "good day 3"), tmp_path)
    assert "hello 7" in mistake


def test_output_that_is_not_shown_is_a_mistake(tmp_path):
    assert len(run("```console\n$ echo more\n```\n", tmp_path)) == 1


def test_a_failure_is_a_mistake(tmp_path):
    assert len(run("```console\n$ false\n```\n", tmp_path)) == 1


def test_a_failure_that_is_shown_must_be_one(tmp_path):
    error = "cosched: no such thing"
    right = f"```console\n$ echo {error}; false\n{error}\n```\n"
    assert run(right, tmp_path) == []
    assert len(run(right.replace("; false", ""), tmp_path)) == 1


def test_the_shell_is_the_same_for_all_steps(tmp_path):
    assert run("```console\n$ thing=8\n$ echo is $thing\nis 8\n```\n", tmp_path) == []


def test_a_command_of_two_lines(tmp_path):
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
def test_what_counts_as_the_same(shown, output, same):
    assert matches(shown, output) is same
