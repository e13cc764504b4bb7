"""``cosched sim symbiosis`` as people meet it."""

from __future__ import annotations

import json

import numpy as np
import pytest

from cosched.sim.symbiotic.datastar import NPB
from cosched.sim.symbiotic.matrix import model_document
from tests.tools.commands import run_command as cosched

SIM = ("sim", "symbiosis")


@pytest.mark.parametrize("command", [[], ["pairs"], ["stream"], ["log"]])
def test_help_fits_and_leads(command, tmp_path):
    result = cosched(*SIM, *command, "--help", cwd=tmp_path)
    assert result.returncode == 0
    assert max(len(line) for line in result.stdout.splitlines()) <= 80
    assert "Examples:" in result.stdout


def test_the_papers_numbers(tmp_path):
    result = cosched(*SIM, "pairs", "--rounds", 6, "--out", "p.json", cwd=tmp_path)
    assert (result.returncode, result.stderr) == (0, "")
    assert max(len(line) for line in result.stdout.splitlines()) <= 80
    words = " ".join(result.stdout.split())
    assert "best user-guided schedule +22.3% HOMME+PARATEC" in words
    assert "predictions of symbiosis 15 of 16 right" in words
    assert "round 6: +22.3%" in words
    document = json.loads((tmp_path / "p.json").read_text())
    assert document["command"] == "cosched sim symbiosis pairs --rounds 6 --out p.json"
    assert document["assessment"]["worst_throughput"] == pytest.approx(1.07)
    assert document["labels"][1] == {
        "application": "HOMME",
        "said": ["memory"],
        "found": [],
        "right": 4,
        "wrong": 1,
        "verdict": "not seen",
    }


def test_streams_and_their_files(tmp_path):
    words = ["stream", "--jobs", "30", "--repeat", "2", "--placements", "whole,learned"]
    words += ["--save", "out", "--out", "s.json"]
    result = cosched(*SIM, *words, cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert max(len(line) for line in result.stdout.splitlines()) <= 80
    assert result.stdout.startswith("2 streams of 30 jobs, 4 nodes")
    document = json.loads((tmp_path / "s.json").read_text())
    assert len(document["files"]) == 2 * 2 * 2
    for run in document["runs"]:
        for name, placement in run["placements"].items():
            stem = tmp_path / "out" / f"stream-{run['seed']}.{name}"
            columns = np.load(f"{stem}.npz")
            assert str(columns["command"]) == document["command"]
            assert columns["end_s"].max() == placement["makespan_s"]
            lines = (tmp_path / "out" / f"{stem.name}.csv").read_text().splitlines()
            assert lines[0] == "# " + document["command"]
            assert lines[1].startswith("job,application,size_halves,")
            assert len(lines) == 2 + 30


def test_model_from_a_file(tmp_path):
    (tmp_path / "mine.json").write_text(json.dumps(model_document(NPB)))
    words = ["stream", "--jobs", 20, "--json"]
    mine = cosched(*SIM, *words, "--model", "mine.json", cwd=tmp_path)
    assert mine.returncode == 0, mine.stderr
    ours = cosched(*SIM, *words, cwd=tmp_path)
    assert json.loads(mine.stdout)["runs"] == json.loads(ours.stdout)["runs"]


def test_a_log_against_easy_without_sharing(tmp_path):
    made = cosched(
        "sim", "generate", "made.swf", "--jobs", 80, "--machine", 16, "--load", 0.9,
        cwd=tmp_path,
    )  # fmt: skip
    assert made.returncode == 0, made.stderr
    with (tmp_path / "made.swf").open("a") as trace:
        trace.write("1 2 3\n")
    words = ["log", "made.swf", "--placements", "anyhow", "--repeat", 2]
    result = cosched(*SIM, *words, "--save", "out", "--out", "l.json", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert max(len(line) for line in result.stdout.splitlines()) <= 80
    assert result.stdout.startswith("made.swf: 80 jobs, 16 nodes\n")
    assert "lines left out: 1 too few fields\n" in result.stdout
    runs = json.loads((tmp_path / "l.json").read_text())["runs"]
    assert [run["seed"] for run in runs] == [0, 1]
    assert runs[0]["applications"] != runs[1]["applications"]
    whole, anyhow = (
        [run["placements"][name] for run in runs] for name in ("whole", "anyhow")
    )
    # Without sharing it does not matter what limits a job: plain EASY, and as the queue's.
    assert whole[0]["mean_wait_s"] == whole[1]["mean_wait_s"]
    words = ["sim", "queue", "made.swf", "--policy", "easy", "--json"]
    easy = cosched(*words, cwd=tmp_path)
    assert easy.returncode == 0, easy.stderr
    (queue,) = json.loads(easy.stdout)["runs"]
    assert whole[0]["mean_wait_s"] == pytest.approx(queue["figures"]["mean_wait_s"])
    assert whole[0]["makespan_s"] == pytest.approx(queue["figures"]["makespan_s"])
    assert runs[0]["skipped_lines"] == {"too few fields": 1}
    assert sum(run["mean_response_s"] for run in anyhow) < sum(
        run["mean_response_s"] for run in whole
    )
    for name in ("whole", "anyhow"):
        columns = np.load(tmp_path / "out" / f"made.swf-0.{name}.npz")
        waits = columns["start_s"] - columns["submit_s"]
        assert waits.min() >= 0.0
        assert waits.mean() == pytest.approx(runs[0]["placements"][name]["mean_wait_s"])
    columns = np.load(tmp_path / "out" / "made.swf-0.whole.npz")
    # On nodes of their own jobs run as the log says.
    assert np.allclose(columns["end_s"] - columns["start_s"], columns["own_s"])


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["pairs", "--model", "absent"], "model 'absent': neither datastar nor npb"),
        (["pairs", "--model", "file"], "file: not JSON"),
        (["stream", "--model", "none.json"], "none.json: has no object 'applications'"),
        (["stream", "--placements", "best"], "'best' is none of whole, packed, split"),
        (["stream", "--large", "9"], "wants 9 halves of nodes; the machine has 4"),
        (["log", "absent.swf"], "absent.swf: cannot be read"),
        (["log", "none.json"], "none.json: "),
        (["stream", "--out", "absent/x"], "its folder cannot be written"),
        (["stream", "--jobs", "9", "--save", "file/x"], "file/x: cannot be written"),
    ],
)
def test_bad_input_gets_one_line_and_a_status(arguments, words, tmp_path):
    (tmp_path / "file").write_text("x")
    (tmp_path / "none.json").write_text("{}")
    result = cosched(*SIM, *arguments, cwd=tmp_path)
    assert result.returncode != 0
    assert result.stdout == ""
    assert words in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1
