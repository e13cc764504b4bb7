"""A whole bench with a stand-in for cosched-run: order, failures, document, exit status."""

import io
import json
import os
import subprocess
import sys
import time
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import pytest

from cosched.bench.run import daemons, launcher, testbed
from cosched.bench.run.arms import Arm, parse_arms
from cosched.bench.run.bench import BenchOptions, run_bench
from cosched.bench.run.launcher import Launcher
from cosched.bench.run.processes import RunFailed
from cosched.bench.run.site import Site
from cosched.bench.workload.file import JobInstance, JobSpec
from cosched.cli.commands import cosched
from cosched.cli.entry import run_cli
from cosched.core.errors import CoschedError
from cosched.core.node.settings import USUAL
from cosched.rundir.paths import NodePaths

STAND_IN = """\
#!/bin/sh
echo "$@" >> "$LOG"
while :; do
    case $1 in
        --no-shim) shift ;;
        --waits-only) shift ;;
        --job) job=$2; shift 2 ;;
        --*|-n) shift 2 ;;
        *) break ;;
    esac
done
JOB=$job exec "$@"
"""

WORKLOAD = """
title = "pair"
[[job]]
name = "a"
command = "sh -c 'echo from $JOB; test ! -e $LOG.fail'"
ranks = 2
count = 2
"""


@pytest.fixture
def bench(tmp_path, monkeypatch):
    """Runs a workload's text with the stand-in, on this machine as the only node."""
    script = tmp_path / "cosched-run"
    script.write_text(STAND_IN)
    script.chmod(0o755)
    log = tmp_path / "log"
    log.touch()
    monkeypatch.setenv("LOG", str(log))
    # The stand-in needs no daemons.
    monkeypatch.setattr(testbed, "lease_node", lambda *_, **__: io.StringIO())
    monkeypatch.setattr(
        "cosched.cli.measure.bench.run_bench",
        lambda options, *rest: run_bench(
            replace(options, testbed=replace(options.testbed, cosched_run=(str(script),))),
            *rest,
        ),
    )

    class Bench:
        path = tmp_path / "pair.toml"
        fail = tmp_path / "log.fail"
        stderr = io.StringIO()
        run_dir = tmp_path / "run"
        log = tmp_path / "log"

        def run(self, text=WORKLOAD, arms="batch,kernel,cosched", settings=(), **changes):
            self.path.write_text(text)
            options = BenchOptions(
                workload=self.path,
                arms=parse_arms(arms, tuple(Arm)),
                testbed=testbed.TestbedOptions(
                    run_dir=self.run_dir,
                    hosts=(os.uname().nodename,),
                    settings=dict(settings),
                    limit_s=changes.pop("limit_s", 60.0),
                    cosched_run=(str(script),),
                ),
                command_line=("cosched", "bench"),
                **{"repeats": 2, "warm_up": False, **changes},
            )
            return run_bench(options, os.environ, self.stderr)

        def cli(self, *arguments, text=WORKLOAD):
            self.path.write_text(text)
            common = ["--hosts", os.uname().nodename, "--run-dir", str(self.run_dir)]
            return run_cli(cosched, ["bench", str(self.path), *common, *arguments])

        def calls(self):
            return log.read_text().splitlines()

    return Bench()


def test_runs_are_interleaved_and_differ_only_in_the_shim(bench):
    outcome = bench.run()
    host = os.uname().nodename
    rest = f"--hosts {host} -n 2 --ppn 2 sh -c"
    calls = [line.partition(" echo")[0] for line in bench.calls()]
    without = [f"--no-shim --job a.{n} {rest}" for n in (1, 2)]
    with_shim = [f"--job a.{n} {rest}" for n in (1, 2)]
    # At once means in any order, so pairs are compared sorted.
    pairs = [sorted(calls[n : n + 2]) for n in range(0, len(calls), 2)]
    assert pairs == [
        *(without, without, with_shim),
        *(without, with_shim, without),
    ]
    assert not outcome.failed
    lines = bench.stderr.getvalue().splitlines()
    assert [line[:26].rstrip() for line in lines] == [
        "run 1/6  batch, repeat 1",
        "run 2/6  kernel, repeat 1",
        "run 3/6  cosched, repeat 1",
        "run 4/6  kernel, repeat 2",
        "run 5/6  cosched, repeat 2",
        "run 6/6  batch, repeat 2",
    ]


