"""Running jobs: order, times, CPU seconds, failures, and that nothing is left behind."""

import os
import signal
import sys
import threading
import time

import pytest

from cosched.bench.run.interrupts import interruptible, shielded
from cosched.bench.run.processes import RunFailed, Submission, run_jobs
from cosched.core.errors import CoschedError
from cosched.linux.processes.handlers import handled


def shell(name, script, start_s=0.0, timeout_s=30.0):
    return Submission(name, ("sh", "-c", script), os.environ, start_s, timeout_s)


def gone(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


def test_jobs_run_together(tmp_path):
    """Each waits for the other, so one after the other they would never end."""
    a, b = tmp_path / "a", tmp_path / "b"
    wait = "until [ -e {1} ]; do touch {0}; sleep 0.01; done; touch {0}"
    jobs = [shell("a", wait.format(a, b)), shell("b", wait.format(b, a))]
    results = run_jobs(jobs, None, tmp_path)
    assert [job.name for job in results] == ["a", "b"]


def test_single_jobs_run_in_order_of_submission(tmp_path):
    log = tmp_path / "log"
    jobs = [
        shell("late", f"echo late >> {log}", start_s=0.02),
        shell("first", f"sleep 0.05; echo first >> {log}"),
        shell("second", f"echo second >> {log}"),
    ]
    late, first, second = run_jobs(jobs, 1, tmp_path)
    assert log.read_text().split() == ["first", "second", "late"]
    assert first.ended_s < second.ended_s < late.ended_s
    assert (first.submitted_s, late.submitted_s) == (0.0, 0.02)


def test_job_starts_when_it_is_due(tmp_path):
    jobs = [shell("now", "date +%s.%N"), shell("later", "date +%s.%N", start_s=0.2)]
    began_s = time.time()
    results = run_jobs(jobs, None, tmp_path)
    assert float((tmp_path / "later.out").read_text()) - began_s >= 0.2
    assert results[1].ended_s >= 0.2
    assert results[1].response_s == results[1].ended_s - 0.2


def test_cpu_time_covers_the_jobs_children(tmp_path):
    spin = f"{sys.executable} -c 'import time\nwhile time.process_time() < 0.2: pass'"
    (job,) = run_jobs([shell("spin", f"{spin}; true")], None, tmp_path)
    assert job.cpu_s >= 0.2


def test_failed_job_ends_the_run_and_the_others(tmp_path):
    pid_file = tmp_path / "pid"
    jobs = [
        shell("long", f"echo $$ > {pid_file}; exec sleep 60"),
        shell(
            "bad",
            f"until [ -s {pid_file} ]; do sleep 0.01; done; "
            "for n in $(seq 15); do echo line $n; done; echo -----; "
            "printf 'tab\\there\\n'; exit 3",
        ),
    ]
    with pytest.raises(RunFailed) as caught:
        run_jobs(jobs, None, tmp_path)
    assert caught.value.failure.line == "job 'bad' ended with status 3"
    lines = (f"line {number}" for number in range(5, 16))
    assert caught.value.failure.output == (*lines, "tab here")
    assert gone(int(pid_file.read_text()))


def test_job_ended_by_signal_is_reported(tmp_path):
    with pytest.raises(RunFailed, match=r"'a' was ended by signal 9 \(SIGKILL\)"):
        run_jobs([shell("a", "kill -9 $$")], None, tmp_path)


def test_job_over_its_timeout_is_reported(tmp_path):
    pid_file = tmp_path / "pid"
    job = shell("slow", f"echo $$ > {pid_file}; exec sleep 60", timeout_s=0.3)
    with pytest.raises(RunFailed, match=r"'slow' took longer than its timeout of 0\.3 s"):
        run_jobs([job], None, tmp_path)
    assert gone(int(pid_file.read_text()))


def test_job_that_ignores_sigterm_is_killed(tmp_path, monkeypatch):
    monkeypatch.setattr("cosched.bench.run.processes.STOP_GRACE_S", 0.2)
    pid_file = tmp_path / "pid"
    stubborn = f"trap '' TERM; echo $$ > {pid_file}; while :; do sleep 0.05; done"
    with pytest.raises(RunFailed):
        run_jobs([shell("stubborn", stubborn, timeout_s=0.3)], None, tmp_path)
    assert gone(int(pid_file.read_text()))


def test_missing_command_is_an_error(tmp_path):
    job = Submission("a", ("/nonexistent/program",), os.environ, 0.0, 1.0)
    with pytest.raises(CoschedError) as caught:
        run_jobs([job], None, tmp_path)
    assert str(caught.value) == (
        "job 'a': cannot start '/nonexistent/program': No such file or directory"
    )


def test_attend_is_called_while_jobs_run(tmp_path):
    beats = []
    run_jobs(
        [shell("a", "sleep 0.2")],
        None,
        tmp_path,
        lambda running: beats.append(running) or 0.02,
    )
    assert len(beats) >= 3
    assert beats[1] == ("a",)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_signal_leaves_no_job_behind(tmp_path, number):
    pid_file = tmp_path / "pid"
    job = shell("a", f"echo $$ > {pid_file}; exec sleep 60")

    def interrupt():
        while not (pid_file.exists() and pid_file.read_text().strip()):
            time.sleep(0.01)
        os.kill(os.getpid(), number)

    thread = threading.Thread(target=interrupt)
    with interruptible():
        thread.start()
        with pytest.raises(KeyboardInterrupt):
            run_jobs([job], None, tmp_path)
    thread.join()
    assert gone(int(pid_file.read_text()))


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGINT])
@pytest.mark.parametrize("block", [interruptible, shielded])
def test_signal_that_is_ignored_stays_ignored(number, block):
    """As SIGHUP behind nohup, and SIGINT in the background of a script."""
    ended = False
    try:
        with handled([number], signal.SIG_IGN), block():
            os.kill(os.getpid(), number)
    except KeyboardInterrupt:  # pytest itself would end
        ended = True
    assert not ended


