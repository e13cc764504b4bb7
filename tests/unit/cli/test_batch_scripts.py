"""Batch scripts, arrays and dependencies on the command line, with a domain of the test."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path

import pytest
from click.testing import CliRunner

from cosched import Client, Job
from cosched.cli.commands import cosched
from cosched.cli.domain.sbatch_lines import Translated, translate
from cosched.cli.domain.script_lines import (
    SBATCH,
    SCRIPT_BYTES,
    ScriptLine,
    read_script,
)
from cosched.cli.entry import run_cli
from cosched.core.errors import CoschedError
from tests.tools.desk import FakeDesk


@pytest.fixture
def desk(monkeypatch):
    with tempfile.TemporaryDirectory(prefix="cosched-t-") as name:
        for variable in os.environ:
            if variable.startswith("COSCHED_") and variable != "COSCHED_RUNS":
                monkeypatch.delenv(variable)
        monkeypatch.setenv("COSCHED_RUN_DIR", name)
        monkeypatch.chdir(name)
        desk = FakeDesk(Path(name))
        yield desk
        desk.close()


def run(*words):
    return CliRunner().invoke(cosched, words, catch_exceptions=False)


def script(*lines, name="job.sh"):
    path = Path(name)
    path.write_text("\n".join(["#!/bin/sh", *lines, "true", ""]))
    path.chmod(0o755)
    return f"./{name}"


def sent(desk, *words):
    done = run("submit", *words)
    assert (done.exit_code, done.stdout) == (0, f"job {len(desk.submissions)}\n")
    return desk.submissions[-1], done.stderr.splitlines()


def test_a_folder_in_path_that_cannot_be_looked_into_is_skipped(desk, monkeypatch):
    monkeypatch.setenv("PATH", f"/tmp/{'x' * 300}:{os.environ['PATH']}")
    submission, _ = sent(desk, "hostname")
    assert submission["argv"] == ["hostname"]


# -- lines of options ----------------------------------------------------------------------


def lines_of(text):
    path = Path("job.sh")
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return [(line.number, *line.words) for line in read_script(path)[1]]


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("#!/bin/sh\n#COSCHED -n 2\n\n# a\n  # b\n#SBATCH -N1\nls\n#SBATCH -n 3\n", [2, 6]),
        ("#!/bin/sh\n #SBATCH -n 3\n## SBATCH\n#SBATCHX -n 3\n", []),
        ("#!/bin/sh\n#SBATCH\t-n\t3\n#COSCHED\n", [2, 3]),
        ("#COSCHED -n 2\n", []),
        (b"\x7fELF#COSCHED -n 2\n", []),
        (b"#!/bin/sh\n#\xff\n#COSCHED --name \xff\n", [3]),
    ],
)
def test_the_block_of_options_ends_at_the_first_command(tmp_path, monkeypatch, text, lines):
    monkeypatch.chdir(tmp_path)
    assert [found[0] for found in lines_of(text)] == lines


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("-n 2   --name x", ["-n", "2", "--name", "x"]),
        ("--name 'a b' --output=\"c d\"e", ["--name", "a b", "--output=c de"]),
        ('--name a\\ b\\"', ["--name", 'a b"']),
        ("--name x # the name", ["--name", "x"]),
        ("--name 'a#b' c\\#d", ["--name", "a#b", "c#d"]),
        ("--name ''", ["--name", ""]),
    ],
)
def test_words_of_a_line(tmp_path, monkeypatch, line, words):
    monkeypatch.chdir(tmp_path)
    assert lines_of(f"#!/bin/sh\n#SBATCH {line}\n") == [(2, *words)]


@pytest.mark.parametrize(
    ("line", "reason"),
    [("--name 'x", "job.sh:2: .*' is not closed"), ("--name x\r", "job.sh:2: .*DOS")],
)
def test_a_line_that_cannot_be_split(tmp_path, monkeypatch, line, reason):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(CoschedError, match=reason):
        lines_of(f"#!/bin/sh\n#SBATCH {line}\n")


# -- the script itself ---------------------------------------------------------------------


@pytest.mark.parametrize("line", ["#COSCHED --name a", "#SBATCH --job-name=a"])
def test_a_batch_script_travels_with_its_job(desk, line):
    path = script(line)
    found, _ = sent(desk, path)
    assert found["script"] == Path(path).read_text()
    assert found["environ"]["COSCHED_SCRIPT"] == os.path.abspath(path)


def test_a_script_without_options_is_run_where_it_is(desk):
    found, _ = sent(desk, script("# no options"))
    assert found["script"] == ""
    assert "COSCHED_SCRIPT" not in found["environ"]


def test_a_batch_script_that_is_too_long_is_refused(desk):
    path = script("#COSCHED --name a")
    with open(path, "a") as file:
        file.write("#" * SCRIPT_BYTES)
    with pytest.raises(CoschedError, match=r"job\.sh: a batch script has at most 1048576 "):
        run("submit", path)


# -- #COSCHED ------------------------------------------------------------------------------


def test_options_of_the_script_count_and_the_command_line_wins(desk):
    path = script("#COSCHED --name a --time 2m", "#COSCHED -n 2 --requeue", "#COSCHED -n 3")
    found, warnings = sent(desk, "--name", "b", "--mpi", "none", path, "-n", "9")
    assert warnings == []
    assert (found["name"], found["time_ns"], found["ranks"]) == ("b", 120 * 10**9, 3)
    assert found["requeue"]
    assert found["argv"] == [path, "-n", "9"]


def test_cosched_lines_win_over_slurms(desk):
    path = script("#COSCHED --name mine", "#SBATCH --job-name=theirs --time=5")
    found, _ = sent(desk, path)
    assert (found["name"], found["time_ns"]) == ("mine", 300 * 10**9)
    assert found["slurm_variables"]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("--nam x", "#COSCHED --nam: no such option; did you mean '--name'?"),
        ("--zz", "#COSCHED --zz: no such option."),
        ("--time never", "#COSCHED --time: 'never' is"),
        ("--ranks=x", "#COSCHED --ranks: 'x' is not a whole number of 1 or more"),
        ("--memory much", "#COSCHED --memory: 'much'"),
        ("--name", "#COSCHED --name: Option '--name' requires an argument."),
        ("./app", "#COSCHED './app': is no option."),
        ("--help", "#COSCHED --help: is only for the command line."),
    ],
)
def test_a_wrong_line_is_named(desk, capsys, line, reason):
    assert run_cli(cosched, ["submit", script(f"#COSCHED {line}")]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"cosched: job.sh:2: {reason}")
    assert err.endswith(" See cosched submit --help.\n")
    assert err.count("\n") == 1
    assert not desk.submissions


def test_options_of_a_script_that_do_not_go_together_are_reported_with_its_name(
    desk, capsys
):
    assert run_cli(cosched, ["submit", script("#COSCHED --ideal 2")]) == 1
    assert capsys.readouterr().err == (
        "cosched: job.sh: its options and those of the command line: --ideal needs --min. "
        "See cosched submit --help.\n"
    )
    assert run_cli(cosched, ["submit", "--ideal", "2", script("# no options")]) == 2
    err = capsys.readouterr().err
    assert err == "cosched submit: --ideal needs --min. See cosched submit --help.\n"


def test_a_program_is_no_script(desk):
    found, warnings = sent(desk, "true")
    assert (found["array"], found["slurm_variables"], warnings) == ("", False, [])


# -- #SBATCH -------------------------------------------------------------------------------


def sbatch(*words):
    found = Translated()
    translate(found, ScriptLine(Path("job.sh"), 2, SBATCH, words))
    return found


@pytest.mark.parametrize(
    ("words", "options"),
    [
        (["--job-name=x"], ["--name", "x"]),
        (["-J", "x"], ["--name", "x"]),
        (["-Jx", "-H"], ["--name", "x", "--hold"]),
        (["--job", "x"], ["--name", "x"]),
        (["--time=30"], ["--time", "30min"]),
        (["-t", "1:30"], ["--time", "90s"]),
        (["-t", "1:00:30"], ["--time", "3630s"]),
        (["-t", "1-2"], ["--time", "26h"]),
        (["-t", "1-2:30"], ["--time", "1590min"]),
        (["-t", "1-2:30:01"], ["--time", "95401s"]),
        (["--mem=512"], ["--memory", "512M"]),
        (["--mem", "4G"], ["--memory", "4G"]),
        (["-o", "a-%A_%a", "-e", "b"], ["--output", "a-%A_%a", "--error", "b"]),
        (["-i", "c"], ["--input", "c"]),
        (["-D", "/tmp"], ["--cwd", "/tmp"]),
        (["--array=1-9:2%3"], ["--array", "1-9:2%3"]),
        (["-d", "afterok:1:2_3,afterany:4"], ["--after", "4", "--after-ok", "1,2_3"]),
        (["-d", "afterok:1_*"], ["--after-ok", "1"]),
        (["--requeue", "--exclusive"], ["--requeue", "--exclusive"]),
        (["--export=ALL", "--no-requeue", "-N1"], []),
        (["--open-mode=append"], []),
    ],
)
def test_lines_that_mean_the_same(words, options):
    found = sbatch(*words)
    assert (found.options, found.notes) == (options, [])


@pytest.mark.parametrize(
    ("words", "note"),
    [
        (["-p", "debug"], "--partition=debug: is ignored: a domain has one queue"),
        (["--mail-type=END"], "--mail-type=END: is ignored: a domain sends no mail"),
        (["--wonder=3"], "--wonder=3: is ignored: it is not known here"),
        (["--time=0"], "--time=0: is ignored"),
        (["--output=%N.txt"], "--output=%N.txt: is ignored: %N in it is not known here"),
        (["--exclusive=user"], "--exclusive=user: is ignored"),
        (["--mem-per-cpu=1G"], "--mem-per-cpu=1G: is ignored"),
        (["--open-mode=truncate"], "--open-mode=truncate: is ignored: a job appends"),
    ],
)
def test_lines_that_are_ignored_are_named(words, note):
    (found,) = sbatch(*words).notes
    assert found.startswith(f"job.sh:2: #SBATCH {note}")


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["--gres=gpu:1"], "--gres=gpu:1: a domain gives no GPUs"),
        (["-G", "2"], "--gpus=2: a domain gives no GPUs"),
        (["-N", "2"], "--nodes=2: a script runs on one node"),
        (["-C", "haswell|knl"], "--constraint=haswell|knl: only names with & between"),
        (["-L", "matlab@server"], "--licenses=matlab@server: only names and numbers"),
        (["--begin=noon"], "--begin=noon"),
        (["-d", "after:3"], "--dependency=after:3: only afterok and afterany"),
        (["-d", "afterok:3?afterok:4"], "only afterok"),
        (["-d", "singleton"], "only afterok"),
        (["--export=NONE"], "--export=NONE: a job has all variables"),
        (["--time=soon"], "--time=soon: is no time of Slurm"),
        (["--mem=much"], "--mem=much: is no size"),
        (["-n", "many"], "--ntasks=many: is no number"),
        (["x"], "'x': is no option of sbatch"),
    ],
)
def test_lines_that_would_change_the_job_refuse_it(words, reason):
    with pytest.raises(CoschedError, match=rf"^job.sh:2: .*{reason}") as error:
        sbatch(*words)
    assert "\n" not in str(error.value)


def test_a_script_of_slurm_runs_once_and_needs_the_slots_of_its_tasks(desk, capsys):
    path = script("#SBATCH -n 4 --cpus-per-task=1", "#SBATCH --export=ALL,A=b -p x")
    found, warnings = sent(desk, path)
    assert (found["ranks"], found["nodes"], found["pmi"]) == (0, 0, "none")
    assert found["environ"]["SLURM_NTASKS"] == "4"
    assert found["environ"]["A"] == "b"
    assert warnings == [
        "cosched submit: warning: job.sh:3: #SBATCH --partition=x: is ignored: "
        "a domain has one queue"
    ]
    path = script("#SBATCH --ntasks=2 --cpus-per-task=3")
    assert run_cli(cosched, ["submit", path]) == 1
    assert "needs 6 tasks on a node, a node takes 4" in capsys.readouterr().err


def test_a_gpu_refuses_the_script(desk, capsys):
    assert run_cli(cosched, ["submit", script("#SBATCH --gpus=1")]) == 1
    err = capsys.readouterr().err
    assert err.startswith("cosched: job.sh:2: #SBATCH --gpus=1: ")
    assert err.count("\n") == 1
    assert not desk.submissions


# -- arrays and dependencies ---------------------------------------------------------------


def test_arrays_and_dependencies_are_sent(desk):
    words = ("--array", "1-9:2%3", "--after", "4,7_1-2", "--after-ok", "8")
    found, _ = sent(desk, *words, "true")
    assert (found["array"], found["after"], found["after_ok"]) == (
        "1-9:2%3",
        "4,7_1-2",
        "8",
    )
    assert found["output"] == "cosched-%A_%a.out"
    with Client.connect() as client:
        client.submit(Job(["true"], array="1-2", after=[3, "4_1"]))
    assert desk.submissions[-1]["after"] == "3,4_1"


def test_cwd_is_that_of_the_job_and_not_of_its_program(desk):
    Path("there").mkdir()
    found, _ = sent(desk, "--cwd", "there", script())
    assert found["cwd"] == f"{os.getcwd()}/there"
    assert found["argv"] == [f"{os.getcwd()}/./job.sh"]


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("--array", "9-1"), "array '9-1'"),
        (("--after", "x"), "'x' is not a job"),
        (
            ("--after", "be"),
            "'--after': 'be' is not a job, such as 12, 12_3 or 12_1-5; cosched queue lists",
        ),
        (("--array", "1-2", "--mate", "g@d"), "--mate does not go with --array"),
        (("--wait", "--array", "1-2", "--input", "-"), "--input - does not go with"),
        (("--cwd", "nowhere"), "'nowhere': there is no such directory"),
    ],
)
def test_other_words_are_one_line(desk, capsys, words, reason):
    assert run_cli(cosched, ["submit", *words, "true"]) == 2
    err = capsys.readouterr().err
    assert reason in err
    assert err.count("\n") == 1
    assert not desk.submissions


def test_waiting_for_an_array_ends_with_the_greatest_status(desk, capsys):
    def add_tasks(job):
        for number in (1, 2, 3):
            fate = {"state": "failed", "status": 3, "reason": "rank 0 ended with status 3"}
            more = fate if number == 2 else {}
            desk.job(number, array=1, task=number, **more)

    desk.on_submit = add_tasks
    assert run_cli(cosched, ["submit", "--wait", "--array", "1-3", "true"]) == 3
    out, err = capsys.readouterr()
    assert out == ""
    assert err == "cosched submit: job 1_2: failed: rank 0 ended with status 3\n"


@pytest.mark.parametrize("what", ["cancel", "hold", "unhold"])
def test_tasks_of_an_array_are_steered(desk, capsys, what):
    desk.job(12)
    assert run(what, "12_3-5", "12_[1,7]", "12").exit_code == 0
    assert [(each["job"], each.get("tasks")) for each in desk.asked] == [
        (12, "3-5"),
        (12, "1,7"),
        (12, None),
    ]
    desk.asked.clear()
    assert run_cli(cosched, [what, "12", "12_"]) == 1
    assert "'12_' is not a job" in capsys.readouterr().err
    assert [each["do"] for each in desk.asked] == ["queue"]


def test_output_of_an_array_and_of_a_task(desk, capfd):
    here = os.getcwd()
    for number in (1, 2, 3):
        Path(f"out-{number}").write_text(f"task {number}\n")
        more = {"started_ns": None, "state": "queued"} if number == 3 else {}
        desk.job(number, array=1, task=number, cwd=here, output=f"out-{number}", **more)
    assert run_cli(cosched, ["output", "1"]) == 0
    asked = [each["job"] for each in desk.asked if each["do"] == "job"]
    assert asked == [1, 2], "thousands may wait"
    assert run_cli(cosched, ["output", "1_2"]) == 0
    assert capfd.readouterr().out == "task 1\ntask 2\ntask 2\n"
    assert run_cli(cosched, ["output", "-f", "1"]) == 2


def test_why_of_an_array_and_of_a_task(desk, capsys):
    desk.job(1, array=1, task=1)
    desk.job(2, array=1, task=2, state="queued", why="waits: 3 jobs came before")
    assert run_cli(cosched, ["why", "1"]) == 0
    assert capsys.readouterr().out == (
        "job 1: array of 2 tasks\njob 1_2: waits: 3 jobs came before\n"
    )
    assert run_cli(cosched, ["why", "1_1"]) == 0
    assert capsys.readouterr().out == "job 1_1: ended with status 0\n"


def test_why_takes_the_names_that_the_queue_prints(desk, capsys):
    long = "a-name-of-more-than-twenty-letters"
    wait = {"state": "queued", "started_ns": None, "ended_ns": None, "hosts": []}
    for number, name in ((1, "sweep"), (2, "sweep")):
        desk.job(number, name=name, array=1, task=number, **wait)
    desk.jobs[1]["folded"] = "1_[1-2%1]"
    desk.job(3, name="app", uid=os.geteuid(), **wait, why="waits: of 3")
    desk.job(4, name=long, **wait, why="waits: of 4")
    desk.job(5, name="app", why="ended")  # a job that waits goes before it
    desk.job(6, name="gone", why="of 6")
    for name, line in {
        "sweep": "job 1: array of 2 tasks",
        "1_[1-2%1]": "job 1_1: ended with status 0",
        "app": "job 3: waits: of 3",
        f"{os.geteuid()}.app": "job 3: waits: of 3",
        "app-3": "job 3: waits: of 3",
        long[:20]: "job 4: waits: of 4",
        "a-na…": "job 4: waits: of 4",
        "gone": "job 6: of 6",
    }.items():
        assert run_cli(cosched, ["why", name]) == 0, name
        assert capsys.readouterr().out.startswith(line), name
    for name in ("a-name", "ap", "…", "7.nothing"):
        assert run_cli(cosched, ["why", name]) == 1, name
        assert "not found" in capsys.readouterr().err


def test_why_names_the_jobs_if_several_have_the_name(desk, capsys):
    for number in range(1, 9):
        desk.job(number, name="app", state="running", ended_ns=None)
    assert run_cli(cosched, ["why", "app"]) == 1
    assert capsys.readouterr().err == (
        "cosched: jobs 1, 2, 3, 4, 5 and 3 more have the name app; give a number: "
        "cosched why 1\n"
    )
    desk.jobs[3]["uid"] = os.geteuid()
    for number in (1, 2, 4, 5, 6, 7, 8):
        desk.jobs[number]["uid"] = os.geteuid() + 1
    assert run_cli(cosched, ["why", "app"]) == 0


def test_queue_has_columns_as_history_has_them(desk):
    second = 10**9
    desk.job(1, submitted_ns=10**18, started_ns=10**18 + second)
    desk.jobs[1]["ended_ns"] = 10**18 + 91 * second
    desk.job(2, array=2, task=4, folded="2_[4-9%2]", state="queued", reason="%2 of array 2")
    desk.jobs[2].update(started_ns=None, ended_ns=None, status=None)
    lines = run("queue", "--all", "--format", "job,took,status,reason").stdout
    assert [line.split() for line in lines.splitlines()] == [
        ["job", "took", "status", "reason"],
        ["1", "90.00s", "0"],
        ["2_[4-9%2]", "-", "-", "%2", "of", "array", "2"],
    ]
    head = run("queue", "--all").stdout.splitlines()[0].split()
    assert head[-4:] == ["end", "took", "status", "reason"]
    text = run("queue", "--csv", "--format", "jobid,elapsed,exitcode").stdout
    assert text.splitlines() == ["job,took,status", "1,90.000,0", "2_[4-9%2],,"]
    assert run("queue", "--csv").stdout.startswith("job,name,user,uid,nodes,")
    assert "folded" not in desk.asked[-1]


def test_queue_refuses_unknown_columns(desk, capsys):
    assert run_cli(cosched, ["queue", "--format", "job,tooc"]) == 1
    assert "'tooc' is not a column; did you mean 'took'?" in capsys.readouterr().err
    assert run_cli(cosched, ["queue", "--csv", "--json"]) == 2


def test_json_of_a_steered_task_names_it(desk):
    desk.job(12)
    desk.refusals[12] = "job 12: no"
    found = json.loads(run("cancel", "--json", "12_3").stdout)
    assert found == {"jobs": [{"job": "12_3", "error": "job 12: no"}]}
