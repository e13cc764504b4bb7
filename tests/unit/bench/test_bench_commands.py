"""Commands that a benchmark runs give their output, or one line for a failure."""

import os

import pytest

from benchmarks.commands import output_of
from cosched.core.errors import CoschedError


def test_output_of_a_command_and_its_variables():
    environ = {**os.environ, "SIZE": "8"}
    assert output_of(["sh", "-c", "echo $SIZE"], "size", environ) == "8\n"


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("echo out; echo first >&2; echo last >&2; exit 2", "last"),
        ("echo out; exit 2", "out"),
        ("exit 2", "exit status 2"),
    ],
)
def test_failure_is_one_line(script, reason):
    with pytest.raises(CoschedError) as caught:
        output_of(["sh", "-c", script], "srun")
    assert str(caught.value) == f"srun failed: {reason}"


def test_slow_command_is_one_line():
    with pytest.raises(CoschedError, match=r"^srun took over 0\.1 s$"):
        output_of(["sleep", "60"], "srun", within_s=0.1)
