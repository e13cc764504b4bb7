"""``scripts/dev`` runs the tests that its arguments name, or those of its folders."""

from __future__ import annotations

import re
import subprocess

import pytest

from tests.places import ROOT

(CHOOSE,) = re.findall(
    r"^choose\(\) \{\n.*?^\}\n",
    (ROOT / "scripts/dev").read_text(),
    re.MULTILINE | re.DOTALL,
)


@pytest.mark.parametrize(
    ("words", "chosen"),
    [
        ([], ["tests/a", "tests/b"]),
        (["-m", "not long"], ["tests/a", "tests/b", "-m", "not long"]),
        (["-q", "tests/a/x.py::t"], ["-q", "tests/a/x.py::t"]),
        (["tests/a/x.py", "--release", "trixie"], ["tests/a/x.py", "--release", "trixie"]),
        (["--deselect", "tests/a"], ["tests/a", "tests/b", "--deselect", "tests/a"]),
    ],
)
def test_named_tests_replace_the_folders(words, chosen):
    script = (
        f'set -eu\n{CHOOSE}choose tests/a tests/b -- "$@"\nprintf "%s\\n" "${{chosen[@]}}"'
    )
    done = subprocess.run(
        ["bash", "-c", script, "dev", *words], capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines() == chosen
