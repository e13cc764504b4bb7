"""``cosched sim`` as people meet it."""

from __future__ import annotations

import json
import re
import shutil

import pytest

from cosched.core.cluster.queue.policies import POLICIES
from tests.tools.commands import run_command as cosched


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("made")
    made = cosched(
        "sim", "generate", "made.swf", "--jobs", 300, "--machine", 32, cwd=folder
    )
    assert (made.returncode, made.stdout, made.stderr) == (0, "", "")
    return folder / "made.swf"


@pytest.fixture
def trace(made, tmp_path):
    return shutil.copy(made, tmp_path / "made.swf")


@pytest.mark.parametrize("command", [[], ["queue"], ["generate"]])
def test_help_fits_and_leads(command, tmp_path):
    result = cosched("sim", *command, "--help", cwd=tmp_path)
    assert result.returncode == 0
    assert max(len(line) for line in result.stdout.splitlines()) <= 80
    assert "cosched sim" in result.stdout
    assert "Examples:" in result.stdout


def test_help_lists_each_policy(tmp_path):
    result = cosched("sim", "queue", "--help", cwd=tmp_path)
    listed = re.search(r"Policies:\n((?:  +\w.*\n)+)", result.stdout)
    assert [line.split()[0] for line in listed[1].splitlines()] == list(POLICIES)


def test_the_simplest_run(trace):
    result = cosched("sim", "queue", "made.swf", "--policy", "easy", cwd=trace.parent)
    assert result.returncode == 0
    assert result.stderr == ""
    assert result.stdout.startswith("made.swf\n300 jobs, 32 nodes, load 0.7")


def test_many_runs_and_all_their_files(trace):
    folder = trace.parent
    words = ["sim", "queue", "made.swf", "--policy", "easy,wfp", "--estimates", "log,exact"]
    words += ["--save", "out", "--save-nodes", "--out", "all.json", "--parallel", "2"]
    result = cosched(*words, cwd=folder)
    assert result.returncode == 0, result.stderr
    document = json.loads((folder / "all.json").read_text())
    assert document["command"] == " ".join(["cosched", *words])
    assert [(run["policy"], run["estimates"]) for run in document["runs"]] == [
        ("easy", "log"),
        ("easy", "exact"),
        ("wfp", "log"),
        ("wfp", "exact"),
    ]
    for run in document["runs"]:
        for path in run["files"]:
            assert (folder / path).exists()
    csv = (folder / "out" / "made.wfp.exact.csv").read_text().splitlines()
    assert csv[0] == "# " + document["command"]
    assert len(csv) == 2 + 300


def figures_in(document):
    """Returns all figures of a JSON document but CPU times, in their order."""
    if isinstance(document, list):
        return [figures_in(each) for each in document]
    if not isinstance(document, dict):
        return document
    left_out = {"command", "cpu_s", "source", "trace", "traces"}
    return [figures_in(value) for key, value in document.items() if key not in left_out]


@pytest.mark.parametrize(
    "words",
    [
        "queue LOG --policy easy,wfp --parallel 2",
        "share LOG --dom 2 --parallel 1",
        "malleable LOG --policy ideal-only,even-fq --minimum 50,30 --parallel 1",
        "symbiosis log LOG --repeat 1",
        "couple made.swf LOG --pairs 10% --schemes hold-yield --parallel 2",
    ],
)
def test_each_run_reads_the_whole_log_from_a_pipe(words, trace):
    folder, log = trace.parent, trace.read_text()
    (folder / "stdin.swf").write_text(log)
    found = []
    for name, given in (("stdin.swf", None), ("/dev/stdin", log.encode())):
        here = ["sim", *words.replace("LOG", name).split(), "--json"]
        result = cosched(*here, cwd=folder, given=given)
        assert result.returncode == 0, result.stderr
        found.append(json.loads(result.stdout))
    assert figures_in(found[0]) == figures_in(found[1])


def test_json_instead_of_the_table(trace):
    result = cosched("sim", "queue", "made.swf", "--json", cwd=trace.parent)
    assert json.loads(result.stdout)["runs"][0]["figures"]["jobs"] == 300


def test_blocks_of_a_queue_make_jobs_wait(trace):
    waits = []
    for more in ([], ["--blocks", "8"]):
        words = ["sim", "queue", "made.swf", "--policy", "wfp", "--json", *more]
        result = cosched(*words, cwd=trace.parent)
        run = json.loads(result.stdout)["runs"][0]
        waits.append(run["figures"]["mean_wait_s"])
    assert run["blocks"] == 8
    assert waits[1] > waits[0]


def test_bad_lines(trace):
    lines = trace.read_text().splitlines()
    trace.write_text("\n".join([*lines, "1 2 3"]) + "\n")
    result = cosched("sim", "queue", "made.swf", "--strict", cwd=trace.parent)
    assert result.returncode == 1
    assert f"made.swf:{len(lines) + 1}: too few fields" in result.stderr
    for words in (
        ["queue", "made.swf"],
        ["fit", "made.swf"],
        ["queue", "made.swf", "--skip-bad"],
    ):
        result = cosched("sim", *words, cwd=trace.parent)
        assert result.returncode == 0
        assert "lines left out: 1 too few fields" in result.stdout


def test_the_same_seed_the_same_log(tmp_path):
    words = ["sim", "generate", "-", "--jobs", "50", "--machine", "16", "--seed"]
    one, same, other = (cosched(*words, seed, cwd=tmp_path).stdout for seed in (7, 7, 8))
    assert one == same
    assert one.splitlines()[6:] != other.splitlines()[6:]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["queue"], "Missing argument"),
        (
            ["queue", "x.swf", "--policy", "lottery"],
            "'lottery' is none of fcfs, easy, cons",
        ),
        (["queue", "x.swf", "--estimates", "mine"], "'mine' is none of log, exact"),
        (["queue", "x.swf", "--parallel", "0"], "--parallel"),
        (["queue", "x.swf", "--save-nodes"], "--save-nodes needs --save"),
        (["queue", "x.swf"], "x.swf: cannot be read"),
        (
            ["queue", "x.swf", "--policy", "easy,conservative", "--blocks", "4"],
            "conservative plans with numbers of nodes",
        ),
        (["queue", "x.swf", "a/x.swf", "--save", "."], "two runs would be saved as x.easy"),
        (["queue", "x.swf", "--save", "file/out"], "file/out: cannot be made"),
        (["queue", "x.swf", "--out", "absent/x"], "its folder cannot be written"),
        (["share", "x.swf", "--out", "absent/x"], "its folder cannot be written"),
        (["generate", "x.swf", "--jobs", "3"], "Missing option '--machine'"),
        (["generate", "x.swf", "--jobs", "3", "--machine", "3", "--load", "0"], "load 0"),
        (["generate", "absent/x.swf", "--jobs", "3", "--machine", "3"], "absent/x.swf"),
        (["generate", "x.swf", "--jobs", "3", "--machine", "9" * 19], "less than 2^63"),
        (
            ["generate", "x.swf", "--jobs", "3", "--machine", "3", "--load", "1e-30"],
            "load 1e-30: the jobs would come in more than 290 years",
        ),
    ],
)
def test_bad_input_gets_one_line_and_a_status(arguments, words, tmp_path):
    (tmp_path / "file").write_text("")
    result = cosched("sim", *arguments, cwd=tmp_path)
    assert result.returncode != 0
    assert result.stdout == ""
    assert words in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1
    assert result.stderr.startswith("cosched")
