"""Runs cosched submit, queue, output, cancel, hold and unhold in a domain of two nodes."""

import json
import os
import re
import shutil
import signal
import subprocess
from functools import partial
from pathlib import Path

import pytest

from cosched import Client, Job
from cosched.core.errors import CoschedError
from cosched.launch.family import Family
from tests.domain.hiding import hide
from tests.domain.rig import WITHIN_S
from tests.domain.user import BIN, User
from tests.live.conftest import LiveNode
from tests.run.conftest import INSTALLED
from tests.tools.json_fields import differences, sections

pytestmark = pytest.mark.mpi_job

HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def user(pair):
    return User(pair)


SERVED = sorted(
    name
    for name, mpi in INSTALLED.items()
    if not mpi.intel and not mpi.version.startswith("4.1")
)


@pytest.fixture(scope="module", params=SERVED)
def program(request, pair):
    """A program for each MPI that the agents serve, and its ring of ranks."""
    mpi = INSTALLED[request.param]
    path = pair.work / f"ring-{request.param}"
    subprocess.run([mpi.mpicc, "-o", path, HERE / "ring.c"], check=True)
    return path, mpi


def test_mpi_of_this_environment_is_among_those_that_are_tried():
    assert BIN / "mpiexec" in [INSTALLED[name].mpiexec for name in SERVED]


# -- what comes back -----------------------------------------------------------------------


def test_wait_copies_outputs_and_ends_with_the_status(user):
    done = user.run("submit", "--wait", "sh", "-c", "echo out; echo err >&2; exit 3")
    number = re.search(r"job (\d+)", done[2])[1]
    reason = "rank 0 ended with status 3 on n1"
    assert done == (3, "out\n", f"err\ncosched submit: job {number}: failed: {reason}\n")


def test_wait_copies_output_while_the_job_runs(user):
    script = "echo first; read line; echo $line"
    os.mkfifo(user.rig.work / "fifo")
    with user.start("submit", "--wait", "--input", "fifo", "sh", "-c", script) as process:
        with (user.rig.work / "fifo").open("w") as fifo:
            assert process.stdout.readline() == "first\n"
            fifo.write("second\n")
        assert process.communicate(timeout=WITHIN_S) == ("second\n", "")
    assert process.returncode == 0


def test_wait_copies_much_output_whole(user):
    status, out, err = user.run("submit", "--wait", "-n", "8", "seq", "100000")
    assert (status, err, len(out.splitlines())) == (0, "", 800_000)


def test_batch_script_runs_as_it_was_when_it_was_submitted(user):
    script = user.rig.work / "job.sh"
    lines = ["#!/bin/sh -e", "#COSCHED --hold --output batch.out", 'echo "old $1 $@"', ""]
    script.write_text("\n".join([*lines, 'basename "$COSCHED_SCRIPT"', ""]))
    script.chmod(0o755)
    number = user.submit("./job.sh", "a b")
    script.write_text("#!/bin/sh\necho new\n")
    user.run("unhold", str(number))
    assert user.rig.wait(number)["state"] == "done"
    assert (user.rig.work / "batch.out").read_text() == "old a b a b\njob.sh\n"


def test_signal_ends_a_job_as_a_shell_reports_it(user):
    status, _, err = user.run("submit", "--wait", "sh", "-c", "kill -SEGV $$")
    assert status == 128 + signal.SIGSEGV
    assert "rank 0 was ended by SIGSEGV" in err


def test_interrupt_cancels_the_job_and_all_its_tasks(user):
    with user.start("submit", "--wait", "-n", "8", "sh", "-c", "sleep 88.5") as process:
        user.rig.until(lambda: len(user.rig.strays("88.5")) >= 8, "has not begun")
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=WITHIN_S)
    assert (process.returncode, out) == (130, "")
    assert "cancelled" in err
    assert not user.rig.strays("88.5")


def test_wait_lasts_while_the_controller_restarts(user):
    script = "echo a; sleep 1; echo b"
    with user.start("submit", "--wait", "sh", "-c", script) as process:
        assert process.stdout.readline() == "a\n"
        user.rig.kill("controller")
        user.rig.start("controller")
        user.rig.until_up()
        assert process.communicate(timeout=WITHIN_S) == ("b\n", "")
    assert process.returncode == 0


# -- MPI -----------------------------------------------------------------------------------


def test_mpi_program_runs_on_two_nodes(user, program):
    path, _ = program
    done = user.run("submit", "--wait", "--nodes", "2", "--ppn", "2", str(path))
    assert done == (0, "4 ranks, sum 6\n", "")


def test_libpmix_copies_the_facts_of_a_small_job(user, program):
    _, mpi = program
    store = "hash" if mpi.family is Family.OPENMPI else ""
    script = ("sh", "-c", "echo $PMIX_GDS_MODULE")
    done = user.run("submit", "--wait", "--mpi", str(mpi.mpiexec), *script)
    assert done == (0, f"{store}\n", "")


