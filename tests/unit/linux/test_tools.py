"""A tool's output is read with any exit status; it is empty if the tool cannot run."""

from __future__ import annotations

import pytest

from cosched.linux.processes.tools import ask_tool


@pytest.mark.parametrize(
    ("words", "printed"),
    [
        (("sh", "-c", "echo out; echo err >&2; exit 3"), ("out\n", "err\n")),
        (("sh", "-c", r"printf '\377'"), ("\ufffd", "")),
        (("/nowhere/tool",), ("", "")),
        (("sleep", "60"), ("", "")),
        (("cat",), ("", "")),  # it reads no input
    ],
)
def test_tool_is_asked(words, printed):
    assert ask_tool(words, 1.0) == printed


def test_tool_has_the_given_variables_alone():
    assert ask_tool(("/usr/bin/env",), 5.0, {"A": "b"}).output == "A=b\n"
