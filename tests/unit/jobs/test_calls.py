"""Functions and commands as jobs of a played domain, whose jobs are real processes."""

from __future__ import annotations

import concurrent.futures
import contextlib
import os
import pickle
import stat
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import pytest

import cosched
from cosched import Client, Executor, Job, JobFailed
from cosched.cluster.client import NoDomain
from cosched.core.errors import CoschedError
from cosched.core.names import member_of
from cosched.jobs.calls import parcels
from cosched.jobs.preparing import check_memory
from cosched.linux.memory import MachineMemory
from tests.tools.desk import FakeDesk, play_private_domains


class Domain(FakeDesk):
    """Runs each job at once, as the user who submits it. held: jobs stay running until
    they are cancelled."""

    def __init__(self, run_dir):
        super().__init__(run_dir)
        self.on_submit = self._run
        self.held = False
        self.before_answer = self._refuse_late

    def _refuse_late(self, request):
        """Refuses to cancel an ended job, as a domain does."""
        number = request.get("job")
        if request["do"] == "cancel" and self.jobs[number]["ended_ns"]:
            self.refusals[number] = f"job {number}: has ended"

    def _run(self, job):
        if self.held:
            job.update(state="running", ended_ns=None, status=None)
            return
        sent = self.submissions[-1]
        with (
            open(sent["output"], "wb") as out,
            open(sent["error"] or os.devnull, "wb") as err,
        ):
            done = subprocess.run(
                sent["argv"],
                env=sent["environ"],
                cwd=sent["cwd"],
                stdout=out,
                stderr=err,
                check=False,
            )
        if done.returncode:
            reason = f"rank 0 ended with status {done.returncode} on n1"
            job.update(state="failed", status=done.returncode, reason=reason)

    def _cancel(self, number):
        self.jobs[number].update(
            state="cancelled", status=143, reason="cancelled", ended_ns=1
        )
        return {"job": number}


@pytest.fixture
def domain(monkeypatch, tmp_path):
    with tempfile.TemporaryDirectory(prefix="cosched-t-") as name:
        for variable in os.environ:
            if variable.startswith("COSCHED_") and variable != "COSCHED_RUNS":
                monkeypatch.delenv(variable)
        monkeypatch.setenv("COSCHED_RUN_DIR", name)
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
        found = Domain(Path(name))
        yield found
        found.close()


@pytest.fixture
def client(domain):
    with Client.connect() as found:
        yield found


class Unsendable(Exception):
    def __init__(self, one, two):
        super().__init__(one)
        self.lock = threading.Lock()


# -- functions -----------------------------------------------------------------------------


def test_a_map_returns_results_in_the_order_of_the_items(client, domain):
    base = 10
    assert list(client.map(lambda x: x + base, [3, 1, 2])) == [13, 11, 12]
    assert [sent["ranks"] for sent in domain.submissions] == [0, 0, 0]
    assert {sent["name"] for sent in domain.submissions} == {"<lambda>"}


def test_a_chunk_is_one_job(client, domain):
    assert list(client.map(str, range(5), chunksize=2)) == list("01234")
    assert len(domain.submissions) == 3