def test_each_arm_gives_cosched_run_its_options(bench):
    bench.run(arms="kernel,yield,block", repeats=1)
    told = [line.partition(" --job")[0] for line in bench.calls()]
    assert told[::2] == [
        "--no-shim",
        "--waits-only --wait yield",
        "--waits-only --wait block",
    ]


def test_document_is_complete(bench):
    found = json.loads(json.dumps(bench.run(arms="kernel,cosched").document))
    assert list(found["arms"]) == ["kernel", "cosched"]
    assert found["command_line"] == ["cosched", "bench"]
    assert found["kernel"] == os.uname().release
    assert found["hosts"] == [os.uname().nodename]
    assert found["lab"] is False
    assert {"mpi", "settings", "nodes", "started", "cosched"} <= set(found)
    repeat = found["arms"]["kernel"]["repeats"][0]
    assert [job["name"] for job in repeat["jobs"]] == ["a.1", "a.2"]
    assert repeat["outside_load"]["capacity_s"] > 0


def test_warm_up_runs_one_job_with_and_without_the_shim(bench):
    bench.run(warm_up=True, repeats=1)
    first, second, *rest = bench.calls()
    assert first.startswith("--no-shim --job a.1 ")
    assert second.startswith("--job a.1 ")
    assert len(rest) == 6


def test_warm_up_has_every_kind_of_start(bench):
    bench.run(warm_up=True, repeats=1, arms="block,kernel")
    starts = {call.partition("--job")[0].strip() for call in bench.calls()[:2]}
    assert starts == {"--waits-only --wait block", "--no-shim"}


def test_calculated_arms_are_made_of_each_run_of_batch(bench, tmp_path):
    options = {"arms": "las,batch,kernel,srpt", "resume": tmp_path / "runs.jsonl"}
    outcome = bench.run(WORKLOAD.replace("echo from $JOB", "sleep 0.1"), **options)
    assert len(bench.calls()) == 2 * 4
    arms = outcome.document["arms"]
    assert list(arms) == ["las", "batch", "kernel", "srpt"]
    assert [arm["calculated"] for arm in arms.values()] == [True, False, False, True]
    for las, batch in zip(arms["las"]["repeats"], arms["batch"]["repeats"], strict=True):
        assert las["makespan_s"] <= batch["makespan_s"]
        assert las["jobs"][0]["submitted_s"] == batch["jobs"][0]["submitted_s"]
    assert "srpt/kernel" in outcome.document["ratios"]
    assert "las, srpt: calculated from the lengths in batch, one" in outcome.text
    bench.run(WORKLOAD.replace("echo from $JOB", "sleep 0.1"), **options)
    assert len(bench.calls()) == 2 * 4


def test_calculated_arms_leave_out_failed_runs_of_batch(bench):
    bench.fail.touch()
    outcome = bench.run(arms="batch,srpt", repeats=1)
    assert outcome.failed
    assert outcome.document["arms"]["srpt"]["repeats"] == []
    assert outcome.text.count("failed: ") == 1


# --- the bound ---

OTHER = """
[[job]]
name = "b"
command = "sleep 0.05"
ranks = 1
"""


@pytest.fixture
def accounts(monkeypatch):
    """The seconds of CPU time on this node that its daemon counts for each job."""
    counted = {"a.1": 3e-4, "b": 2e-4}
    node = os.uname().nodename

    def records(site, names, since_wall_ns):
        assert since_wall_ns <= time.time_ns()
        known = [name for name in counted if name in names]
        return [SimpleNamespace(name=one, node=node, cpu_s=counted[one]) for one in known]

    monkeypatch.setattr(daemons, "records", records)
    return counted