def test_python_program_runs_on_two_nodes(user):
    done = user.run(
        *("submit", "--wait", "--nodes", "2", "--ppn", "2"),
        *("python", str(HERE / "ring.py")),
    )
    assert done == (0, "4 ranks, sum 6\n", "")


def test_variables_of_an_outer_job_do_no_harm(user, program):
    outer = {"PMI_RANK": "7", "PMI_SIZE": "9", "PMI_FD": "77", "PMIX_RANK": "7"}
    done = user.run("submit", "--wait", "-n", "2", str(program[0]), **outer)
    assert done == (0, "2 ranks, sum 1\n", "")


def test_own_launcher_runs_as_one_task(user, program):
    path, mpi = program
    done = user.run("submit", "--wait", *mpi.launch("-n", "2", str(path)))
    assert done == (0, "2 ranks, sum 1\n", "")


def test_script_may_start_jobs_of_its_own(user):
    script = user.rig.work / "job.sh"
    script.write_text("#!/bin/sh\ncosched-run --no-shim -n 2 python $1\n")
    script.chmod(0o755)
    done = user.run("submit", "--wait", "./job.sh", str(HERE / "ring.py"))
    assert done == (0, "2 ranks, sum 1\n", "")


# -- the queue -----------------------------------------------------------------------------


def test_queue_shows_jobs_that_run_wait_and_have_ended(user):
    first = user.submit("--nodes", "2", "--time", "2h", "--name", "first", "sleep", "87.5")
    second = user.submit("--nodes", "2", "--time", "1:00", "sleep", "87.5")
    user.rig.until_state(first, "running")
    status, out, err = user.run("queue")
    assert (status, err) == (0, "")
    rows = {line.split()[0]: line.split() for line in out.splitlines()}
    assert rows[str(first)][1:6] == ["first", rows[str(first)][2], "2", "2", "running"]
    assert rows[str(first)][7].startswith("<")
    assert rows[str(first)][8] == "n1,n2"
    assert rows[str(second)][5] == "queued"
    assert rows[str(second)][6].startswith("~")
    assert user.run("cancel", str(first), str(second)) == (
        0,
        f"job {first}: cancelled\njob {second}: cancelled\n",
        "",
    )
    user.rig.wait(first)
    jobs = json.loads(user.run("queue", "--me", "--ended", "2", "--json")[1])["jobs"]
    assert [(job["job"], job["state"]) for job in jobs] == [
        (first, "cancelled"),
        (second, "cancelled"),
    ]


def test_held_job_starts_when_it_is_released(user):
    number = user.submit("--hold", "echo", "ran")
    assert user.run("hold", str(number)) == (0, f"job {number}: held\n", "")
    assert user.rig.state(number) == "held"
    assert user.run("unhold", str(number)) == (0, f"job {number}: not held\n", "")
    assert user.run("output", "-f", str(number)) == (0, "ran\n", "")
    status, _, err = user.run("hold", str(number))
    assert (status, err) == (1, f"cosched: job {number}: has ended (done)\n")


def test_output_is_followed_to_the_end(user):
    number = user.submit(
        "--error", "%j.err", "sh", "-c", "echo a; sleep 1; echo b; echo c >&2"
    )
    assert user.run("output", "-f", str(number)) == (0, "a\nb\n", "")
    assert user.run("output", "--error", str(number)) == (0, "c\n", "")


def test_program_uses_the_python_client(user, monkeypatch):
    monkeypatch.setenv("COSCHED_RUN_DIR", str(user.rig.paths.run_dir))
    monkeypatch.chdir(user.rig.work)
    with Client.connect() as client:
        number = client.submit(Job(["sh", "-c", "echo $PMI_RANK"], ranks=2, label=True))
        job = client.wait(number)
        assert (job["state"], job["tasks"]) == ("done", 2)
        assert [job["job"] for job in client.queue(ended=1)] == [number]
    assert sorted(user.rig.output(job).splitlines()) == ["[0] 0", "[1] 1"]


# -- bad input -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "status", "line"),
    [
        (["--nodes", "3"], 1, "cosched: infeasible: needs 3 nodes, the domain has 2\n"),
        (
            ["--ppn", "9"],
            1,
            "cosched: infeasible: needs 9 tasks on a node, a node takes 4\n",
        ),
        (
            ["--nodes", "2", "-n", "1"],
            1,
            "cosched: infeasible: 1 tasks cannot fill 2 nodes\n",
        ),
        (["--name", "x" * 64], 1, "cosched: a job's name has 1 to 63 characters\n"),
        (["--name", "a\nb"], 1, "cosched: a job's name has 1 to 63 characters\n"),
        (
            ["--outpu"],
            2,
            "cosched submit: No such option '--outpu'. Did you mean '--output'?"
            " See cosched submit --help.\n",
        ),
    ],
)
def test_submission_that_makes_no_sense_is_one_line(user, words, status, line):
    assert user.run("submit", *words, "true") == (status, "", line)


