"""Starts jobs at once by cosched-run --domain in a domain of two nodes."""

import signal
import subprocess

import pytest

from cosched import Client, Job
from cosched.core.errors import CoschedError
from tests.domain.rig import ENVIRON, WITHIN_S
from tests.domain.user import BIN, User

pytestmark = pytest.mark.mpi_job
LINE = "cosched-run: cannot start at once: 0 nodes free, needs {}\n"


@pytest.fixture(scope="module")
def user(pair):
    return User(pair)


def cosched_run(user, *words):
    return subprocess.Popen(
        [BIN / "cosched-run", "--domain", *words],
        cwd=user.rig.work,
        env={**user.environ, "MINE": "seen"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def run(user, *words, given=""):
    """Returns status, stdout and stderr."""
    words = ("--domain", *words)
    module = "cosched.cli.run.main"
    return user.run_with(given.encode(), *words, module=module, MINE="seen")


@pytest.fixture
def full(user):
    """A job has both nodes."""
    number = user.submit("--nodes", "2", "sleep", "100")
    user.rig.until_state(number, "running")
    yield number
    user.run("cancel", str(number))
    user.rig.wait(number)


def test_streams_environment_and_status_are_the_program_s(user):
    script = "read a; echo $a $MINE; echo err >&2; exit 3"
    status, out, err = run(user, "sh", "-c", script, given="in\n")
    assert (status, out) == (3, "in seen\n")
    first, last = err.splitlines()
    assert first == "err"
    assert last.endswith(": failed: rank 0 ended with status 3 on n1")


def test_ranks_run_on_the_nodes_of_the_domain(user):
    status, out, err = run(user, "-v", "-n", "8", "--job", "wide", "sh", "-c", "echo r")
    assert (status, out) == (0, "r\n" * 8)
    assert " on n1, n2\n" in err
    assert " wide " in user.run("queue", "--all")[1]


def test_signal_ends_the_job(user):
    with cosched_run(user, "sh", "-c", "echo began; sleep 88.25") as process:
        assert process.stdout.readline() == "began\n"
        process.send_signal(signal.SIGTERM)
        assert process.wait(WITHIN_S) == 143
    assert not user.rig.strays("88.25")


def test_job_without_free_nodes_is_refused_and_leaves_nothing(user, full):
    assert run(user, "true") == (1, "", LINE.format(1))
    assert run(user, "-n", "8", "true") == (1, "", LINE.format(2))
    assert str(full) in user.run("queue")[1]
    assert len(user.run("queue")[1].splitlines()) == 2


def test_job_does_not_overtake_jobs_that_wait(user):
    first = user.submit("--nodes", "1", "sleep", "100")
    wide = user.submit("--nodes", "2", "true")
    user.rig.until_state(first, "running")
    line = "cosched-run: cannot start at once: 1 node free, needs 1, 1 job waits\n"
    assert run(user, "--time", "2h", "true") == (1, "", line)
    assert run(user, "--time", "1", "true")[0] == 0  # over before the wide job begins
    user.run("cancel", str(first))
    assert user.rig.wait(wide)["state"] == "done"


def test_program_gets_an_error_for_a_job_that_cannot_start(user, full):
    job = Job(["true"], at_once=True, environ=ENVIRON, cwd=str(user.rig.work))
    with Client.connect(user.rig.paths.run_dir, "n1") as client:
        prepared = client.prepare(job)
        for _ in range(2):  # sent twice it is refused twice
            with pytest.raises(CoschedError, match="cannot start at once"):
                client.submit(prepared)
    with pytest.raises(CoschedError, match="cannot be held or requeued"):
        user.rig.submit("/bin/true", at_once=True, held=True)


def test_restarted_controller_does_not_start_it_later(make_rig):
    rig = make_rig(1)
    rig.start("n1")
    rig.start("controller")
    rig.until_up()
    number = rig.submit("/bin/sleep", "100", at_once=True)
    rig.kill("controller")
    rig.kill("n1")
    rig.start("controller", "n1")
    assert rig.wait(number)["starts"] == 1