def test_bound_runs_each_program_alone_with_ranks_that_sleep(bench, accounts, tmp_path):
    options = {"arms": "bound,batch", "resume": tmp_path / "runs.jsonl", "repeats": 2}
    outcome = bench.run(WORKLOAD + OTHER, **options)
    told = [call for call in bench.calls() if call.startswith("--wait block --job ")]
    assert [call.split()[3] for call in told] == ["a.1", "b"] * 2
    assert len(bench.calls()) == 2 * (3 + 2)
    arm = outcome.document["arms"]["bound"]
    assert arm["calculated"] is True
    host, cpus = os.uname().nodename, len(os.sched_getaffinity(0))
    for repeat in arm["repeats"]:
        assert [job["name"] for job in repeat["jobs"]] == ["a.1", "a.2", "b"]
        times = [job["node_s"][host] * cpus for job in repeat["jobs"]]
        assert times == pytest.approx([3e-4, 3e-4, 2e-4])
        assert repeat["makespan_s"] == max(job["response_s"] for job in repeat["jobs"])
    assert outcome.document["ratios"]["bound/batch"]["makespan"] < 1
    assert "\nbound  " in outcome.text
    assert bench.run(WORKLOAD + OTHER, **options).document["arms"]["bound"] == arm
    assert len(bench.calls()) == 2 * (3 + 2)


def test_bound_needs_the_cpu_time_of_each_program(bench, accounts):
    del accounts["b"]
    outcome = bench.run(WORKLOAD + OTHER, arms="batch,bound", repeats=1)
    assert outcome.failed
    assert "failed: bound, repeat 1: job 'b' ran alone, but its CPU time is" in outcome.text
    assert outcome.document["arms"]["batch"]["makespan_s"] > 0


# --- the record of runs ---

#: Its jobs count the runs that they know, and record their own as cosched-run does, one
#: after another. So those of one run know each a number of its own, in any order.
LEARNING = """
title = "learning"
[[job]]
name = "a"
command = ['sh', '-c', 'eval "$LEARN"']
ranks = 2
count = 2
[[job]]
name = "c"
command = ['sh', '-c', 'eval "$LEARN"; :']
ranks = 2
"""
COUNT = "cat $COSCHED_RUNS 2>&- | wc -l >> $LOG.known; echo $LINE >> $COSCHED_RUNS"
LOCKED = f"flock $LOG.lock sh -c '{COUNT}'"
JOBS = 3
LINE = '{"cosched_runs":1,"program":"p","args":[],"ranks":2,"length_ns":5}'


@pytest.fixture
def learning(bench, monkeypatch, tmp_path):
    """Returns a function that runs the bench, and returns how many runs the jobs of each
    run knew, in the order of these numbers."""
    monkeypatch.setenv("LINE", LINE)
    monkeypatch.setenv("LEARN", LOCKED)
    own = tmp_path / "own.jsonl"
    own.write_text(f"{LINE}\n" * 7)
    monkeypatch.setenv("COSCHED_RUNS", str(own))

    def run(**options):
        bench.run(LEARNING, arms="kernel,cosched", **options)
        assert own.read_text() == f"{LINE}\n" * 7
        known = [int(known) for known in Path(f"{bench.log}.known").read_text().split()]
        return [sorted(known[at : at + JOBS]) for at in range(0, len(known), JOBS)]

    return run


def test_no_run_learns_from_another_one(learning):
    assert learning(repeats=2) == [[0, 1, 2]] * 4


def test_each_run_starts_with_the_lengths_seen_before(learning):
    """Both jobs a run the same program; c runs another one."""
    seen, measured = [[0, 1, 2], [3, 4, 5]], [[6, 7, 8]] * 4
    assert learning(repeats=2, seen=3) == seen + measured


def test_length_that_does_not_become_known_is_an_error(bench):
    with pytest.raises(CoschedError, match=r"job 'a\.1' ran alone, but its length is not"):
        bench.run(seen=1)
    bench.fail.touch()
    with pytest.raises(RunFailed, match=r"alone, before the runs: job 'a\.1' ended with"):
        bench.run(seen=1)


def test_nothing_is_seen_for_arms_that_do_not_learn(bench):
    bench.run(seen=1, arms="kernel", repeats=1)
    assert len(bench.calls()) == 2


def test_bench_with_other_lengths_seen_is_not_continued(learning, tmp_path):
    learning(repeats=1, resume=tmp_path / "runs.jsonl")
    with pytest.raises(CoschedError, match="cannot be continued: 'seen' was null, now"):
        learning(repeats=1, seen=1, resume=tmp_path / "runs.jsonl")