def test_shielded_block_delays_signals():
    steps = []

    def interrupted():
        with shielded():
            os.kill(os.getpid(), signal.SIGTERM)
            steps.append("finished")
        steps.append("never")

    with interruptible(), pytest.raises(KeyboardInterrupt):
        interrupted()
    assert steps == ["finished"]


def test_signal_handlers_are_restored():
    before = signal.getsignal(signal.SIGINT)
    with interruptible(), shielded():
        assert signal.getsignal(signal.SIGINT) is not before
    assert signal.getsignal(signal.SIGINT) is before


def test_no_descriptor_is_left_open(tmp_path):
    run_jobs([shell("a", "true")], None, tmp_path)
    before = os.listdir("/proc/self/fd")
    run_jobs([shell("a", "true"), shell("b", "true")], None, tmp_path)
    with pytest.raises(RunFailed):
        run_jobs([shell("a", "false"), shell("b", "sleep 60")], None, tmp_path)
    assert os.listdir("/proc/self/fd") == before


def test_jobs_get_no_terminal_input(tmp_path):
    run_jobs([shell("a", "cat")], None, tmp_path)
    assert (tmp_path / "a.out").read_bytes() == b""


def test_job_runs_in_its_cwd(tmp_path):
    (tmp_path / "there").mkdir()
    job = Submission(
        "a", ("/bin/sh", "-c", "pwd > here"), os.environ, 0.0, 5.0, tmp_path / "there"
    )
    run_jobs([job], None, tmp_path)
    assert (tmp_path / "there" / "here").read_text() == f"{tmp_path / 'there'}\n"
    nowhere = Submission("a", ("/bin/sh",), os.environ, 0.0, 5.0, tmp_path / "nowhere")
    with pytest.raises(CoschedError, match=r"cannot run in .*nowhere': No such file"):
        run_jobs([nowhere], None, tmp_path)