def test_tasks_find_modules_as_the_caller_does(client, monkeypatch, tmp_path):
    (tmp_path / "of_the_user.py").write_text("def triple(x):\n    return 3 * x\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    import of_the_user

    assert list(client.map(of_the_user.triple, [1, 2])) == [3, 6]


def test_a_file_of_the_working_directory_replaces_no_module(client, monkeypatch, tmp_path):
    (tmp_path / "cloudpickle.py").write_text("raise SystemExit(9)\n")
    monkeypatch.chdir(tmp_path)
    assert list(client.map(abs, [-1])) == [1]


def test_an_exception_travels_with_its_traceback(client):
    def divide(x):
        return 1 / x

    results = client.map(divide, [1, 0, 2])
    assert next(results) == 1
    with pytest.raises(ZeroDivisionError, match="division by zero") as found:
        next(results)
    assert "in divide" in str(found.value.__cause__)
    assert list(results) == []


def test_an_exception_that_cannot_travel_is_told_in_words(client):
    def fail(x):
        raise Unsendable("no room", x)

    with pytest.raises(RuntimeError, match="Unsendable: no room"):
        list(client.map(fail, [1]))


def test_results_and_arguments_that_cannot_travel_are_one_line(client):
    with pytest.raises(CoschedError, match="arguments of call 1: cannot be sent"):
        client.map(id, [threading.Lock()])
    with pytest.raises(CoschedError, match="the result: cannot be sent"):
        list(client.map(lambda _: threading.Lock(), [1]))


def test_a_job_that_is_killed_is_an_error_with_its_last_line(client):
    def leave(x):
        print("near the end", flush=True)
        os._exit(x)

    with pytest.raises(
        JobFailed, match=r"job 1 \(leave\): failed: .*near the end"
    ) as found:
        list(client.map(leave, [4]))
    assert (found.value.job, found.value.state, found.value.status) == (1, "failed", 4)


def test_files_are_private_and_gone_at_the_end(client, domain, tmp_path):
    seen = []

    def look(job):
        run(job)
        for path in sorted((tmp_path / "cache/cosched/calls").rglob("*")):
            seen.append(
                (path.name.rstrip("0123456789"), stat.S_IMODE(path.lstat().st_mode))
            )

    run, domain.on_submit = domain.on_submit, look
    with Executor() as jobs:
        assert jobs.submit(pow, 2, 10).result() == 1024
    assert {mode for name, mode in seen if name in ("calls-", "result-")} == {0o600}
    assert len([mode for _, mode in seen if mode == 0o700]) == 1
    assert list((tmp_path / "cache/cosched/calls").iterdir()) == []


def test_an_executor_keeps_no_file_of_a_job_that_has_ended(domain):
    with Executor() as jobs:
        futures = [jobs.submit(abs, -1), jobs.submit(abs, -2)]
        assert list(jobs.map(abs, [-3, -4])) == [3, 4]
        jobs._watcher.join()
        assert list(jobs._folder.iterdir()) == []
    assert [each.result() for each in futures] == [1, 2]


def test_a_file_that_another_user_could_write_is_not_read(tmp_path):
    folder = parcels.make_folder(tmp_path)
    path = folder / "result"
    parcels.write_result(path, 5)
    assert parcels.read_parcel(path) == 5
    path.chmod(0o622)
    with pytest.raises(CoschedError, match="another user can change it"):
        parcels.read_parcel(path)
    path.chmod(0o600)
    folder.chmod(0o777)
    with pytest.raises(CoschedError, match="another user can change it"):
        parcels.read_parcel(path)
    folder.chmod(0o700)
    path.rename(folder / "real")
    path.symlink_to("real")
    with pytest.raises(OSError, match="symbolic"):
        parcels.read_parcel(path)


@pytest.mark.skipif(os.geteuid() != 0, reason="gives a file to another user")
def test_a_file_of_another_user_is_not_read(tmp_path):
    path = parcels.make_folder(tmp_path) / "result"
    path.write_bytes(pickle.dumps(5))
    path.chmod(0o600)
    os.chown(path, 1234, 1234)
    with pytest.raises(CoschedError, match="another user can change it"):
        parcels.read_parcel(path)


def test_connect_starts_a_private_domain(monkeypatch, tmp_path):
    started = play_private_domains(monkeypatch)
    with tempfile.TemporaryDirectory(prefix="cosched-t-") as name:
        with pytest.raises(NoDomain, match="start one with: cosched submit PROGRAM, or"):
            Client.connect(name, "n1")
        with pytest.raises(NoDomain):
            Client.connect_to_running(name)
        monkeypatch.setenv("COSCHED_DOMAIN_JOB", "3")
        with pytest.raises(NoDomain):
            Client.connect(name)
        monkeypatch.delenv("COSCHED_DOMAIN_JOB")
        assert not started
        with Client.connect(name) as client:
            assert client.submit(Job(["true"], mpi="none", shim=False)) == 1
        started[0].close()


# -- commands ------------------------------------------------------------------------------


def test_items_stand_in_the_place_of_braces_or_at_the_end(client):
    done = list(client.map(["echo", "a={}", "b"], [1, "x y"]))
    assert [each.stdout for each in done] == ["a=1 b\n", "a=x y b\n"]
    done = list(client.map(["sh", "-c", "echo $0 $1; echo e >&2"], [("1", "2")]))
    assert [(each.stdout, each.stderr, each.returncode) for each in done] == [
        ("1 2\n", "e\n", 0)
    ]


def test_a_command_that_fails_is_an_error_with_its_status(client):
    with pytest.raises(JobFailed, match=r"\(sh\): failed: .*; it wrote: bad") as found:
        list(client.map(["sh", "-c", "echo bad >&2; exit $0"], [3]))
    assert found.value.status == 3


def test_output_goes_to_the_file_that_the_caller_names(client, tmp_path):
    output = str(tmp_path / "out")
    (done,) = client.map(["echo"], ["word"], output=output)
    assert (done.stdout, Path(output).read_text()) == (None, "word\n")


@pytest.mark.parametrize("command", ["echo {}", []])
def test_a_command_is_a_list_of_words(client, command):
    with pytest.raises(CoschedError, match="a list of words"):
        client.map(command, [1])


# -- as concurrent.futures has it ----------------------------------------------------------


def test_wait_and_as_completed_take_the_futures(domain):
    with Executor() as jobs:
        futures = [jobs.submit(abs, -each) for each in range(3)]
        done, rest = concurrent.futures.wait(futures, timeout=30)
        assert (done, rest) == (set(futures), set())
        assert {each.result() for each in concurrent.futures.as_completed(futures)} == {
            0,
            1,
            2,
        }
        called = []
        jobs.submit(abs, -7).add_done_callback(
            lambda future: called.append(future.result())
        )
    assert called == [7]


def test_cancel_ends_the_job_and_wakes_who_waits(domain):
    domain.held = True
    with Executor() as jobs:
        future = jobs.submit(abs, 1)
        assert future.running()
        assert not future.done()
        with pytest.raises(concurrent.futures.TimeoutError):
            future.result(timeout=0.05)
        assert future.cancel()
        assert concurrent.futures.wait([future], timeout=30).done == {future}
        with pytest.raises(concurrent.futures.CancelledError):
            future.result()
        assert domain.jobs[future.job]["state"] == "cancelled"
        assert future.cancel()


def test_a_job_that_has_ended_is_not_cancelled(domain):
    with Executor() as jobs:
        future = jobs.submit(abs, -1)
        assert future.result() == 1
        assert not future.cancel()
        assert not future.running()


def test_a_job_that_somebody_cancels_is_an_error(domain):
    domain.held = True
    with Executor() as jobs:
        future = jobs.submit(abs, -1)
        domain._cancel(future.job)
        with pytest.raises(JobFailed, match=r"\(abs\): cancelled$"):
            future.result(timeout=30)


def test_jobs_whose_results_are_not_taken_are_cancelled(client, domain):
    domain.held = True
    with pytest.raises(concurrent.futures.TimeoutError):
        list(client.map(abs, [1, 2, 3], timeout=0.05))
    assert {job["state"] for job in domain.jobs.values()} == {"cancelled"}


def test_an_interrupt_cancels_the_jobs(domain):
    domain.held = True
    futures = []

    def work():
        with Executor() as jobs:
            futures.append(jobs.submit(abs, -1))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        work()
    assert futures[0].cancelled()


def test_a_closed_executor_takes_nothing(domain):
    jobs = Executor()
    jobs.shutdown()
    with pytest.raises(RuntimeError, match="after shutdown"):
        jobs.submit(abs, -1)


def test_a_domain_that_closes_the_connection_is_asked_again(domain):
    lost = []

    def lose_the_first(request):
        if not lost:
            lost.append(request)
            raise BrokenPipeError

    domain.before_answer = lose_the_first
    with Executor(memory_bytes=1) as jobs:
        assert jobs.submit(abs, -1).result() == 1
    assert lost == [{"do": "nodes"}]


def test_a_refusal_is_raised_at_once(domain):
    domain.refusals[0] = "infeasible: needs 9 nodes, the domain has 1"
    with pytest.raises(CoschedError, match="infeasible"), Executor() as jobs:
        jobs.submit(abs, -1)


def test_jobs_before_one_that_cannot_be_sent_are_cancelled(domain):
    domain.held = True

    def items():
        yield from (1, 2)
        raise CoschedError("no third item")

    with Executor() as jobs:
        with pytest.raises(CoschedError, match="no third item"):
            jobs.map(["sleep"], items())
        assert [job["state"] for job in domain.jobs.values()] == ["cancelled"] * 2


def test_the_process_ends_after_its_jobs(domain, tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "from cosched import Executor\n"
        "def work(x): return 2 * x\n"
        "future = Executor().submit(work, 4)\n"
        "future.add_done_callback(lambda found: print(found.result()))\n"
    )
    done = subprocess.run(
        [sys.executable, script], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "8\n", "")
    assert list((tmp_path / "cache/cosched/calls").iterdir()) == []


HERE = member_of(os.uname().nodename)


@pytest.mark.parametrize(
    ("nodes", "needed", "refused"),
    [
        ([HERE], 2 << 40, True),
        ([HERE], 1 << 30, False),
        ([HERE, "n2"], 2 << 40, False),
        (["n1"], 2 << 40, False),
    ],
)
def test_job_that_needs_more_memory_than_this_machine_has(
    monkeypatch, nodes, needed, refused
):
    memory = MachineMemory(1 << 40, 1 << 40, 0)
    monkeypatch.setattr("cosched.jobs.preparing.machine_memory", lambda: memory)
    client = Client.__new__(Client)
    monkeypatch.setattr(client, "nodes", lambda: [{"node": name} for name in nodes])
    outcome = pytest.raises(CoschedError, match="TiB on a node, this machine has")
    with outcome if refused else contextlib.nullcontext():
        check_memory(client, needed)


def test_package_has_the_names_of_its_pages():
    for name in cosched.__all__:
        assert getattr(cosched, name).__name__ == name
    with pytest.raises(AttributeError, match="no attribute 'Clint'"):
        cosched.Clint  # noqa: B018
