"""``cosched sim symbiosis`` as people meet it."""

from __future__ import annotations

import json

import numpy as np
import pytest
from test_sim_cli import cosched

from cosched.core.symbiosis.datastar import NPB
from cosched.core.symbiosis.matrix import model_document

SIM = ("sim", "symbiosis")


@pytest.mark.parametrize("command", [[], ["pairs"], ["stream"]])
def test_help_fits_and_leads(command, tmp_path):
    result = cosched(*SIM, *command, "--help", cwd=tmp_path)
    assert result.returncode == 0
    assert max(len(line) for line in result.stdout.splitlines()) <= 80
    assert "Examples:" in result.stdout


def test_the_papers_numbers(tmp_path):
    result = cosched(*SIM, "pairs", "--rounds", 6, "--json", "p.json", cwd=tmp_path)
    assert (result.returncode, result.stderr) == (0, "")
    assert max(len(line) for line in result.stdout.splitlines()) <= 80
    assert "best user-guided schedule         +22.3%  HOMME+PARATEC" in result.stdout
    assert "predictions of symbiosis          15 of 16 right" in result.stdout
    assert "round 6: +22.3%" in result.stdout
    document = json.loads((tmp_path / "p.json").read_text())
    assert document["command"] == "cosched sim symbiosis pairs --rounds 6 --json p.json"
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
    words += ["--save", "out", "--json", "s.json"]
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


def test_a_model_of_ones_own(tmp_path):
    (tmp_path / "mine.json").write_text(json.dumps(model_document(NPB)))
    words = ["stream", "--jobs", 20, "--json", "-"]
    mine = cosched(*SIM, *words, "--model", "mine.json", cwd=tmp_path)
    assert mine.returncode == 0, mine.stderr
    ours = cosched(*SIM, *words, cwd=tmp_path)
    assert json.loads(mine.stdout)["runs"] == json.loads(ours.stdout)["runs"]


def test_a_log_in_place_of_a_stream(tmp_path):
    made = cosched(
        "sim", "generate", "made.swf", "--jobs", 80, "--machine", 16, "--load", 0.9,
        cwd=tmp_path,
    )  # fmt: skip
    assert made.returncode == 0, made.stderr
    with (tmp_path / "made.swf").open("a") as log:
        log.write("1 2 3\n")
    words = ["stream", "made.swf", "--skip-bad", "--placements", "whole,anyhow"]
    result = cosched(*SIM, *words, "--save", "out", "--json", "l.json", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert max(len(line) for line in result.stdout.splitlines()) <= 80
    assert result.stdout.startswith("1 times made.swf, a log of 80 jobs, 16 nodes")
    assert "bad lines left out: 1 too few fields\n" in result.stdout
    (run,) = json.loads((tmp_path / "l.json").read_text())["runs"]
    assert run["skipped_lines"] == {"too few fields": 1}
    for name in ("whole", "anyhow"):
        columns = np.load(tmp_path / "out" / f"made.swf-0.{name}.npz")
        waits = columns["start_s"] - columns["submit_s"]
        assert waits.min() >= 0.0
        assert waits.mean() == pytest.approx(run["placements"][name]["mean_wait_s"])
    whole = np.load(tmp_path / "out" / "made.swf-0.whole.npz")
    # On nodes of their own jobs run as the log says.
    assert np.allclose(whole["end_s"] - whole["start_s"], whole["own_s"])


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["pairs", "--model", "absent"], "model 'absent': neither datastar nor npb"),
        (["pairs", "--model", "file"], "file: is not JSON"),
        (["stream", "--model", "none.json"], "none.json: has no object 'applications'"),
        (["stream", "--placements", "best"], "'best' is none of whole, packed, split"),
        (["stream", "--large", "9"], "wants 9 halves of nodes; the machine has 4 nodes"),
        (["stream", "absent.swf"], "absent.swf: cannot be read"),
        (["stream", "absent.swf", "--jobs", "3"], "a log has its own jobs"),
        (["stream", "--json", "absent/x"], "its folder cannot be written"),
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