def test_nodes_forget_ended_jobs_during_coscheduled_runs(bench, monkeypatch):
    asked = []

    class Changes(daemons.HeldChanges):
        def hold(self, paths, op, since_wall_ns, until_wall_ns):
            asked.append((paths.node, op))
            assert until_wall_ns >= since_wall_ns >= began_ns
            self.callback(asked.append, "given back")

    monkeypatch.setattr(daemons, "ask", lambda _site: {})
    monkeypatch.setattr(
        daemons, "request", lambda paths, op: asked.append((paths.node, op))
    )
    monkeypatch.setattr(daemons, "HeldChanges", Changes)
    began_ns = time.time_ns()
    outcome = bench.run(arms="kernel,cosched", repeats=1)
    node = os.uname().nodename
    assert asked == [(node, "relearn"), (node, "forget"), "given back"]
    assert outcome.document["remembering"] == []
    assert "earlier jobs" not in outcome.text


def test_nodes_that_do_not_forget_are_named(bench):
    outcome = bench.run(arms="kernel,cosched", repeats=1)
    host = os.uname().nodename
    assert outcome.document["remembering"] == [host]
    assert f"nodes that went by earlier jobs, too: {host}\n" in outcome.text
    assert "earlier jobs" not in bench.run(arms="kernel", repeats=1).text


def test_interrupted_bench_resumes(bench, tmp_path):
    resume = tmp_path / "runs.jsonl"

    class Hangup(io.StringIO):
        def write(self, text):
            if text.startswith("run 4/6"):
                raise KeyboardInterrupt
            return super().write(text)

    bench.stderr = Hangup()
    with pytest.raises(KeyboardInterrupt):
        bench.run(resume=resume)
    assert len(bench.calls()) == 2 * 4
    bench.stderr = io.StringIO()
    outcome = bench.run(resume=resume)
    shown = bench.stderr.getvalue().splitlines()
    assert shown[0] == "runs done already: 4"
    assert [line[:9] for line in shown[1:]] == ["run 5/6  ", "run 6/6  "]
    assert len(bench.calls()) == 2 * 6
    repeats = [len(arm["repeats"]) for arm in outcome.document["arms"].values()]
    assert repeats == [2, 2, 2]
    bench.run(resume=resume, repeats=1)
    assert len(bench.calls()) == 2 * 6


def test_bench_of_another_workload_is_not_continued(bench, tmp_path):
    bench.run(resume=tmp_path / "runs.jsonl", repeats=1)
    with pytest.raises(CoschedError, match=r"continued: 'workload\.pair\.1\.count' was 2"):
        bench.run(
            WORKLOAD.replace("count = 2", "count = 3"), resume=tmp_path / "runs.jsonl"
        )


def test_arrivals_are_the_same_for_each_arm_and_run(bench, tmp_path):
    stream = "[arrivals]\npoisson = 0.01\nseed = 3\n" + WORKLOAD.replace("title", "# ")
    found = bench.run(stream, arms="batch,kernel", resume=tmp_path / "runs.jsonl").document
    runs = [run for arm in found["arms"].values() for run in arm["repeats"]]
    submitted = {tuple(job["submitted_s"] for job in run["jobs"]) for run in runs}
    assert len(runs) == 4
    assert len(submitted) == 1
    assert found["workload"]["arrivals"] == {
        "interval_s": 0.01,
        "seed": 3,
        "shuffle": False,
    }
    other = stream.replace("seed = 3", "seed = 4")
    with pytest.raises(CoschedError, match=r"'arrivals\.pair\.seed' was 3"):
        bench.run(other, resume=tmp_path / "runs.jsonl")


def test_dom_limits_the_jobs_that_run_at_a_time(bench):
    text = WORKLOAD.replace("count = 2", "count = 5")
    arms = bench.run(text, arms="kernel,batch", repeats=1, dom=2).document["arms"]
    for arm, at_most in (("kernel", 2), ("batch", 1)):
        jobs = arms[arm]["repeats"][0]["jobs"]
        beside = [
            sum(job["wait_s"] <= other["wait_s"] < job["response_s"] for job in jobs)
            for other in jobs
        ]
        assert max(beside) == at_most
        assert [job["wait_s"] for job in jobs] == sorted(job["wait_s"] for job in jobs)
        assert arms[arm]["mean_wait_s"] > 0


def test_run_that_takes_too_long_fails(bench):
    text = WORKLOAD.replace("echo from $JOB;", "exec sleep 60;")
    outcome = bench.run(text, arms="kernel", limit_s=0.3)
    assert outcome.failed
    assert len(outcome.document["arms"]["kernel"]["repeats"]) == 1
    assert "failed: kernel, repeat 1: not over in 0.3 s; the jobs that ran: a.1, a.2" in (
        outcome.text
    )