def test_working_directory_that_is_gone_is_one_line(user):
    gone = user.rig.work / "gone"
    gone.mkdir()
    number = user.submit("--hold", "true")
    with user.rig.client() as client:
        client.cancel(number)
    script = f"cd {gone} && rmdir {gone} && exec {BIN}/cosched submit true"
    done = subprocess.run(
        ["sh", "-c", script], env=user.environ, capture_output=True, text=True, check=False
    )
    line = "cosched: the working directory is gone; change it\n"
    # The shell that begins the command has a line of its own about such a directory.
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.endswith(line)


def test_output_that_cannot_be_written_is_one_line(user):
    done = user.run("submit", "--wait", "--output", "no/o", "true")
    number = re.search(r"job (\d+)", done[2])[1]
    reason = f"output {user.rig.work}/no/o: No such file or directory"
    assert done[:2] == (125, "")
    assert done[2].startswith(f"cosched submit: job {number}: failed: ")
    assert done[2].endswith(f"{reason}\n")


def test_large_arguments_and_environment_arrive(user):
    large = {f"V{i}": "x" * 100_000 for i in range(12)}
    script = "env | grep -c ^V[0-9]*=xxx; echo ${#V3} $#"
    words = ["y" * 100_000] * 3
    status, out, err = user.run(
        "submit", "--wait", "-n", "8", "--", "sh", "-c", script, *words, **large
    )
    assert (status, err) == (0, "")
    assert sorted(out.splitlines()) == ["100000 2"] * 8 + ["12"] * 8


def test_job_that_is_too_large_to_execute_is_one_line(user, monkeypatch):
    """A process can send more than the kernel lets another one begin with."""
    monkeypatch.setenv("COSCHED_RUN_DIR", str(user.rig.paths.run_dir))
    large = {f"V{i}": "x" * 100_000 for i in range(100)}
    job = Job(["true"], environ={**user.environ, **large}, cwd=str(user.rig.work))
    with Client.connect() as client:
        number = client.submit(job)
        job = client.wait(number)
        assert (job["state"], job["status"]) == ("failed", 126)
        assert "Argument list too long" in job["reason"]
        with pytest.raises(CoschedError, match=r"have 178\d* bytes, more than 16777216"):
            client.submit(Job(["true"], environ={"V": "x" * (17 << 20)}))
    assert user.run("submit", "--wait", "echo", "on")[1] == "on\n"


@pytest.mark.live
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to hide a folder")
def test_program_that_one_node_lacks_is_one_line(make_rig):
    rig = make_rig(2)
    rig.start("controller", "n1")
    folder = rig.work / "local"
    folder.mkdir()
    shutil.copy("/bin/true", folder / "prog")
    rig.start("n2", alter=partial(hide, folder))
    rig.until_up()
    user = User(rig)
    status, out, err = user.run("submit", "--wait", "--nodes", "2", "local/prog")
    assert (status, out) == (125, "")
    assert err == ("cosched submit: job 1: failed: n2: local/prog: no such program\n")
    assert user.run("submit", "--wait", "true")[0] == 0


# -- with the nodes' schedulers ------------------------------------------------------------


@pytest.mark.live
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, for the nodes' daemons")
def test_ranks_register_with_their_nodes_daemons(make_rig, program, open_folder):
    rig = make_rig(2, folder=open_folder)
    nodes = [LiveNode(rig.paths.run_dir, name) for name in ("n1", "n2")]
    try:
        for node in nodes:
            node.up()
        rig.start()
        rig.until_up()
        user = User(rig)
        number = user.submit("--nodes", "2", "--ppn", "2", str(program[0]), "5")
        name = f"{program[0].name}-{number}"

        def tasks():
            return [len((node.job(name) or {"tasks": ()})["tasks"]) for node in nodes]

        rig.until(lambda: tasks() == [2, 2], "ranks have not registered")
        status, out, err = user.run("why", str(number))
        assert (status, err) == (0, "")
        assert out.startswith(f"job {number}: running on n1, n2; ")
        assert all(f"0.{name} on {node}: " in out for node in ("n1", "n2"))
        assert user.run("output", "-f", str(number)) == (0, "4 ranks, sum 6\n", "")
        assert rig.wait(number)["state"] == "done"
    finally:
        for node in nodes:
            node.close()


# -- JSON ----------------------------------------------------------------------------------


def test_json_has_the_documented_fields(user):
    documented = sections()

    def check(section, *words, status=0):
        found, out, err = user.run(words[0], "--json", *words[1:])
        assert found == status, err
        assert differences(documented[section], json.loads(out)) == ([], [])
        return json.loads(out)

    number = check("cosched submit", "submit", "--hold", "--error", "e", "true")
    assert number["state"] == "held"
    check("cosched submit", "why", str(number["job"]))
    check("cosched queue", "queue", "--all")
    found = user.run("cluster", "status", "--json")[1]
    told = documented["cosched cluster status"]
    assert differences(told, json.loads(found)) == ([], [])
    for word in ("hold", "unhold"):
        check(f"cosched {word}", word, str(number["job"]))
    user.rig.wait(number["job"])
    check("cosched cancel", "cancel", str(number["job"]), status=1)
