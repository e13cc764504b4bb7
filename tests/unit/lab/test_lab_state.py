"""The state file, and what Lab.load makes of it."""

from __future__ import annotations

import json
import os
from dataclasses import replace

import pytest
from click.testing import CliRunner

from cosched.cli.commands import cosched
from cosched.core.errors import CoschedError
from cosched.lab.files import locked
from cosched.lab.lab import Lab
from cosched.lab.state import LabState, NodeRecord, read_state, state_path, write_state
from cosched.linux.namespaces import ProcessId
from tests.unit.observe.top_samples import status


@pytest.fixture
def alive():
    process = ProcessId.of(os.getpid())
    assert process is not None
    return process


@pytest.fixture
def dead(alive):
    return replace(alive, start_ticks=alive.start_ticks - 1)


def lab_state(keepers, complete=True):
    hub, *nodes = keepers
    return LabState(
        complete=complete,
        network="10.77.0.0/24",
        agent="/run/cosched/lab/agent",
        fabric=hub,
        nodes=tuple(
            NodeRecord(f"lab{i}", f"10.77.0.{i}", (i - 1,), process)
            for i, process in enumerate(nodes, 1)
        ),
    )


@pytest.fixture
def write(tmp_path):
    def write(state):
        state_path(tmp_path).parent.mkdir()
        write_state(tmp_path, state)

    return write


def test_written_workload_is_read_back(tmp_path, write, alive):
    state = lab_state([alive, alive, alive])
    write(state)
    assert read_state(tmp_path) == state
    assert sorted(p.name for p in state_path(tmp_path).parent.iterdir()) == ["lab.json"]


def test_missing_state_file_means_no_lab(tmp_path):
    assert read_state(tmp_path) is None
    assert Lab.load(tmp_path) is None
    assert Lab.load(tmp_path / "nowhere") is None


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "{}", '{"version": 9}', '{"version": 1, "complete": true}']
)
def test_damaged_state_file_is_one_line(tmp_path, text):
    state_path(tmp_path).parent.mkdir()
    state_path(tmp_path).write_text(text)
    with pytest.raises(CoschedError, match=r"is not the state of a lab.*lab down"):
        Lab.load(tmp_path)


def test_file_with_a_wrong_type_inside_is_refused(tmp_path, write, alive):
    write(lab_state([alive, alive]))
    data = json.loads(state_path(tmp_path).read_text())
    data["nodes"][0]["keeper"] = {"pid": 1}
    state_path(tmp_path).write_text(json.dumps(data))
    with pytest.raises(CoschedError, match="is not the state"):
        read_state(tmp_path)


def test_whole_lab_is_loaded(tmp_path, write, alive):
    write(lab_state([alive, alive, alive]))
    lab = Lab.load(tmp_path)
    assert lab is not None
    assert [(n.name, n.address, n.cpus, n.keeper.pid) for n in lab.nodes] == [
        ("lab1", "10.77.0.1", (0,), os.getpid()),
        ("lab2", "10.77.0.2", (1,), os.getpid()),
    ]
    assert lab.node("lab2") is lab.node("10.77.0.2")
    with pytest.raises(CoschedError) as caught:
        lab.node("x")
    assert str(caught.value) == "host 'x' is not in the lab; its nodes are lab1, lab2"


def test_lab_that_lost_a_keeper_names_it(tmp_path, write, alive, dead):
    write(lab_state([alive, alive, dead]))
    with pytest.raises(CoschedError, match="lost lab2: run 'cosched lab down'"):
        Lab.load(tmp_path)


def test_half_made_lab_is_not_loaded(tmp_path, write, alive):
    write(lab_state([alive, alive], complete=False))
    with pytest.raises(CoschedError, match="half made"):
        Lab.load(tmp_path)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root removes a dead lab's files")
def test_dead_lab_is_removed(tmp_path, write, dead):
    write(lab_state([dead, dead]))
    (tmp_path / "lab1").mkdir()
    (tmp_path / "other").mkdir()
    assert Lab.load(tmp_path) is None
    assert [path.name for path in tmp_path.iterdir()] == ["other"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root removes a dead lab's files")
def test_dead_lab_in_use_is_not_removed(tmp_path, write, dead):
    write(lab_state([dead, dead]))
    with locked(tmp_path):
        assert Lab.load(tmp_path) is None
        assert state_path(tmp_path).exists()


def test_two_commands_exclude_each_other(tmp_path):
    with (
        locked(tmp_path),
        pytest.raises(CoschedError, match="another cosched lab command"),
        locked(tmp_path, within_s=0),
    ):
        pass


def test_lock_follows_a_replaced_directory(tmp_path):
    run_dir = tmp_path / "run"
    with locked(run_dir, create=True):
        run_dir.rmdir()
        with locked(run_dir, create=True, within_s=0):
            assert run_dir.is_dir()


@pytest.mark.parametrize(
    ("rate", "line"), [(None, "links without a limit"), (10**9, "links 1 Gbit/s")]
)
def test_status_shows_the_links_of_a_lab(tmp_path, write, alive, monkeypatch, rate, line):
    def shown(*words):
        words = ["status", "--run-dir", str(tmp_path), *words]
        done = CliRunner().invoke(cosched, words, catch_exceptions=False)
        assert done.exit_code == 0
        return done.stdout

    monkeypatch.setattr("cosched.cli.jobs.status.gather", lambda *_: [status("lab1", [])])
    assert "links" not in shown()
    assert "rate_bits_per_s" not in json.loads(shown("--json"))
    write(replace(lab_state([alive, alive]), rate=rate))
    assert shown().splitlines()[-2:] == ["", line]
    assert json.loads(shown("--json"))["rate_bits_per_s"] == rate
