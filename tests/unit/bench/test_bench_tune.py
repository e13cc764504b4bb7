"""cosched tune on a made-up testbed: rounds, resumption, map, what is recommended."""

from __future__ import annotations

import json
import math
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from cosched.bench.results.results import Failure, JobResult, Run
from cosched.bench.run.arms import Arm
from cosched.bench.tune import tune
from cosched.bench.tune.search import Setting
from cosched.bench.workload.file import Workload
from cosched.cli.commands import cosched
from cosched.cli.entry import run_cli
from cosched.core.node.settings import GMET, SLICE, Span
from cosched.core.units import NS_PER_MS, parse_duration
from tests.tools.json_fields import differences, sections
from tests.unit.bench.bench_samples import load

#: The conditions that cosched bench and cosched tune write into their documents.
SETTING = (
    *("command_line", "started", "cosched", "kernel", "mpi", "lab", "hosts"),
    *("settings", "nodes"),
)
WORKLOAD = '[[job]]\nname = "a"\ncommand = "true"\nranks = 2\n'


@dataclass
class FakeSession:
    """Runs nothing: ``surface`` says how long a setup's jobs took."""

    workload: Workload
    surface: Any
    made: list
    stop_at: float = math.inf
    outside: float = 0.01
    probe_us: Any = None

    def warm_up(self, arms, progress):
        progress.show("warming up")

    def run_once(self, setup, repeat, progress):
        if len(self.made) >= self.stop_at:
            raise KeyboardInterrupt
        self.made.append((setup.name, repeat))
        progress.redraw()
        seconds = self.surface(setup)
        if math.isinf(seconds):
            return Run(
                setup.arm, repeat, (), failure=Failure(f"job 'a' {'does not end ' * 5}")
            )
        probe_us = self.probe_us and self.probe_us(len(self.made))
        slower = probe_us / self.probe_us(1) if probe_us else 1.0
        ended_s = (seconds + repeat / 1000) * slower
        jobs = (JobResult("a", 0.0, 0.0, ended_s, 1.0),)
        return Run(setup.arm, repeat, jobs, load(self.outside), probe_us=probe_us)


@dataclass
class FakeGround:
    sessions: dict
    nodes: Any = ({"name": "lab1"},)

    def context(self):
        return {"mpi": None, "hosts": ["lab1", "lab2"]}

    made_with = context

    def setting(self):
        return "MPICH 5.0.2, 2 nodes of the lab"


def valley(best_slice, best_gmet, kernel=30.0):
    def surface(setup):
        if setup.arm is Arm.KERNEL:
            return kernel
        slice_ns, gmet_ns = (
            kind.parse(setup.settings[name]).ns
            for name, kind in (("slice", SLICE), ("gmet", GMET))
        )
        away = math.log2(slice_ns / parse_duration(best_slice, "")) ** 2
        away += (math.log2(gmet_ns / parse_duration(best_gmet, "")) / 2) ** 2
        away += 2.0 * (setup.arm is Arm.STRICT) + 1.0 * (setup.settings["align"] == "off")
        return 10 * (1 + 0.2 * away)

    return surface


@pytest.fixture
def tuning(tmp_path, monkeypatch):
    """Calls the command on a made-up testbed."""
    path = tmp_path / "mine.toml"
    path.write_text(WORKLOAD)

    class Tuning:
        surface = staticmethod(valley("0.5s", "50ms"))
        stop_at = math.inf
        nodes = ({"name": "lab1"},)
        outside = 0.01
        probe_us = None

        def __init__(self):
            self.made = []

        def cli(self, *words):
            return run_cli(cosched, ["tune", str(path), "--run-dir", str(tmp_path), *words])

    tuning = Tuning()

    @contextmanager
    def testbed(workloads, _options, _environ):
        session = FakeSession(
            workloads[0],
            tuning.surface,
            tuning.made,
            tuning.stop_at,
            tuning.outside,
            tuning.probe_us,
        )
        yield FakeGround({workloads[0].title: session}, tuning.nodes)

    monkeypatch.setattr(tune, "open_testbed", testbed)
    return tuning


@pytest.mark.parametrize(("outside", "guess"), [(0.01, False), (0.5, True)])
def test_disturbed_runs_give_a_guess(tuning, capsys, outside, guess):
    tuning.outside = outside
    assert tuning.cli() == 0
    said = " ".join(capsys.readouterr().out.split())
    assert ("what follows is a guess. Recommended: slice 500ms" in said) is guess
    assert ("tune again on a quiet machine" in said) is guess


