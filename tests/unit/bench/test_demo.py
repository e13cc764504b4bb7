"""The picture and the sample of ``cosched demo``; benches where no lab can be made."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from cosched.bench.demo import sample
from cosched.bench.demo.cpus import few_cpus
from cosched.bench.demo.picture import picture
from cosched.bench.demo.sample import build_shim, make_folder, write_workload
from cosched.bench.results.document import document
from cosched.bench.results.results import Failure, Run
from cosched.bench.run.arms import Arm
from cosched.bench.run.bench import Outcome
from cosched.bench.run.processes import RunLate
from cosched.bench.run.testbed import TestbedOptions
from cosched.bench.workload.file import load_workload
from cosched.cli.commands import cosched
from cosched.cli.entry import run_cli
from cosched.cli.measure import demo
from cosched.cli.measure.measuring import at_hand
from cosched.core.errors import CoschedError
from tests.unit.bench.bench_samples import BATCH, KERNEL, failed_run, run, summaries


def result(tmp_path, *coscheduled, kernel=KERNEL):
    """The document of a demo with these coscheduled runs."""
    workload = load_workload(write_workload(tmp_path, 2, 4))
    mpi = {"family": "openmpi", "version": "5.0.11", "mpiexec": "mpiexec"}
    found = summaries(BATCH, kernel, coscheduled)
    return document(workload, found, {"mpi": mpi})


def coscheduled(*responses, share=0.01):
    return [
        run(Arm.COSCHED, repeat, pair, share) for repeat, pair in enumerate(responses, 1)
    ]


def test_gain_is_drawn(tmp_path):
    lines = picture(result(tmp_path, *coscheduled((2.0, 2.2), (2.1, 2.3))))
    assert "\n".join(lines) == (
        "4 jobs of 2 ranks on 2 CPUs of this machine, Open MPI 5.0.11, median of 2 runs\n"
        "\n"
        "mean time from the start of a job to its end\n"
        f"  one after the other    {'█' * 26} 2.40 s\n"
        f"  at once, kernel alone  {'█' * 46} 4.22 s\n"
        f"  at once, with cosched  {'█' * 23} 2.15 s\n"
        "\n"
        "until all jobs have ended\n"
        f"  one after the other    {'█' * 34} 3.20 s\n"
        f"  at once, kernel alone  {'█' * 46} 4.30 s\n"
        f"  at once, with cosched  {'█' * 24} 2.25 s\n"
        "\n"
        "With cosched a job took 0.51 of its time under the kernel alone: 2.0 times as\n"
        "fast."
    )
    assert max(map(len, lines)) <= 80


@pytest.mark.parametrize(
    ("runs", "words"),
    [
        ([(4.1, 4.3)], "No gain here: both ways are equal (within 3%)."),
        ([(5.0, 5.6)], "took 1.25 times as long"),
        ([(2.0, 2.2), (5.0, 5.4)], "But single runs overlap"),
    ],
)
def test_no_gain_is_said(tmp_path, runs, words):
    assert words in " ".join(picture(result(tmp_path, *coscheduled(*runs))))


def test_busy_machine_and_failed_runs_give_no_conclusion(tmp_path):
    busy = coscheduled((2.0, 2.2), (5.0, 5.4), share=0.3)  # they overlap, too
    text = " ".join(picture(result(tmp_path, *busy)))
    assert text.endswith("Try it again on a quiet machine.")
    assert "No conclusion: other programs" in text
    assert "as fast" not in text
    failed = result(tmp_path, failed_run(Arm.COSCHED, 1))
    assert " ".join(picture(failed)).endswith(
        "No conclusion. 'at once, with cosched' failed: job 'wavefront.1' ended with "
        "status 3."
    )


def test_late_runs_give_the_advice_to_wait_for_a_quiet_machine(tmp_path):
    late = Run(
        Arm.COSCHED, 1, (), failure=Failure("not over in 40 s; the jobs that ran: a")
    )
    text = " ".join(picture(result(tmp_path, late)))
    assert text.endswith(
        "No conclusion. 'at once, with cosched' failed: not over in 40 s; the jobs that "
        "ran: a. Try it again on a quiet machine."
    )


def invoke(*words):
    return CliRunner().invoke(cosched, words)


def test_demo_measures_on_this_machine(tmp_path, monkeypatch):
    asked, built, used = [], [], []
    usable = os.sched_getaffinity(0)

    def run_bench(options, _environ, _log):
        asked.append((options, load_workload(options.workload)))
        used.append(os.sched_getaffinity(0))
        return Outcome("", result(tmp_path, *coscheduled((2.0, 2.2))), failed=False)

    monkeypatch.setattr(demo, "run_bench", run_bench)
    monkeypatch.setattr(demo, "build_shim", lambda mpi, *_: built.append(mpi))
    monkeypatch.setattr(demo, "few_cpus", lambda count, _: frozenset({min(usable)}))
    monkeypatch.setenv("COSCHED_RUN_DIR", str(tmp_path))
    done = invoke("demo", "--jobs", "3", "--repeat", "1", "--mpi", "mpich")
    assert (done.exit_code, done.output.splitlines()[-1]) == (0, "fast.")
    ((options, workload),) = asked
    assert built == ["mpich"]
    assert options.testbed.hosts == ("localhost",)
    assert (options.repeats, options.testbed.mpi) == (1, "mpich")
    assert options.within_s == 60.0
    assert [job.spec.ranks for job in workload.instances()] == [2, 2, 2]
    names = [job.name for job in workload.instances()]
    assert names == [f"wavefront-{os.getpid()}.{number}" for number in (1, 2, 3)]
    assert not options.workload.exists()
    assert (used, os.sched_getaffinity(0)) == ([{min(usable)}], usable)


def test_jobs_get_as_few_cpus_as_ranks():
    """Of different cores, if there are as many."""
    assert few_cpus(2, [frozenset({0, 4}), frozenset({1, 5}), frozenset({2, 6})]) == {0, 1}
    assert few_cpus(2, [frozenset({3, 7})]) == {3, 7}
    with pytest.raises(CoschedError, match="needs 2 CPUs, and may use 1 here"):
        few_cpus(2, [frozenset({3})])


def test_late_warm_up_is_one_line_with_a_remedy(tmp_path, monkeypatch):
    def run_bench(_options, _environ, _log):
        raise RunLate(Failure("warm-up: not over in 36 s"))

    monkeypatch.setattr(demo, "run_bench", run_bench)
    monkeypatch.setattr(demo, "build_shim", lambda *_: None)
    monkeypatch.setenv("COSCHED_RUN_DIR", str(tmp_path))
    failed = invoke("demo").exception
    assert str(failed) == "warm-up: not over in 36 s; try it again on a quiet machine"


def test_sample_is_written_and_runs(tmp_path):
    if shutil.which("gcc") is None:
        pytest.skip("no C compiler")
    folder = tmp_path / "sample"
    mpiexec = Path(sys.executable).parent / "mpiexec"
    done = invoke("demo", "--build", str(folder), "--mpi", str(mpiexec))
    assert done.exit_code == 0, done.output
    assert f"cosched bench {folder}/workload.toml --hosts localhost" in done.output
    assert len(load_workload(folder / "workload.toml").instances()) == 4
    ran = subprocess.run(
        [folder / "wavefront", "--preset", "tiny"], capture_output=True, check=True
    )
    assert b"verification: success" in ran.stdout
    assert invoke("demo", "--build", str(folder), "--mpi", str(mpiexec)).exit_code == 0


def test_shim_is_built_once_with_one_line_before(tmp_path, monkeypatch):
    mpiexec = Path(sys.executable).parent / "mpiexec"
    if not mpiexec.exists():
        pytest.skip("no MPI beside this Python")

    def make_shim(build):
        assert lines == ["building the shim for this MPI, once"]
        build.library.parent.mkdir(parents=True)
        build.library.touch()

    monkeypatch.setattr(sample, "make_shim", make_shim)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    lines = []
    for _ in range(2):
        build_shim(str(mpiexec), os.environ, lines.append)
    assert len(lines) == 1
    assert len(list(tmp_path.rglob("libcosched_mpi.so"))) == 1


def test_other_files_are_kept(tmp_path):
    (tmp_path / "wavefront.c").write_text("int main;\n")
    with pytest.raises(CoschedError, match="is another file; name a new folder"):
        make_folder(tmp_path)


def test_without_mpi_there_is_one_line(tmp_path):
    done = subprocess.run(
        [
            *(sys.executable, "-m", "cosched.cli.main", "demo", "--build"),
            *(tmp_path / "sample", "--mpi", tmp_path / "nowhere"),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert len(done.stderr.splitlines()) == 1
    assert "nowhere" in done.stderr


@pytest.mark.parametrize(
    ("more", "euid", "hosts"),
    [
        ({}, 1000, ("localhost",)),
        ({}, 0, ()),
        ({"hosts": ("n1",)}, 1000, ("n1",)),
        ({"rate": 10**9}, 1000, ()),
        ({"nodes": 3, "cores_per_node": 1}, 1000, ("localhost",)),
    ],
)
def test_without_root_and_lab_jobs_run_on_this_machine(
    tmp_path, monkeypatch, capsys, more, euid, hosts
):
    monkeypatch.setattr(os, "geteuid", lambda: euid)
    workload = write_workload(tmp_path, 2, 4)
    found = at_hand(TestbedOptions(tmp_path, **more), workload)
    assert found.hosts == hosts
    assert found.nodes is None
    line = capsys.readouterr().err
    assert ("(--hosts localhost)\n" in line) == (hosts == ("localhost",))


def test_without_root_and_lab_calibrate_runs_on_this_machine(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    seen = []

    def measure(_workload, testbed, *_rest):
        seen.append(testbed.hosts)
        raise CoschedError("enough")

    monkeypatch.setattr("cosched.cli.sim.calibrate.calibrate", measure)
    workload = write_workload(tmp_path, 2, 4)
    words = ["sim", "calibrate", str(workload), "--run-dir", str(tmp_path)]
    assert run_cli(cosched, words) == 1
    assert seen == [("localhost",)]


@pytest.mark.parametrize("command", ["bench", "tune", "advise"])
def test_missing_workload_is_the_only_line(tmp_path, monkeypatch, capsys, command):
    monkeypatch.setattr(os, "geteuid", lambda: 1000)  # a user gets a note about the nodes
    words = [command, str(tmp_path / "none.toml"), "--run-dir", str(tmp_path)]
    assert run_cli(cosched, words) == 1
    assert capsys.readouterr().err == (
        f"cosched: {tmp_path}/none.toml: cannot be read: No such file or directory\n"
    )
