"""Tests the notes of the steps of starts."""

import json

import pytest

from cosched.cluster.agent.steps import GO, OBJECT, NoStepNotes, StepFile, read_steps
from cosched.core.errors import CoschedError


def test_nodes_share_a_file(tmp_path):
    path = tmp_path / "steps"
    one, other = StepFile(path, "n1"), StepFile(path, "n2")
    one.note((3, 1), OBJECT)
    other.note((3, 1), OBJECT)
    one.note((3, 1), GO)
    NoStepNotes().note((3, 1), GO)
    found = read_steps(path)
    assert [(each.node, each.step) for each in found] == [
        ("n1", "object"),
        ("n2", "object"),
        ("n1", "go"),
    ]
    assert found[0].at_ns <= found[2].at_ns
    assert json.loads(path.read_text().splitlines()[0])["job"] == 3
    assert path.stat().st_mode & 0o777 == 0o600


def test_faulty_files_are_refused(tmp_path):
    with pytest.raises(CoschedError, match="No such file or directory"):
        read_steps(tmp_path / "none")
    with pytest.raises(CoschedError, match="No such file or directory"):
        StepFile(tmp_path / "none" / "steps", "n1")
    (tmp_path / "torn").write_text('{"node": "n1", "job"')
    with pytest.raises(CoschedError, match="torn: "):
        read_steps(tmp_path / "torn")