def test_failure_in_the_warm_up_ends_the_bench(bench):
    bench.fail.touch()
    with pytest.raises(RunFailed) as caught:
        bench.run(warm_up=True)
    assert str(caught.value) == "warm-up: job 'a.1' ended with status 1"
    assert caught.value.failure.output == ("from a.1",)


def test_failed_arm_is_left_out_and_the_others_go_on(bench):
    text = """
    [[job]]
    name = "picky"
    command = "sh -c 'test -z \\"$SHIM\\"'"
    ranks = 1
    """
    failing_with_shim = STAND_IN.replace("while :", "SHIM=1; export SHIM; while :")
    failing_with_shim = failing_with_shim.replace(
        "--no-shim) shift ;;", "--no-shim) SHIM=; shift ;;"
    )
    script = bench.path.parent / "cosched-run"
    script.write_text(failing_with_shim)
    outcome = bench.run(text, repeats=3)
    assert outcome.failed
    assert len(bench.calls()) == 3 + 3 + 1
    arms = outcome.document["arms"]
    assert [len(arms[arm]["repeats"]) for arm in ("batch", "kernel", "cosched")] == [
        *(3, 3, 1),
    ]
    assert arms["cosched"]["makespan_s"] is None
    assert "failed: cosched, repeat 1: job 'picky' ended with status 1" in outcome.text
    assert "kernel/batch" in outcome.text


def test_coscheduled_run_without_registered_task_fails(bench, monkeypatch):
    """The node's daemons are up, but the stand-in knows nothing of them."""
    answer = {
        "pid": os.getpid(),
        "timer": {"pid": os.getpid()},
        "settings": {**USUAL.texts(), "slice": "1s", "gmet": "100ms", "align": True},
        "class_scheduler": {"name": "cgroup2", "mode": "proportional"},
        "counters": {"reg_new_job": 3},
    }
    node = NodePaths(bench.run_dir, os.uname().nodename)
    monkeypatch.setattr(daemons, "ask", lambda _site: {node: answer})
    outcome = bench.run(arms="kernel,cosched", repeats=1)
    assert outcome.failed
    assert outcome.document["arms"]["kernel"]["makespan_s"] > 0
    assert "failed: cosched, repeat 1: no task took part in coscheduling" in outcome.text
    assert "slice 1s, gmet 100ms, align on" in outcome.text


def test_ranks_that_do_not_fit_are_refused_first(bench):
    with pytest.raises(CoschedError) as caught:
        bench.run(WORKLOAD + "ppn = 1")
    assert str(caught.value) == (
        f"{bench.path}, job 'a': 2 ranks do not fit on 1 node at ppn = 1; "
        "raise ppn or leave it out"
    )
    assert bench.calls() == []


def test_settings_change_without_daemon_is_refused(bench):
    with pytest.raises(CoschedError, match="cannot change the settings of"):
        bench.run(settings={"slice": "2s"})
    with pytest.raises(CoschedError, match="slice: '2' is not a duration"):
        bench.run(settings={"slice": "2"})


# --- the command ---


def test_command_prints_the_table_and_writes_the_document(bench, capsys, tmp_path):
    json_file = tmp_path / "result.json"
    options = ["--arms", "kernel", "--repeat", "1", "--no-warm-up"]
    assert bench.cli(*options, "--out", str(json_file)) == 0
    printed = capsys.readouterr()
    assert printed.out.startswith("pair\n")
    assert printed.err.startswith("run 1/1  kernel, repeat 1   response ")
    assert json.loads(json_file.read_text())["workload"]["title"] == "pair"
    assert bench.cli(*options, "--json") == 0
    assert json.loads(capsys.readouterr().out)["format"] == "cosched-bench-1"


