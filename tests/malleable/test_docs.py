"""The programs of docs/malleable.md give the same answer: the ordinary one, the malleable
one alone, and the malleable one in changes of its size."""

import re

import pytest

from cosched.core.cluster.resizing.agreement import ReportDone
from tests.places import ROOT

PAGE = (ROOT / "docs" / "malleable.md").read_text()
ORDINARY, MALLEABLE = [
    block for block in re.findall(r"```python\n(.*?)```", PAGE, re.S) if "import" in block
]
LOOP = "    for step in job.steps(200):\n"

pytestmark = pytest.mark.mpi_job


def test_programs_of_the_page_agree(rigid, agents, mpi, tmp_path):
    ordinary, malleable = tmp_path / "ordinary.py", tmp_path / "malleable.py"
    ordinary.write_text(ORDINARY)
    malleable.write_text(MALLEABLE)
    expected = rigid(2, ordinary)
    assert re.fullmatch(r"\d+\.\d{6}\n", expected.stdout), expected.stderr
    assert rigid(3, malleable).stdout == expected.stdout

    assert LOOP in MALLEABLE
    slow = "import time\n" + MALLEABLE.replace(LOOP, f"{LOOP}        time.sleep(0.05)\n")
    malleable.write_text(slow)
    played = agents(3)
    played.start(mpi, [0], malleable)
    assert isinstance(played.resize([], [1, 2]), ReportDone)
    assert isinstance(played.resize([1]), ReportDone)
    assert played.finish() == (0, expected.stdout)


def test_page_shows_few_changed_lines():
    old = {line.strip() for line in ORDINARY.splitlines()}
    assert len([line for line in MALLEABLE.splitlines() if line.strip() not in old]) <= 10
