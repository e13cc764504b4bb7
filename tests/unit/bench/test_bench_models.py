"""Models of programs, calibrations, and workloads on simulated nodes."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cosched.bench.run.arms import Arm, Setup
from cosched.bench.run.progress import Progress
from cosched.bench.simulate.calibrate import Counted, at_one_speed, model_of, yields
from cosched.bench.simulate.models import (
    Calibration,
    Model,
    parse_calibration,
    program_of,
    write_calibration,
)
from cosched.bench.simulate.virtual import VirtualSession, programs_of
from cosched.bench.workload.file import parse_workload
from cosched.cli.commands import cosched
from cosched.cli.entry import run_cli
from cosched.core.errors import CoschedError
from cosched.core.trace.job_record import JobRecord
from cosched.launch.family import Family, LauncherKind, Mpi
from cosched.sim.nodes.model import Cluster, Pattern
from cosched.sim.nodes.node_runs import alone_s

models = st.builds(
    Model,
    pattern=st.sampled_from(list(Pattern)),
    alone_s=st.floats(0.1, 100.0),
    launch_s=st.floats(0.0, 100.0),
    messages=st.integers(0, 100_000),
    waited_s=st.none() | st.floats(0.0, 100.0),
    imbalance=st.none() | st.floats(0.0, 0.9),
    bytes=st.none() | st.integers(0, 1 << 20),
)


@settings(max_examples=100, deadline=None)
@given(model=models, nodes=st.integers(1, 8))
def test_program_alone_takes_the_models_time(model, nodes):
    cluster = Cluster(nodes)
    program = program_of("a", model, cluster, count=nodes)
    assert alone_s(program, cluster) == pytest.approx(model.alone_s, rel=0.02)
    assert (program.legs == 3) == ((model.bytes or 0) > 65536)


@pytest.mark.parametrize("pattern", [Pattern.BULK, Pattern.WAVEFRONT])
def test_too_many_messages_are_an_error(pattern):
    model = Model(pattern, alone_s=1e-6, messages=1000)
    with pytest.raises(CoschedError, match=r"^job 'a': 1000 messages take longer"):
        program_of("a", model, Cluster(2), count=2)


@settings(max_examples=50, deadline=None)
@given(st.dictionaries(st.sampled_from(["a", "lu-w.1", "x_y"]), models, min_size=1))
def test_calibration_is_read_as_written(programs):
    calibration = Calibration(
        programs,
        nodes=3,
        lab=True,
        mpi="MPICH 5.0.2",
        yields=True,
        probe_us=301.25,
        origin="f",
    )
    assert parse_calibration(write_calibration(calibration), "f") == calibration


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("format =", "f:1: not TOML: "),
        ('format = "other"\n[program.a]', "f: not a calibration of this version"),
        (
            'format = "cosched-calibration-1"',
            "f: program: is missing; write program",
        ),
        (
            'format = "cosched-calibration-1"\n[program.a]\npattern = "star"',
            "f:3: program.a.pattern: 'star' is none of bulk, wavefront",
        ),
        (
            'format = "cosched-calibration-1"\nprobe = 0\n[program.a]\n',
            "f:2: probe: 0 is not a number of microseconds above 0",
        ),
        (
            'format = "cosched-calibration-1"\n[program.a]\nimbalance = 1',
            "f:3: program.a.imbalance: 1 is not a share from 0 to below 1",
        ),
        (
            'format = "cosched-calibration-1"\n[program.a]\nmesages = 1',
            "f:3: program.a.mesages: no such key; did you mean 'messages'?",
        ),
    ],
)
def test_mistakes_get_one_line(text, says):
    with pytest.raises(CoschedError, match="^" + says.replace("?", r"\?")):
        parse_calibration(text, "f")


WORKLOAD = """
[[job]]
name = "wave"
command = "true"
ranks = 2
count = 2
model = { pattern = "wavefront", alone = 2.0, messages = 3200, launch = 0.2 }
[[job]]
name = "ep"
command = "true"
ranks = 4
start = 1.0
model = { pattern = "none" }
"""
KNOWN = Calibration({"ep": Model(Pattern.BULK, alone_s=1.5, messages=0), "wave": Model()})


def test_workload_overrides_the_calibration(tmp_path):
    workload = parse_workload(WORKLOAD, "f", tmp_path)
    programs = programs_of(workload, KNOWN, Cluster(2))
    assert [p.name for p in programs] == ["wave.1", "wave.2", "ep"]
    assert [p.pattern for p in programs] == [Pattern.WAVEFRONT] * 2 + [Pattern.NONE]
    assert [p.submit_ns // 1_000_000 for p in programs] == [0, 2, 1004]
    assert programs[0].launch_ns == 200_000_000
    with pytest.raises(CoschedError, match="'ep': its time alone is not known"):
        programs_of(workload, Calibration({}), Cluster(2))


def test_simulated_jobs_are_placed_as_in_the_bench(tmp_path):
    text = WORKLOAD.replace("ranks = 4", "ranks = 4\nppn = 2")
    workload = parse_workload(text, "f", tmp_path)
    assert [p.count for p in programs_of(workload, KNOWN, Cluster(8))] == [2, 2, 2]
    text = text.replace("ranks = 2", "ranks = 2\nppn = 1")
    narrow = parse_workload(text, "f", tmp_path)
    with pytest.raises(CoschedError, match="f, job 'wave': 2 ranks do not fit on 1"):
        programs_of(narrow, KNOWN, Cluster(1))


def test_simulated_run_has_all_results(tmp_path):
    session = VirtualSession(parse_workload(WORKLOAD, "f", tmp_path), KNOWN, 2)
    said: list[str] = []
    progress = Progress(said.append)
    runs = {
        arm: session.run_once(Setup(arm), 1, progress)
        for arm in (Arm.BATCH, Arm.KERNEL, Arm.GANG, Arm.COSCHED, Arm.STRICT, Arm.MESSAGES)
    }
    for run in runs.values():
        assert run.failure is None
        assert 5.4 < run.makespan_s < 9.0
    batch = runs[Arm.BATCH]
    assert [job.name for job in batch.jobs] == ["wave.1", "wave.2", "ep"]
    assert batch.jobs[0].response_s == pytest.approx(2.0, rel=0.01)
    assert runs[Arm.KERNEL].mean_response_s > runs[Arm.COSCHED].mean_response_s
    yielding = replace(session, calibration=replace(KNOWN, yields=True))
    kernel, waits = (yielding.run_of(Setup(a), 1).arm for a in (Arm.KERNEL, Arm.YIELD))
    assert kernel == waits == "yield"
    with pytest.raises(CoschedError, match="arm slurm-gang: cannot be simulated"):
        session.run_once(Setup(Arm.SLURM_GANG), 1, progress)


# -- what the counters say --------------------------------------------------------------


def record(node, rank, **more):
    values = {
        "response_s": 2.0,
        "sent": 1000,
        "waited_s": 0.5,
        "ranks": (rank,),
        **more,
    }
    whole = {
        "node": node, "job": "0.a", "name": "a", "uid": 0, "world": 2, "carrier": "shadow",
        "began_wall_ns": 0, "ended_wall_ns": 2_000_000_000, "partial": False,
        "scheduled_s": 2.0, "unscheduled_s": 0.0, "suspended_s": 0.0, "released_s": 0.0,
        "cpu_s": 2.0, "switches": 1, "granted": 0, "refused": {}, "trapped": 0,
        "received": 1000, "intervals_us": (), "complete_from_us": 0,
    }  # fmt: skip
    return JobRecord(**{**whole, **values})


def test_counters_become_a_model():
    records = [record("n1", 0, waited_s=0.5), record("n2", 1, waited_s=0.9)]
    ranks = [
        {"sent": 500, "waits": 150, "bytes_sent": 50_000},
        {"sent": 500, "waits": 100, "bytes_sent": 150_000},
    ]
    found = model_of(None, 2.1, 2.5, Counted(records, ranks))
    assert found.pattern is Pattern.BULK
    assert (found.alone_s, found.launch_s) == (2.1, 0.5)
    assert found.messages == 500  # a wait for two messages at a time
    assert found.waited_s == 0.5
    assert found.imbalance == pytest.approx(0.2)
    assert found.bytes == 200
    wave = model_of(Pattern.WAVEFRONT, 2.1, 2.5, Counted(records, ranks))
    assert (wave.pattern, wave.messages) == (Pattern.WAVEFRONT, 1000)
    quiet = [record("n1", 0, sent=3), record("n2", 1, sent=3)]
    assert model_of(None, 2.1, 2.5, Counted(quiet, ())).pattern is Pattern.NONE


# -- the commands -----------------------------------------------------------------------


@pytest.fixture
def workload(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text(WORKLOAD)
    (tmp_path / "mine.calibration.toml").write_text(write_calibration(KNOWN))
    return path


@pytest.mark.parametrize(
    ("family", "version", "intel", "says"),
    [
        (Family.MPICH, "5.0.2", False, True),
        (Family.MPICH, "4.0.2", False, False),
        (Family.MPICH, "2021.17", True, False),
        (Family.OPENMPI, "5.0.11", False, False),
    ],
)
def test_yields_depends_on_the_mpi(family, version, intel, says):
    mpi = Mpi(family, LauncherKind.HYDRA, version, Path("mpiexec"), None, intel)
    assert yields(mpi) is says


def test_programs_are_rescaled_to_one_speed():
    model = Model(Pattern.BULK, alone_s=3.0, launch_s=0.3, messages=10, waited_s=0.6)
    found = {"a": (model, 300.0), "b": (model, 450.0)}
    programs, probe_us = at_one_speed(found)
    assert probe_us == 300.0
    assert programs["a"] == model
    assert programs["b"].alone_s == pytest.approx(2.0)
    assert programs["b"].launch_s == pytest.approx(0.2)
    assert programs["b"].waited_s == pytest.approx(0.4)
    assert programs["b"].messages == 10
    unknown, no_probe = at_one_speed({**found, "c": (model, None)})
    assert no_probe is None
    assert set(unknown.values()) == {model}


def test_sim_nodes_of_a_workload(workload, tmp_path, capsys):
    out = tmp_path / "out.json"
    assert run_cli(cosched, ["sim", "nodes", str(workload), "--out", str(out)]) == 0
    lines = capsys.readouterr().out.splitlines()
    arms = ["batch", "kernel", "gang", "cosched", "messages"]
    assert [line.split()[0] for line in lines[1:]] == arms
    assert max(map(len, lines)) <= 80
    runs = json.loads(out.read_text())["runs"]
    assert [job["name"] for job in runs[0]["jobs"]] == ["wave.1", "wave.2", "ep"]
    assert runs[0]["cluster"]["nodes"] == 2


def test_waits_that_yield_are_simulated_as_such(workload, tmp_path, capsys):
    calibration = write_calibration(replace(KNOWN, yields=True))
    (tmp_path / "mine.calibration.toml").write_text(calibration)
    assert run_cli(cosched, ["sim", "nodes", str(workload)]) == 0
    lines = capsys.readouterr().out.splitlines()
    arms = ["batch", "yield", "gang", "cosched", "messages"]
    assert [line.split()[0] for line in lines[1:]] == arms


def test_tune_simulates_the_nodes_of_the_calibration(workload, tmp_path, capsys):
    calibration = write_calibration(replace(KNOWN, nodes=4))
    (tmp_path / "mine.calibration.toml").write_text(calibration)
    words = ["tune", str(workload), "--simulate", "--slices", "1s", "--gmets", "100ms"]
    assert run_cli(cosched, [*words, "--repeat", "1"]) == 0
    assert "4 simulated nodes" in capsys.readouterr().out
    assert run_cli(cosched, [*words, "--repeat", "1", "--nodes", "2"]) == 0
    assert "2 simulated nodes" in capsys.readouterr().out


def test_tune_simulates(workload, tmp_path, capsys):
    files = {name: tmp_path / f"tuned.{name}" for name in ("json", "jsonl")}
    words = ["tune", str(workload), "--simulate", "--slices", "0.25s,1s"]
    words += ["--gmets", "50ms,100ms", "--repeat", "2", "--resume", str(files["jsonl"])]
    words += ["--out", str(files["json"])]
    assert run_cli(cosched, words) == 0
    first = capsys.readouterr()
    assert "2 simulated nodes" in first.out
    assert "slice by GMET" in first.out
    found = json.loads(files["json"].read_text())
    assert found["simulated"] is True
    assert found["verdict"] in ("setting", "default")
    assert run_cli(cosched, words) == 0
    assert capsys.readouterr().out == first.out
    (tmp_path / "mine.calibration.toml").write_text(
        write_calibration(Calibration({"ep": Model(alone_s=9.0)}))
    )
    assert run_cli(cosched, words) == 1
    assert "'workload.mine' differs" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (
            ["sim", "nodes", "MINE", "--dom", "3"],
            "--dom: the jobs are those of the workload",
        ),
        (["sim", "nodes", "--calibration", "x"], "--calibration is for a WORKLOAD.toml"),
        (["tune", "MINE", "--calibration", "x"], "--calibration is for --simulate"),
        (["sim", "nodes", "MINE", "--calibration", "no.toml"], "No such file or directory"),
        (["tune", "MINE", "--simulate", "--nodes", "1"], "ranks do not fit"),
    ],
)
def test_contradictory_options_are_refused(workload, words, says, capsys):
    text = workload.read_text().replace("ranks = 4", "ranks = 4\nppn = 2")
    workload.write_text(text)
    assert run_cli(cosched, [str(workload) if w == "MINE" else w for w in words]) != 0
    assert says in " ".join(capsys.readouterr().err.split())