def test_best_setting_is_recommended_and_written(tuning, tmp_path, capsys):
    files = {name: tmp_path / f"out.{name}" for name in ("toml", "json", "png")}
    words = ["--write", files["toml"], "--out", files["json"], "--figure", files["png"]]
    assert tuning.cli(*map(str, words)) == 0
    printed = capsys.readouterr()
    said = " ".join(printed.out.split())
    assert "Recommended: slice 500ms, gmet 50ms. It takes 33% of the kernel's" in said
    assert "of the default's" in said
    assert "*0.33" in printed.out
    assert max(map(len, printed.out.splitlines())) <= 80
    assert printed.err.startswith("warming up\nrun 1 of at most ")
    found = json.loads(files["json"].read_text())
    assert found["recommended"] == {"slice": "500ms", "gmet": "50ms", "align": "on"}
    assert len(found["runs"]) == len(tuning.made)
    own = {name: value for name, value in found.items() if name not in SETTING}
    assert differences(sections()["cosched tune"], own) == ([], [])
    assert files["png"].read_bytes().startswith(b"\x89PNG")
    assert '\n[node]\nslice = "500ms"\ngmet = "50ms"\nalign = true\n' in (
        files["toml"].read_text()
    )
    assert run_cli(cosched, ["config", "check", str(files["toml"])]) == 0


def test_interrupted_search_finds_the_same(tuning, tmp_path, capsys):
    whole, runs, parts = tmp_path / "whole", tmp_path / "runs.jsonl", tmp_path / "parts"
    assert tuning.cli("--out", str(whole)) == 0
    made, tuning.made = tuning.made, []
    for stop_at in (7, 15, 22):
        tuning.stop_at = stop_at
        assert tuning.cli("--resume", str(runs), "--out", str(parts)) == 130
    tuning.stop_at = math.inf
    assert tuning.cli("--resume", str(runs), "--out", str(parts)) == 0
    assert tuning.made == made
    print(capsys.readouterr().out)
    found, expected = (json.loads(path.read_text()) for path in (parts, whole))
    same = ("verdict", "recommended", "ratio_to_kernel", "points", "runs")
    assert [found[name] for name in same] == [expected[name] for name in same]
    assert tuning.cli("--resume", str(runs)) == 0
    assert tuning.made == made
    assert "warming up" not in capsys.readouterr().err


def test_slower_machine_changes_no_recommendation(tuning, tmp_path):
    even, slowing = tmp_path / "even.json", tmp_path / "slowing.json"
    assert tuning.cli("--out", str(even)) == 0
    tuning.made = []
    # The 20 runs or so take up to twice as long; the probe beside them does, too.
    tuning.probe_us = staticmethod(lambda number: 300 * (1 + number / 20))
    assert tuning.cli("--out", str(slowing)) == 0
    found, expected = (json.loads(path.read_text()) for path in (slowing, even))
    assert found["recommended"] == expected["recommended"]
    assert [p["name"] for p in found["points"]] == [p["name"] for p in expected["points"]]
    for point, even_point in zip(found["points"], expected["points"], strict=True):
        assert point["mean_response_s"] == pytest.approx(even_point["mean_response_s"])
    raw = [run["jobs"][0]["ended_s"] for run in found["runs"]]
    assert raw[-1] > 1.5 * found["points"][-1]["mean_response_s"][-1]


def test_modes_and_alignment_are_swept(tuning, tmp_path, capsys):
    words = ["--modes", "strict,proportional", "--align", "both", "--write"]
    assert tuning.cli(*words, str(tmp_path / "out.toml")) == 0
    text = capsys.readouterr().out
    assert "\nproportional align=off: slice by GMET\n" in text
    written = (tmp_path / "out.toml").read_text()
    assert written.endswith('align = true\nmode = "proportional"\n')
    arms = {name.split()[0] for name, _ in tuning.made}
    # The default is in the mode that the daemons are in, and aligned.
    assert arms == {"kernel", "cosched", "strict", "proportional"}
    default = next(name for name, _ in tuning.made if name.startswith("cosched"))
    assert "auto" in default
    assert "align=off" not in default
    assert any("align=off" in name for name, _ in tuning.made)