def test_command_fails_if_a_job_did(bench, capsys):
    bench.fail.touch()
    assert bench.cli("--arms", "kernel", "--repeat", "1", "--no-warm-up") == 1
    assert "failed: kernel, repeat 1: job 'a." in capsys.readouterr().out
    assert bench.cli() == 1
    assert capsys.readouterr().err == (
        "warming up\n  | from a.1\ncosched: warm-up: job 'a.1' ended with status 1\n"
    )


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (["--arms", "none"], 1, "cosched: --arms: 'none' is not an arm; "),
        (["--arms", "srpt"], 1, "cosched: --arms: 'srpt' is calculated from the runs of"),
        (["--hosts", "a,,b"], 2, "cosched bench: Invalid value for '--hosts': 'a,,b' is"),
        (["--repeat", "0"], 2, "cosched bench: Invalid value for '--repeat': "),
        (["--out", "/nonexistent/x"], 1, "cosched: /nonexistent/x: its folder cannot be "),
        (["--set-with", "pdsh 'x"], 1, "cosched: --set-with: 'pdsh 'x': No closing"),
        (["--gmet", "soon"], 1, "cosched: gmet: 'soon' is not a duration; "),
    ],
)
def test_wrong_usage_gets_one_line(bench, capsys, arguments, status, message):
    assert bench.cli(*arguments) == status
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith(message)
    assert len(printed.err.splitlines()) == 1
    assert bench.calls() == []


# --- command lines ---


def submission(spec, arm, mpi=None, program=("./app", "-x")):
    site = Site(Path("/run/x"), ("lab1", "lab2"), None, lab=True)
    made = Launcher(site, {spec.name: program}, {"HOME": "/h"}, mpi, ("run",))
    return made.submission(JobInstance(spec.name, spec, spec.start_s), arm)


def test_ranks_are_spread_over_all_nodes():
    made = submission(JobSpec("a", 3), Arm.COSCHED)
    assert made.argv == (
        *("run", "--job", "a", "--hosts", "lab1,lab2", "-n", "3", "--ppn", "2"),
        *("./app", "-x"),
    )
    assert made.env == {
        "HOME": "/h",
        "COSCHED_RUN_DIR": "/run/x",
        "COSCHED_RUNS": "off",
    }


def test_job_runs_on_its_first_and_later_nodes():
    made = submission(JobSpec("a", 1, first=2), Arm.KERNEL)
    assert made.argv[4:10] == ("--hosts", "lab2", "-n", "1", "--ppn", "1")
    assert list(JobSpec("a", 3, first=2).place(4)) == [1, 2, 3]
    assert list(JobSpec("a", 3, first=2, ppn=2).place(4)) == [1, 2]


def test_workload_keys_reach_the_job():
    spec = JobSpec("a", 4, ppn=4, env={"A": "1"}, start_s=2.0, timeout_s=9.0)
    made = submission(spec, Arm.BATCH, mpi="openmpi")
    assert made.argv[:11] == (
        *("run", "--no-shim", "--job", "a", "--hosts", "lab1,lab2", "-n", "4"),
        *("--ppn", "4", "--mpi"),
    )
    assert made.env["A"] == "1"
    assert (made.start_s, made.timeout_s) == (2.0, 9.0)


def test_paper_arm_has_all_that_the_paper_has():
    words = submission(JobSpec("a", 2), Arm.PAPER).argv
    pairs = dict(pairwise(words))
    assert pairs["--wait"] == "busy"
    assert pairs["--carrier"] == "prefix"
    assert pairs["--register"] == "init"
    assert Arm.PAPER.settings == {"order": "paper"}
    assert (Arm.PAPER.mode, Arm.MESSAGES.mode) == ("strict", None)
    assert Arm.MESSAGES.settings == Arm.PAPER.settings
    assert Arm.MESSAGES.options == ("--wait", "busy")


@pytest.mark.parametrize("command", [launcher.COSCHED_RUN, launcher.SLURM_JOB])
def test_job_does_not_import_from_working_directory(command, tmp_path):
    """As in a clone of cosched that is not built."""
    (tmp_path / "cosched").mkdir()
    (tmp_path / "cosched/__init__.py").write_text("raise ImportError('not this one')")
    run = subprocess.run(
        [*command, "--help"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert (run.returncode, run.stderr) == (0, "")
    assert run.stdout.lower().startswith("usage: ")


def test_launcher_places_its_ranks_itself():
    made = submission(JobSpec("a", 4), Arm.KERNEL, program=("srun", "-n", "4", "./app"))
    assert made.argv == (*("run", "--no-shim", "--job", "a", "srun", "-n", "4", "./app"),)
    assert sys.executable in launcher.COSCHED_RUN
