"""The commands for jobs of a domain, with a domain that a test makes up."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from datetime import datetime
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from cosched import Client, Job
from cosched.cli import connection, options
from cosched.cli.commands import cosched
from cosched.cli.domain.sending import Sending
from cosched.cli.entry import run_cli
from cosched.cli.jobs.elsewhere import way_to
from cosched.cli.options import complete_domain_jobs
from cosched.cluster.client import NoDomain, Patience
from cosched.cluster.paths import DomainPaths
from cosched.core.errors import CoschedError
from cosched.launch import shim
from tests.places import ROOT
from tests.tools.desk import FakeDesk, play_private_domains

#: A program with mpi4py.
MALLEABLE = str(ROOT / "benchmarks/programs/sten.py")


@pytest.fixture
def desk(monkeypatch):
    # A build of the shim takes ten seconds, and no job of this desk runs.
    monkeypatch.setattr(shim, "make_shim", lambda build: build.library)
    with tempfile.TemporaryDirectory(prefix="cosched-t-") as name:
        for variable in os.environ:
            if variable.startswith("COSCHED_") and variable != "COSCHED_RUNS":
                monkeypatch.delenv(variable)
        monkeypatch.setenv("COSCHED_RUN_DIR", name)
        monkeypatch.setenv("XDG_CACHE_HOME", name)
        monkeypatch.chdir(name)
        desk = FakeDesk(Path(name))
        yield desk
        desk.close()


def run(*words):
    return CliRunner().invoke(cosched, words, catch_exceptions=False)


def cosched_run(*words):
    """Runs a command in a process of its own."""
    return subprocess.Popen(
        [sys.executable, "-m", "cosched.cli.main", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


# -- submit --------------------------------------------------------------------------------


def test_submit_prints_the_number_and_sends_what_was_asked(desk):
    done = run(
        *("submit", "--nodes", "2", "--ppn", "3", "--time", "1:30", "--name", "x y"),
        *("--output", "o", "--error", "e", "--input", "i", "--label", "--bind", "--hold"),
        *("--requeue", "--mpi", "none", "sh", "-c", "exit 0"),
    )
    assert (done.exit_code, done.stdout) == (0, "job 1\n")
    (sent,) = desk.submissions
    assert sent["argv"] == ["sh", "-c", "exit 0"]
    assert (sent["ranks"], sent["nodes"], sent["ppn"]) == (0, 2, 3)
    assert (sent["name"], sent["time_ns"], sent["pmi"]) == ("x y", 90 * 10**9, "none")
    assert (sent["output"], sent["error"], sent["input"]) == ("o", "e", "i")
    assert all(sent[name] for name in ("label", "bind", "held", "requeue"))
    assert sent["cwd"] == os.getcwd()
    assert sent["environ"]["PATH"] == os.environ["PATH"]


def test_submit_sends_mates(desk):
    mates = ("--mate", "g@be", "--mate", "g@ce")
    run("submit", *mates, "--within", "60s", "true")
    word = "--mate-token=abcd1234"
    run("submit", "--mate=h@be", "--mate-first=be", "--delay=5min", word, "true")
    assert [sent["mates"] for sent in desk.submissions] == [
        "mate=g@be,mate=g@ce,within=60s",
        "mate=h@be,after=be,delay=5min,token=abcd1234",
    ]
    done = run("submit", "--within", "60s", "true")
    assert done.exit_code == 2
    assert "need --mate" in done.output
    both = ("--within", "60s", "--mate-first", "be")
    done = run("submit", "--mate", "g@be", *both, "true")
    assert "--within and --mate-first cannot be combined." in done.output
    done = run("submit", "--mate", "g@be", "--delay", "1s", "true")
    assert "--delay needs --mate-first." in done.output
    assert len(desk.submissions) == 2


def test_submit_takes_the_options_of_the_program_as_they_are(desk):
    assert run("submit", "-n", "1", "--", "sh", "--wait", "-n", "4").exit_code == 0
    assert desk.submissions[0]["argv"] == ["sh", "--wait", "-n", "4"]


def test_submit_sends_what_limits_a_job_and_whether_it_shares(desk):
    for words in (
        (),
        ("--limited-by", "memory"),
        ("--limited-by", "io,network", "--share-node", "yes"),
        ("--share-node", "no"),
    ):
        assert run("submit", "--name", "x", *words, "/bin/true").exit_code == 0
    assert [(sent["limited_by"], sent["share_node"]) for sent in desk.submissions] == [
        ([], None),
        (["memory"], None),
        (["io", "network"], True),
        ([], False),
    ]
    assert {sent["program"] for sent in desk.submissions} == {"true"}


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (("--limited-by", "disk"), "'disk' is none of cpu, memory, io, network."),
        (("--share-node", "maybe"), "'maybe' is neither yes nor no."),
        (
            ("--limited-by", "io", "--exclusive"),
            "--exclusive does not go with --limited-by",
        ),
        (("--limited-by", "io", "--share-node", "no"), "--share-node no does not go with"),
        (
            ("--share-node", "yes", "--exclusive"),
            "--exclusive does not go with --share-node yes",
        ),
        (
            ("--share-node", "yes", "--mate", "g@be"),
            "--mate does not go with --share-node yes",
        ),
        (("--limited-by", "io", "--min", "1"), "--limited-by is not for jobs with --min"),
    ],
)
def test_submit_refuses_labels_that_make_no_sense(desk, words, line):
    done = run("submit", *words, "true")
    assert done.exit_code == 2
    assert line in done.output.splitlines()[-1]
    assert desk.submissions == []


def test_advise_prints_observed_speeds_of_pairs(desk):
    pair = {"program": "lu", "uid": 0, "seen": 12, "harmful": False}
    slowed = {"beside": "lu", "beside_uid": 0, "speed": 0.61, "harmful": True}
    desk.pairs = [
        {**pair, "beside": "ep", "beside_uid": 77777, "speed": 0.96},
        {**pair, **slowed},
    ]
    assert run("advise", "--pairs").stdout.splitlines() == [
        "program    beside      speed  runs",
        "lu (root)  ep (77777)   0.96    12",
        "lu (root)  lu (root)    0.61    12  kept apart",
    ]
    assert json.loads(run("advise", "--pairs", "--json").stdout) == {"pairs": desk.pairs}
    desk.pairs = []
    done = run("advise", "--pairs")
    assert done.stdout == "no program was seen beside another one yet\n"
    for words in ((), ("--pairs", "lu")):
        assert "Give either JOB, WORKLOAD.toml or --pairs." in run("advise", *words).output
    for what in ("lu", "--pairs"):
        for words in (("--hosts", "n1"), ("--for", "1s")):
            done = run("advise", what, *words)
            assert done.exit_code == 2
            assert f"{words[0]} is for a WORKLOAD.toml." in done.output


def test_advise_asks_the_domain_that_serves_the_user(desk, monkeypatch, tmp_path):
    # The user's own daemons have no domain.
    monkeypatch.setattr(options, "run_dir_to_ask", lambda *_: tmp_path)
    assert json.loads(run("advise", "--pairs", "--json").stdout) == {"pairs": []}


def test_submit_sends_whether_a_job_is_exclusive(desk):
    for words in ((), ("--share",), ("--exclusive",)):
        run("submit", *words, "true")
    assert [sent["exclusive"] for sent in desk.submissions] == [False, False, True]


def test_submit_with_json_prints_the_job(desk):
    assert json.loads(run("submit", "--json", "true").stdout) == desk.jobs[1]


def test_variables_of_an_outer_job_are_not_sent(desk, monkeypatch):
    outer = {
        "PMI_RANK": "3",
        "PMIX_RANK": "3",
        "OMPI_COMM_WORLD_RANK": "3",
        "SLURM_PROCID": "3",
        "SLURM_STEP_NUM_TASKS": "8",
        "COSCHED_JOB": "outer",
        "COSCHED_LAUNCHED": "outer:1",
        "COSCHED_NODE": "login",
    }
    own = {"PMIX_MCA_gds": "hash", "OMPI_MCA_btl": "tcp,self", "SLURM_JOB_ID": "7"}
    for name, text in {**outer, **own}.items():
        monkeypatch.setenv(name, text)
    run("submit", "true")
    sent = desk.submissions[0]["environ"]
    assert not set(outer) & set(sent)
    assert {name: sent.get(name) for name in own} == own


def test_bytes_that_are_not_utf8_are_sent(desk, monkeypatch):
    monkeypatch.setenv("BROKEN", os.fsdecode(b"a\xff"))
    output, argument = os.fsdecode(b"o\xfe"), os.fsdecode(b"\xe9")
    done = run("submit", "--output", output, "true", argument)
    assert (done.exit_code, done.stderr) == (0, "")
    sent = desk.submissions[0]
    assert sent["environ"]["BROKEN"] == "a\U0010ffff"
    assert (sent["output"], sent["argv"][1]) == ("o\U0010fffe", "\U0010ffe9")


@pytest.mark.parametrize(
    ("words", "status", "line"),
    [
        (("nosuch",), 1, "cosched: program 'nosuch': not found in PATH"),
        (("./nosuch",), 1, "cosched: program './nosuch': no such file"),
        (("--frobnicate", "true"), 2, "cosched submit: No such option '--frobnicate'"),
        ((), 2, "cosched submit: Missing PROGRAM."),
        (("-n", "0", "true"), 2, "cosched submit: Invalid value for '-n'"),
        (("--time", "soon", "true"), 2, "cosched submit: Invalid value for '--time'"),
        (("--memory", "much", "true"), 1, "cosched: --memory: 'much'"),
        (("--input", "-", "true"), 2, "cosched submit: --input - needs --wait."),
        (
            ("--wait", "--requeue", "--input", "-", "true"),
            2,
            "cosched submit: --input - cannot be read again",
        ),
        (("--name", os.fsdecode(b"\xff"), "sh"), 1, r"cosched: '\udcff': is not UTF-8"),
        (("--nodes", "2", "mpiexec", "./a"), 1, "cosched: mpiexec starts ranks itself"),
    ],
)
def test_bad_submission_is_one_line(desk, capsys, words, status, line):
    assert run_cli(cosched, ["submit", *words]) == status
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith(line)
    assert len(printed.err.splitlines()) == 1
    assert not desk.submissions


def test_refusal_of_the_domain_is_one_line(desk, capsys):
    desk.refusals[0] = "infeasible: needs 9 nodes, the domain has 2"
    assert run_cli(cosched, ["submit", "--nodes", "9", "true"]) == 1
    assert (
        capsys.readouterr().err == "cosched: infeasible: needs 9 nodes, the domain has 2\n"
    )


def test_a_private_domain_that_ended_before_the_job_was_sent_starts_again(monkeypatch):
    started = play_private_domains(monkeypatch)
    with tempfile.TemporaryDirectory(prefix="cosched-t-") as name:
        run_dir = Path(name)
        sending = Sending(Job(["true"], mpi="none", shim=False), run_dir)
        submit = sending.sender()
        started[0].close()
        shutil.rmtree(run_dir / "domain")
        assert submit() == 1
        started[1].close()
    assert [len(each.submissions) for each in started] == [0, 1]


def test_a_job_whose_answer_is_lost_is_sent_again(desk):
    def lose(request):
        if request["do"] == "submit" and len(desk.submissions) == 1:
            raise BrokenPipeError  # the connection closes

    desk.before_answer = lose
    done = run("submit", "true")
    assert (done.exit_code, done.stdout) == (0, "job 1\n")
    one, two = desk.submissions
    assert one == two


def test_no_domain_is_one_line(tmp_path, capsys):
    assert run_cli(cosched, ["queue", "--run-dir", str(tmp_path)]) == 1
    err = capsys.readouterr().err
    assert err == (
        f"cosched: no domain answers in {tmp_path}; start one with: cosched submit "
        "PROGRAM, or cosched cluster up\n"
    )
    config = DomainPaths(tmp_path).config
    config.parent.mkdir()
    for text, remedy in (
        ('name = "site"', "it with: cosched cluster up"),
        ('name = "private"', "one with: cosched submit PROGRAM, or cosched cluster up"),
        ('engine = "slurm"', f"it with: cosched cluster couple --config {config}"),
    ):
        config.write_text(text)
        assert run_cli(cosched, ["queue", "--run-dir", str(tmp_path)]) == 1
        line = f"cosched: no domain answers in {tmp_path}; start {remedy}\n"
        assert capsys.readouterr().err == line


# -- submit --wait -------------------------------------------------------------------------


def write_outputs(job):
    Path(job["output"]).write_text("out\n")
    Path(job["error"]).write_text("err\n")


def test_wait_copies_both_outputs_and_ends_with_the_status(desk):
    def fail(job):
        write_outputs(job)
        job.update(state="failed", status=7, reason="rank 0 ended with status 7 on n1")

    desk.on_submit = fail
    with cosched_run("submit", "--wait", "true") as process:
        out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (7, "out\n")
    assert err == "err\ncosched submit: job 1: failed: rank 0 ended with status 7 on n1\n"
    assert not Path(desk.jobs[1]["output"]).parent.exists()


def test_wait_with_a_file_copies_only_what_this_job_wrote(desk):
    Path("log").write_text("old\n")
    desk.on_submit = lambda job: Path("log").write_text("old\nnew\n")
    with cosched_run("submit", "--wait", "--output", "log", "true") as process:
        out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (0, "new\n", "")
    assert Path("log").read_text() == "old\nnew\n"


def test_wait_with_json_prints_the_job_that_has_ended(desk):
    done = run("submit", "--wait", "--json", "true")
    assert json.loads(done.stdout) == desk.jobs[1]
    assert desk.jobs[1]["output"] == "cosched-1.out"


def test_status_that_a_process_cannot_have_is_not_success(desk):
    desk.on_submit = lambda job: job.update(status=256)
    assert run_cli(cosched, ["submit", "--wait", "true"]) == 1


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_signal_cancels_the_job(desk, number):
    desk.release.clear()
    with cosched_run("submit", "--wait", "true") as process:
        until(lambda: {"do": "wait", "job": 1} in desk.asked)
        process.send_signal(number)
        out, err = process.communicate(timeout=60)
    assert {"do": "cancel", "job": 1} in desk.asked
    status = 130 if number == signal.SIGINT else 143
    assert (process.returncode, out) == (status, "")
    assert err.splitlines() == [
        "cosched submit: job 1: is being cancelled",
        "cosched submit: job 1: cancelled",
    ]


def test_ignored_signal_cancels_nothing(desk):
    desk.release.clear()
    words = [sys.executable, "-m", "cosched.cli.main", "submit", "--wait", "true"]
    with subprocess.Popen(["nohup", *words], stdout=-1, stderr=-1) as process:
        until(lambda: {"do": "wait", "job": 1} in desk.asked)
        process.send_signal(signal.SIGHUP)
        time.sleep(0.2)
        desk.release.set()
        assert process.wait(30) == 0
    assert not any(request["do"] == "cancel" for request in desk.asked)


def test_second_signal_leaves_at_once(desk):
    desk.release.clear()
    desk._cancel = lambda number: {"job": number}  # a job that does not end
    with cosched_run("submit", "--wait", "true") as process:
        until(lambda: {"do": "wait", "job": 1} in desk.asked)
        process.send_signal(signal.SIGINT)
        until(lambda: desk.asked.count({"do": "wait", "job": 1}) == 2)
        process.send_signal(signal.SIGINT)
        assert process.wait(10) == 130
        process.communicate()
    assert not Path(desk.jobs[1]["output"]).parent.exists()


def test_reader_that_leaves_cancels_the_job(desk):
    desk.release.clear()
    desk.on_submit = lambda job: Path(job["output"]).write_text("x" * 10**6)
    with cosched_run("submit", "--wait", "true") as process:
        process.stdout.close()
        assert process.wait(60) == 141
        assert process.stderr.read() == "cosched submit: job 1: is being cancelled\n"
    assert {"do": "cancel", "job": 1} in desk.asked


def until(condition):
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


# -- queue, output, cancel, hold, unhold ---------------------------------------------------


def test_queue_fits_a_terminal_and_has_all_facts(desk):
    now_ns = time.time_ns()
    desk.job(1, state="running", nodes=31, tasks=496, hosts=[f"n{i}" for i in range(31)])
    desk.job(2, state="queued", hosts=[], started_ns=None, ended_ns=None)
    desk.jobs[1].update(ended_ns=None, started_ns=now_ns, ends_ns=now_ns)
    desk.jobs[2].update(expected_ns=now_ns, name="a" * 60, time_ns=0)
    desk.job(3, state="node lost", reason="node n2 was lost", started_ns=now_ns)
    desk.jobs[3].update(ended_ns=now_ns)
    desk.job(4, state="queued", nodes=None, tasks=None, started_ns=None, ended_ns=None)
    desk.job(5, uid=4242424, started_ns=now_ns)
    clock = time.strftime("%H:%M:%S", time.localtime(now_ns / 10**9))
    lines = run("queue", "--all").stdout.splitlines()
    assert max(map(len, lines)) <= 80
    head, first, second, third, fourth, fifth = (line.split() for line in lines)
    assert " ".join(head) == "job name user nodes state start end took status reason"
    assert first[:7] == ["1", "job1", "root", "31", "running", clock, f"~{clock}"]
    assert first[9].startswith("n0,n1")
    assert second[4:7] == ["queued", f"~{clock}", f"<{clock}"]
    assert third[4:8] == ["node", "lost", clock, clock]
    assert third[8:11] == ["0.00s", "0", "node"]
    assert fourth[3:6] == ["-", "queued", "-"]
    assert fifth[2] == "4242424"
    date = datetime.fromtimestamp(now_ns // 10**9).astimezone().isoformat()
    printed = run("queue", "--all", "--csv", "--format", "job,start,end").stdout
    assert printed.splitlines()[1:5] == [
        *(f"1,{date},{date}", f"2,{date},", f"3,{date},{date}", "4,,"),
    ]
    live = run("queue").stdout.splitlines()
    assert live[0].split()[3:] == ["nodes", "ranks", "state", "start", "end", "reason"]
    assert live[1].split()[:7] == ["1", "job1", "root", "31", "496", "running", clock]


def test_queue_shows_halves_of_nodes_and_the_jobs_beside_them(desk):
    hosts = ["a", "b", "c"]
    some = {"state": "running", "ended_ns": None, "hosts": hosts}
    desk.job(1, **some, halves=["top", "top", "bottom"], neighbours=[2, 3])
    desk.job(2, **some, halves=["bottom"] * 3, neighbours=[])
    desk.job(3, **some)
    lines = run("queue").stdout.splitlines()
    assert lines[1].endswith(" beside 2,3: top a,b, bottom c")
    assert lines[2].endswith(" bottom a,b,c")
    assert lines[3].endswith(" a,b,c")


def test_queue_shows_how_a_held_job_with_mates_is_released(desk):
    desk.job(1, state="held", ended_ns=None, reason="until cosched unhold", mates="waits")
    desk.job(2, state="queued", ended_ns=None, reason="2 nodes free", mates="waits")
    lines = run("queue").stdout.splitlines()
    assert lines[1].endswith(" until cosched unhold")
    assert lines[2].endswith(" waits")


def test_queue_shows_the_nodes_of_malleable_jobs_and_their_bounds(desk):
    now = {"ended_ns": None, "started_ns": time.time_ns()}
    hosts = [f"n{i}" for i in range(4)]
    desk.job(1, state="running", nodes=4, hosts=hosts, minimum=1, ideal=8, **now)
    desk.job(2, state="queued", nodes=8, hosts=[], minimum=2, ideal=8, **now)
    desk.job(3, state="running", nodes=3, hosts=hosts[:3], minimum=4, ideal=4, **now)
    desk.job(4, nodes=2, hosts=hosts[:2], minimum=1, ideal=8)
    desk.job(5, state="queued", nodes=8, hosts=[], minimum=1, ideal=8, preferred=4, **now)
    lines = run("queue", "--all").stdout.splitlines()
    assert max(map(len, lines)) <= 80
    at = lines[0].index("nodes") + len("nodes")
    shown = [line[at - len("4 of 1-8") : at].strip() for line in lines[1:]]
    assert shown == ["4 of 1-8", "2-8", "3 of 4", "2", "1-4-8"]


@pytest.mark.parametrize(
    ("word", "asked", "shown"),
    [
        ("2..6", (2, 6, None), "2-6 nodes"),
        ("4", (4, 4, None), "4 nodes"),
        ("2..", (2, None, None), "2-8 nodes"),
        ("..6", (None, 6, None), "1-6 nodes"),
        ("2..4..6", (2, 6, 4), "2-4-6 nodes"),
        ("..4..", (None, None, 4), "1-4-8 nodes"),
    ],
)
def test_resize_sends_the_bounds_that_are_given(desk, word, asked, shown):
    desk.job(7, minimum=1, ideal=8)
    assert run("resize", "7", word).stdout == f"job 7: {shown}\n"
    minimum, ideal, preferred = asked
    sizes = {"minimum": minimum, "ideal": ideal, "preferred": preferred}
    assert desk.asked[-1] == {"do": "resize", "job": 7, **sizes}
    found = json.loads(run("resize", "7", word, "--json").stdout)
    assert (found["job"], found["minimum"]) == (7, minimum or 1)


def test_resize_names_tasks_of_an_array(desk):
    desk.job(7, minimum=1, ideal=8)
    assert run("resize", "7_2-3", "2..4").stdout == "job 7_2-3: 2-4 nodes\n"
    assert (desk.asked[-1]["job"], desk.asked[-1]["tasks"]) == (7, "2-3")
    assert json.loads(run("resize", "7_2", "2", "--json").stdout)["job"] == "7_2"


@pytest.mark.parametrize(
    "word", ["", "..", "....", "x", "1..2..3..4", "-1", "2-6", "1.5", "9" * 99]
)
def test_resize_refuses_other_words_in_one_line(desk, capsys, word):
    assert run_cli(cosched, ["resize", "7", "--", word]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert "is no number of nodes such as 4, 2..6, 2.., ..6 or 2..4..6" in error
    assert desk.asked == []


def test_resize_prints_why_the_domain_refuses(desk, capsys):
    desk.job(7)
    desk.refusals[7] = "job 7: belongs to another user"
    assert run_cli(cosched, ["resize", "7", "2"]) == 1
    assert capsys.readouterr().err == "cosched: job 7: belongs to another user\n"


PHASES = (
    "prepare",
    "agree",
    "wait",
    "spawn",
    "connect",
    "start",
    "move",
    "resume",
    "empty",
)


def test_why_lists_the_changes_of_a_jobs_size(desk):
    at_ns = time.time_ns()
    usual = {
        "ordered_ns": at_ns,
        "ended_ns": at_ns,
        "before": 6,
        "after": 4,
        "reason": "gave 2 nodes to job 31: its minimum was 4, 2 were free",
        "refused": "",
        "stood_s": 0.3125,
        "phases": None,
        "slower": 0.12,
    }
    phases = dict.fromkeys((f"{each}_s" for each in PHASES), 0.0)
    phases.update(agree_s=0.5, spawn_s=0.2, connect_s=0.06, resume_s=0.02)
    grown = {**usual, "before": 4, "after": 6, "reason": "got 2 free nodes", "slower": -0.1}
    given = {**usual, "phases": {**phases, "moved_bytes": 9}}
    changes = [
        given,
        {**grown, "refused": "node n7 has no slots", "slower": None},
        {**grown, "slower": None},
        grown,
        {**grown, "ended_ns": None, "stood_s": 0.0},
    ]
    desk.job(12, why="running on n1: 6 nodes of 1-8", changes=changes)
    text = run("why", "12").stdout
    assert max(map(len, text.splitlines())) <= 80
    words = " ".join(text.split())
    moment = time.strftime("%H:%M:%S", time.localtime(at_ns / 10**9))
    assert text.count(moment) == 5
    for each in (
        "gave 2 nodes to job 31: its minimum was 4, 2 were free (6 to 4 nodes; it stood "
        "still for 0.31 s (spawn 0.20 s, connect 0.06 s), and an iteration takes 12% "
        "longer)",
        "kept 4 nodes: node n7 has no slots (got 2 free nodes)",
        "got 2 free nodes (4 to 6 nodes; it stood still for 0.31 s)",
        "and an iteration takes 10% less)",
        "is to change from 4 to 6 nodes: got 2 free nodes",
    ):
        assert each in words
    last = run("why", "12", "--last", "2").stdout.splitlines()
    assert last[1] == "  (3 earlier changes: --last 5, or --json)"
    assert json.loads(run("why", "12", "--json").stdout)["changes"] == changes


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["--min", "5", "--ideal", "4"], "--min 5 is above --ideal 4."),
        (["--ideal", "4"], "--ideal needs --min."),
        (["--preferred", "4"], "--preferred needs --min."),
        (["--min", "5", "--preferred", "4"], "--min 5 is above --preferred 4."),
        (
            ["--min", "1", "--preferred", "5", "--ideal", "4"],
            "--preferred 5 is above --ideal 4.",
        ),
        (["--min", "0"], "'0' is not a whole number of 1 or more."),
        (["--min", "1", "-n", "4"], "-n is not for jobs with --min"),
        (["--min", "1", "--nodes", "4"], "--nodes is not for jobs with --min"),
        (["--min", "1", "--mate", "a@b"], "--mate is not for jobs with --min"),
        (["--min", "1", "--exclusive"], "--exclusive is not for jobs with --min"),
        (["--min", "1", "--bind"], "--bind is not for jobs with --min"),
    ],
)
def test_submit_refuses_sizes_that_do_not_combine(desk, capsys, words, reason):
    assert run_cli(cosched, ["submit", *words, "./app"]) == 2
    error = capsys.readouterr().err
    assert reason in error
    assert error.count("\n") == 1
    assert desk.asked == []


def test_malleable_job_needs_an_mpi_that_the_domain_serves(desk, capsys):
    assert run_cli(cosched, ["submit", "--min", "1", "--mpi", "none", "/bin/true"]) == 1
    error = capsys.readouterr().err
    assert "true: a malleable job needs an MPI that the domain serves" in error
    assert desk.submissions == []


def test_queue_of_one_user_and_of_jobs_that_have_ended(desk):
    assert run("queue").stdout == "no jobs\n"
    desk.job(1, uid=os.geteuid())
    desk.job(2, uid=os.geteuid() + 1)
    found = json.loads(run("queue", "--me", "--ended", "3", "--json").stdout)
    assert found == {"jobs": [desk.jobs[1]]}
    assert desk.asked[-1] == {"do": "queue", "ended": 3}
    assert run("queue").exit_code == 0
    assert desk.asked[-1] == {"do": "queue", "ended": 0, "folded": True}


@pytest.mark.parametrize(
    ("what", "done"), [("cancel", "cancelled"), ("hold", "held"), ("unhold", "not held")]
)
def test_each_job_is_steered_with_one_line(desk, capsys, what, done):
    for number in (1, 2, 3):
        desk.job(number)
    desk.refusals[2] = "job 2: has ended (done)"
    assert run_cli(cosched, [what, "1", "2", "3", "1"]) == 1
    printed = capsys.readouterr()
    assert printed.out == f"job 1: {done}\njob 3: {done}\n"
    assert printed.err == "cosched: job 2: has ended (done)\n"
    assert desk.asked == [{"do": what, "job": number} for number in (1, 2, 3)]
    assert run_cli(cosched, [what, "1", "2", "--json"]) == 1
    assert json.loads(capsys.readouterr().out) == {
        "jobs": [
            {"job": 1, "error": None},
            {"job": 2, "error": "job 2: has ended (done)"},
        ]
    }


@pytest.mark.parametrize("what", ["cancel", "hold", "unhold"])
def test_one_live_job_of_the_user_is_steered_by_its_name(desk, capsys, monkeypatch, what):
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    mine = {"uid": os.geteuid(), "ended_ns": None}
    desk.job(1, name="app", uid=os.geteuid())  # it has ended
    desk.job(2, name="app", **mine)
    desk.job(3, name="app", ended_ns=None, uid=os.geteuid() + 1)
    assert run_cli(cosched, [what, "app", "2"]) == 0
    steered = [request for request in desk.asked if request["do"] == what]
    assert steered == [{"do": what, "job": 2}]
    desk.job(4, name="app", **mine)
    desk.asked.clear()
    assert run_cli(cosched, [what, "app"]) == 1
    assert run_cli(cosched, [what, "ap"]) == 1
    assert run_cli(cosched, [what, ""]) == 1  # an unset variable of a script
    assert capsys.readouterr().err.splitlines() == [
        f"cosched: jobs 2 and 4 have the name app; give a number: cosched {what} 2",
        "cosched: no live job of yours has the name ap; see cosched queue --me",
        "cosched: job: '' is not a job, such as 12, 12_3 or 12_1-5",
    ]
    assert {request["do"] for request in desk.asked} == {"queue"}
    assert run_cli(cosched, [what, "4", "app"]) == 1
    assert {request["do"] for request in desk.asked} == {"queue"}


def test_root_steers_a_job_of_any_user_by_its_name(desk, capsys, monkeypatch):
    desk.job(1, name="app", ended_ns=None, uid=1000)
    desk.job(2, name="app", ended_ns=None, uid=1001)
    desk.job(3, name="solver", ended_ns=None, uid=1001)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert run_cli(cosched, ["cancel", "solver"]) == 0
    assert run_cli(cosched, ["cancel", "app"]) == 1
    assert run_cli(cosched, ["cancel", "ap"]) == 1
    assert capsys.readouterr().err.splitlines() == [
        "cosched: jobs 1 and 2 have the name app; give a number: cosched cancel 1",
        "cosched: no live job has the name ap; see cosched queue",
    ]
    assert [job["job"] for job in desk.asked if job["do"] == "cancel"] == [3]


def test_a_whole_name_goes_before_one_that_a_table_has_cut(desk):
    mine = {"uid": os.geteuid(), "ended_ns": None}
    whole = "abcdefghijklmnopqrst"  # as long as a cut one
    desk.job(1, name=f"{whole}2", **mine)
    desk.job(2, name=whole, **mine)
    assert run_cli(cosched, ["cancel", whole, f"{whole}…"]) == 0
    steered = [request["job"] for request in desk.asked if request["do"] == "cancel"]
    assert steered == [2, 1]


def test_output_prints_the_file_or_why_there_is_none(desk, capfdbinary):
    Path("o").write_bytes(b"out \xff\n")
    desk.job(1, cwd=os.getcwd(), output="o", error="e")
    assert run_cli(cosched, ["output", "1"]) == 0
    assert capfdbinary.readouterr().out == b"out \xff\n"
    assert run_cli(cosched, ["output", "1", "--error"]) == 1
    err = capfdbinary.readouterr().err.decode()
    assert err == f"cosched: {os.getcwd()}/e: is not visible here; node n1 wrote it\n"
    desk.job(2, started_ns=None, why="waits: 0 nodes free, needs 1")
    assert run_cli(cosched, ["output", "2"]) == 1
    err = capfdbinary.readouterr().err.decode()
    assert err == "cosched: job 2: has no output: waits: 0 nodes free, needs 1\n"
    os.mkfifo("pipe")
    desk.job(3, cwd=os.getcwd(), output="pipe")
    assert run_cli(cosched, ["output", "3"]) == 1
    err = capfdbinary.readouterr().err.decode()
    assert err.startswith(f"cosched: {os.getcwd()}/pipe: is a pipe, a device or a folder;")


def test_output_takes_a_name_and_refuses_one_of_several_jobs(desk, capfd):
    Path("o").write_text("out\n")
    desk.job(1, name="other", cwd=os.getcwd(), output="none")
    desk.job(2, name="simulate", cwd=os.getcwd(), output="o")
    assert run_cli(cosched, ["output", "simulate"]) == 0
    assert capfd.readouterr().out == "out\n"
    assert run_cli(cosched, ["output", "nothing"]) == 1
    err = capfd.readouterr().err
    assert err == "cosched: no job has the name nothing; see cosched queue --all\n"
    desk.job(3, name="simulate", cwd=os.getcwd(), output="o")
    assert run_cli(cosched, ["output", "simulate"]) == 1
    assert capfd.readouterr().err == (
        "cosched: jobs 2 and 3 have the name simulate; give a number: cosched output 2\n"
    )


def test_output_that_was_copied_to_a_waiting_command(desk, capfd, tmp_path):
    path = tmp_path / "cosched" / "output" / "job-c890kxdv" / "out"
    desk.job(1, cwd=os.getcwd(), output=str(path))
    assert run_cli(cosched, ["output", "1"]) == 1
    err = capfd.readouterr().err
    assert err.startswith(
        "cosched: job 1: its output was copied to the command that waited"
    )


def test_output_follows_until_the_job_has_ended(desk):
    desk.release.clear()
    Path("o").write_text("first\n")
    desk.job(1, cwd=os.getcwd(), output="o")
    with cosched_run("output", "-f", "1") as process:
        assert process.stdout.readline() == "first\n"
        with Path("o").open("a") as file:
            file.write("second\n")
        assert process.stdout.readline() == "second\n"
        desk.release.set()
        assert process.communicate(timeout=60) == ("", "")
    assert process.returncode == 0


def test_why_explains_a_job_of_the_domain(desk, capsys, tmp_path):
    desk.job(12, why="waits: 1 nodes free, needs 2; expected 14:02:00")
    line = "waits: 1 nodes free, needs 2; expected 14:02:00"
    assert run("why", "12").stdout == f"job 12: {line}\n"
    assert json.loads(run("why", "12", "--json").stdout) == desk.jobs[12]
    assert run_cli(cosched, ["why", "twelve"]) == 1
    assert "job twelve: not found on any node" in capsys.readouterr().err
    assert run_cli(cosched, ["why", "12", "--run-dir", str(tmp_path)]) == 1
    err = capsys.readouterr().err
    assert "job 12: not found on any node" in err
    assert "cosched queue --all" in err


def test_table_of_very_many_jobs_is_cut(desk):
    for number in range(1, 1201):
        desk.job(number, ended_ns=None if number > 600 else 1)
    lines = run("queue", "--all").stdout.splitlines()
    assert len(lines) == 1 + 1000 + 1
    assert lines[-1] == "(200 more jobs: --json)"
    assert lines[1].split()[0] == "201"
    assert lines[-2].split()[0] == "1200"


# -- Python --------------------------------------------------------------------------------


def test_programs_submit_and_watch_jobs(desk):
    with Client.connect() as client:
        number = client.submit(Job(["true"], name="mine", environ={"PATH": "/bin"}))
        assert client.wait(number)["state"] == "done"
        assert client.job(number)["name"] == "mine"
        assert [job["job"] for job in client.queue(ended=1)] == [number]
        client.cancel(number)
        with pytest.raises(CoschedError, match="a job needs a program: a list of words"):
            client.submit(Job("true"))
        with pytest.raises(CoschedError, match="time_s: '2' is a text, not a number"):
            client.submit(Job(["true"], time_s="2"))
    assert desk.submissions[0]["environ"] == {"PATH": "/bin"}


def test_prepared_job_that_is_sent_twice_is_one_submission(desk):
    with Client.connect() as client:
        prepared = client.prepare(Job(["true"]))
        client.submit(prepared)
        client.submit(prepared)
    first, second = desk.submissions
    assert first == second


_WAITS = "cosched: the domain has not answered yet; waiting for its controller\n"


@pytest.fixture
def late_desk(desk, monkeypatch):
    """A domain that answers when a command has reported that it waits."""
    reported, print_line = threading.Event(), connection._print

    def report(command, line):
        print_line(command, line)
        reported.set()

    monkeypatch.setattr("cosched.cluster.client.SLOW_S", 0.01)
    monkeypatch.setattr(connection, "_print", report)
    desk.before_answer = lambda request: reported.wait(30)
    return desk


def test_command_reports_that_it_waits_for_the_controller(late_desk):
    done = run("queue", "--json")
    assert (json.loads(done.stdout), done.stderr) == ({"jobs": []}, _WAITS)


def test_command_names_a_controller_that_was_killed(late_desk):
    run_dir = Path(os.environ["COSCHED_RUN_DIR"])
    DomainPaths(run_dir).controller_lock.write_text("1\n")
    line = f"cosched: {connection.CONTROLLER_GONE.format(run_dir)}\n"
    assert run("queue", "--json").stderr == line


def test_the_end_of_a_domain_reports_that_it_waits_for_the_controller(late_desk, capsys):
    late_desk.refusals[None] = "jobs run: 1"
    assert run_cli(cosched, ["cluster", "down"]) == 1
    assert capsys.readouterr().err == f"{_WAITS}cosched: jobs run: 1\n"


@pytest.mark.parametrize("command", ["drain", "remove"])
def test_a_wait_for_free_nodes_reports_that_jobs_are_there(late_desk, capsys, command):
    late_desk.refusals[None] = "node n1: is gone"
    assert run_cli(cosched, ["cluster", command, "n1", "--wait"]) == 1
    assert capsys.readouterr().err == (
        "cosched: waiting until no job is on the nodes\ncosched: node n1: is gone\n"
    )


def test_request_fails_after_the_time_that_the_program_gives(desk):
    slow, over = [], threading.Event()
    desk.before_answer = lambda request: over.wait(30)
    short = Patience(within_s=0.1, note_slow=lambda: slow.append(True))
    with (
        Client.connect(patience=short) as client,
        pytest.raises(CoschedError, match=r"has not answered within 0\.1 s; try again"),
    ):
        client.queue()
    over.set()
    assert slow == [True]


def test_submission_without_an_answer_is_looked_for_first(desk):
    over = threading.Event()
    desk.before_answer = lambda request: over.wait(30)
    with (
        Client.connect(patience=Patience(within_s=0.1)) as client,
        pytest.raises(CoschedError, match=r"try again, if cosched queue --me does not"),
    ):
        client.submit(Job(["true"], mpi="none", shim=False))
    over.set()


def test_completion_gives_up_soon(desk, monkeypatch):
    over = threading.Event()
    desk.before_answer = lambda request: over.wait(30)
    monkeypatch.setattr(connection, "AT_THE_PROMPT", Patience(within_s=0.1))
    context = click.Context(cosched.get_command(None, "cancel"))
    assert complete_domain_jobs(context, None, "") == []
    over.set()


def test_program_without_a_domain_gets_an_error(tmp_path):
    with pytest.raises(NoDomain, match="no domain answers"):
        Client.connect_to_running(tmp_path)


def test_package_has_no_other_names():
    import cosched as package

    with pytest.raises(AttributeError, match="has no attribute 'Clent'"):
        package.Clent  # noqa: B018


# -- cosched-run --domain ------------------------------------------------------------------


def test_run_in_a_domain_sends_a_job_that_starts_at_once(desk, monkeypatch):
    from cosched.cli.run.command import Run

    words = ("--domain", "-n", "3", "--ppn", "2", "--job", "mine", "--mpi", "none")
    words += ("--time", "90", "--wait", "block", "true")
    done = CliRunner().invoke(Run.click_command, words, catch_exceptions=False)
    assert (done.exit_code, done.stderr) == (0, "")
    (sent,) = desk.submissions
    assert (sent["ranks"], sent["ppn"], sent["name"]) == (3, 2, "mine")
    assert (sent["time_ns"], sent["at_once"]) == (90 * 10**9, True)


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (("--hosts", "a,b"), "--domain cannot be combined with --hosts."),
        (("--dry-run",), "--domain cannot be combined with --dry-run."),
        (("--register", "init"), "--domain cannot be combined with --register init."),
        (("--account",), "--domain cannot be combined with --account."),
        (("--min", "2", "-n", "4"), "-n is not for jobs with --min"),
        (("--min", "2", "--ideal", "1"), "--min 2 is above --ideal 1."),
        (("--ideal", "2"), "--ideal needs --min."),
        (("--preferred", "2"), "--preferred needs --min."),
    ],
)
def test_run_in_a_domain_refuses_what_it_cannot_do(desk, capsys, words, line):
    from cosched.cli.run.command import Run

    assert run_cli(Run.click_command, ["--domain", *words, "true"]) == 2
    assert capsys.readouterr().err.startswith(f"cosched-run: {line}")
    assert not desk.submissions


def test_run_of_a_malleable_job_needs_the_domain(desk, capsys):
    from cosched.cli.run.command import Run

    assert run_cli(Run.click_command, ["--min", "2", "true"]) == 2
    assert capsys.readouterr().err.startswith("cosched-run: --min needs --domain.")


@pytest.mark.parametrize("starts", ["cosched-run", "cosched submit"])
def test_malleable_job_is_sent_with_its_sizes(desk, starts):
    from cosched.cli.run.command import Run

    sizes = ["--min", "2", "--preferred", "4", "--ideal", "6"]
    words = [*sizes, "--ppn", "3", sys.executable, MALLEABLE]
    if starts == "cosched-run":
        done = CliRunner().invoke(Run.click_command, ["--domain", *words])
    else:
        done = run("submit", *words)
    assert done.exit_code == 0, done.output
    (sent,) = desk.submissions
    assert (sent["minimum"], sent["preferred"], sent["ideal"]) == (2, 4, 6)
    assert sent["ppn"] == 3
    assert (sent["nodes"], sent["ranks"]) == (0, 0)
    assert sent["pmi"].startswith("pmi1")


def test_nodes_of_a_job_of_the_domain_are_reached_by_a_shell(desk, monkeypatch, tmp_path):
    desk.job(7, hosts=["far1", "far2", "far2"])
    monkeypatch.setenv("COSCHED_REMOTE_SHELL", "rsh")
    way = way_to("job7-7", (), tmp_path)
    assert way.nodes == ("far1", "far2")
    assert way.command("far2", ["x"]) == ["rsh", "far2", "x"]
    assert way_to("1000.job7-7", (), tmp_path).nodes == ("far1", "far2")
    for other in ("job8-7", "job7", "7", "seven-x"):
        assert way_to(other, (), tmp_path) is None