def test_default_is_independent_of_the_sweep(tuning, tmp_path, capsys):
    tuning.surface = lambda setup: {Arm.KERNEL: 20.0, Arm.COSCHED: 10.0}.get(
        setup.arm, 15.0
    )
    assert tuning.cli("--modes", "strict", "--write", str(tmp_path / "out.toml")) == 0
    text = capsys.readouterr().out
    assert "Keep the default (slice auto, gmet auto): none is better." in text
    assert "the default, in the daemons' present mode:" in text
    assert "mode" not in (tmp_path / "out.toml").read_text().partition("[node]")[2]


def test_wide_map_is_split(tuning, capsys):
    gmets = [f"{10 * number}ms" for number in range(1, 10)]
    assert tuning.cli("--gmets", ",".join(gmets)) == 0
    text = capsys.readouterr().out
    assert max(map(len, text.splitlines())) <= 80
    heads = [line.split() for line in text.splitlines() if "ms  " in line]
    assert all(any(gmet in head for head in heads) for gmet in gmets)


def test_sufficient_default_is_reported(tuning, capsys):
    tuning.surface = lambda setup: 20.0 if setup.arm is Arm.KERNEL else 10.0
    assert tuning.cli() == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "Keep the default (slice auto, gmet auto): none is better. It takes 50%" in text


def test_useless_coscheduling_is_reported(tuning, tmp_path, capsys):
    tuning.surface = lambda _cell: 10.0
    assert tuning.cli("--write", str(tmp_path / "out.toml")) == 0
    printed = capsys.readouterr()
    assert (
        "Do not coschedule this workload: the kernel alone answers as soon" in printed.out
    )
    assert "is not written: there is nothing to set" in printed.err
    assert not (tmp_path / "out.toml").exists()


def test_settings_that_fail_are_shown_and_avoided(tuning, tmp_path, capsys):
    best = valley("0.5s", "50ms")
    tuning.surface = lambda setup: (
        math.inf if setup.settings.get("gmet") == "50ms" else best(setup)
    )
    assert tuning.cli("--figure", str(tmp_path / "map.svg")) == 0
    assert ">failed<" in (tmp_path / "map.svg").read_text()
    text = capsys.readouterr().out
    assert "failed: slice " in text
    assert f"job 'a'{' does not end' * 5}" in " ".join(text.split())
    assert max(map(len, text.splitlines())) <= 80
    assert "Recommended: slice 500ms, gmet " in text
    assert "gmet 50ms. It takes" not in text


def test_search_fails_if_all_runs_fail(tuning, capsys):
    tuning.surface = lambda _cell: math.inf
    assert tuning.cli() == 1
    assert "No setting ran to its end; see the failures above." in capsys.readouterr().out


def test_unreachable_daemons_are_an_error(tuning, capsys):
    tuning.nodes = ()
    assert tuning.cli() == 1
    assert "no node's daemons can be reached from here" in capsys.readouterr().err
    assert tuning.made == []


@pytest.mark.parametrize(
    ("words", "status", "message"),
    [
        (["--slices", "1"], 1, "cosched: --slices: '1' is not a duration; "),
        (["--slices", "1s,1000ms"], 1, "cosched: --slices: '1s,1000ms' names a time twice"),
        (["--slices", "1us"], 1, "cosched: slice: 1us is too short; "),
        (["--slices", "20ms", "--gmets", "20ms"], 1, "cosched: every GMET reaches the"),
        (["--modes", "loose"], 2, "cosched tune: Invalid value for '--modes': 'loose' is"),
        (["--align", "maybe"], 2, "cosched tune: Invalid value for '--align': 'maybe' is"),
        (["--out", "/nonexistent/x"], 1, "cosched: /nonexistent/x: its folder cannot be "),
        (["--repeat", "0"], 2, "cosched tune: Invalid value for '--repeat': "),
    ],
)
def test_wrong_usage_gets_one_line(tuning, capsys, words, status, message):
    assert tuning.cli(*words) == status
    printed = capsys.readouterr()
    assert printed.err.startswith(message)
    assert len(printed.err.splitlines()) == 1
    assert tuning.made == []


def test_contestant_becomes_a_setup():
    setup = tune.setup_of(
        Setting("strict align=off", Span(500 * NS_PER_MS), Span(20 * NS_PER_MS))
    )
    assert setup.arm is Arm.STRICT
    assert setup.settings == {"slice": "500ms", "gmet": "20ms", "align": "off"}
    assert (
        tune.setup_of(Setting("", Span(NS_PER_MS * 2), Span(NS_PER_MS))).arm is Arm.COSCHED
    )
    assert tune.setup_of(Setting("align=off", Span(2), Span(1))).settings["align"] == "off"
