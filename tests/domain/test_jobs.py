"""Tests what users see of jobs in a domain of two nodes."""

import os
import signal
import sys
from pathlib import Path

import pytest

from cosched.cluster.agent.topology import write_topology
from cosched.cluster.submission import make_submission
from cosched.core.errors import CoschedError
from cosched.core.units import NS_PER_S
from tests.domain.user import as_user


def test_each_task_writes_into_the_output_file(pair):
    job = pair.wait(pair.shell("echo out; echo err >&2", nodes=2, ppn=3))
    assert (job["state"], job["status"], job["hosts"]) == ("done", 0, ["n1", "n2"])
    assert sorted(pair.output(job).split()) == ["err"] * 6 + ["out"] * 6


def test_streams_can_have_files_of_their_own(pair):
    job = pair.wait(pair.shell("echo out; echo err >&2", output="%x-%j.o", error="%j.e"))
    number = job["job"]
    assert (pair.work / f"sh-{number}.o").read_text() == "out\n"
    assert (pair.work / f"{number}.e").read_text() == "err\n"


def ask_pmi(pair, line, **more):
    """Returns what the PMI answers to each task of a job."""
    script = (
        "import os, socket, sys; s = socket.socket(fileno=int(os.environ['PMI_FD']));"
        "s.sendall(sys.argv[1].encode() + b'\\n'); print(s.recv(999).decode().strip())"
    )
    job = pair.submit(sys.executable, "-c", script, line, pmi="pmi1", **more)
    return pair.output(pair.wait(job)).splitlines()


def test_equal_jobs_have_different_names_for_their_mpi(pair):
    jobs = [ask_pmi(pair, "cmd=get_my_kvsname", name="same name") for _ in range(2)]
    names = {answer.partition("kvsname=")[2] for (answer,) in jobs}
    assert len(names) == 2
    assert all(" " not in name for name in names)


def test_tasks_of_a_node_share_a_description_of_its_hardware(pair, tmp_path):
    if not write_topology(tmp_path / "own"):
        pytest.skip("no hwloc")
    file = pair.paths.topology("n1")
    line = "cmd=get kvsname=any key=PMI_hwloc_xmlfile"
    pair.until(file.exists, "no file")
    answer = f"cmd=get_result rc=0 msg=success value={file}"
    assert ask_pmi(pair, line, nodes=1, ppn=2) == [answer] * 2
    assert file.read_text().startswith("<?xml")


def test_labels_name_the_rank_of_each_line(pair):
    job = pair.wait(pair.shell("echo a; echo b", nodes=2, ppn=1, label=True, pmi="pmi1"))
    assert sorted(pair.output(job).splitlines()) == ["[0] a", "[0] b", "[1] a", "[1] b"]


def test_much_output_of_all_nodes_arrives_whole(pair):
    job = pair.wait(pair.shell("seq 200000", nodes=2, ppn=2))
    assert len(pair.output(job).splitlines()) == 800000


def test_rank_0_reads_the_input_file(pair):
    (pair.work / "in").write_text("hello\n")
    job = pair.wait(pair.shell("cat", nodes=2, ppn=1, input="in"))
    assert pair.output(job) == "hello\n"


def test_the_environment_and_the_directory_are_those_of_the_user(pair):
    job = pair.wait(
        pair.shell("pwd; echo $MINE; umask", environ={"MINE": "x y"}, umask=0o027)
    )
    assert pair.output(job).splitlines() == [str(pair.work), "x y", "0027"]


@pytest.mark.parametrize(
    ("script", "status", "reason"),
    [
        ("exit 3", 3, "rank 0 ended with status 3 on n1"),
        ("kill -9 $$", 137, "rank 0 was ended by SIGKILL on n1"),
    ],
)
def test_a_task_that_fails_ends_the_job_with_its_status(pair, script, status, reason):
    job = pair.wait(pair.shell(script))
    assert (job["state"], job["status"], job["reason"]) == ("failed", status, reason)


def test_a_task_that_fails_ends_the_tasks_of_the_other_node(pair):
    job = pair.wait(
        pair.shell('[ "$PMI_RANK" = 1 ] && exit 5; sleep 98.7', nodes=2, ppn=1, pmi="pmi1")
    )
    assert (job["state"], job["status"]) == ("failed", 5)
    assert job["reason"] == "rank 1 ended with status 5 on n2"
    assert not pair.strays("98.7")


def test_what_tasks_leave_behind_ends_with_the_job(pair):
    job = pair.wait(pair.shell("setsid sleep 97.6 & echo ok"))
    assert pair.output(job) == "ok\n"
    assert not pair.strays("97.6")


@pytest.mark.parametrize(
    ("argv", "more", "reason"),
    [
        (["nosuch"], {}, "nosuch: no such program"),
        (["/etc/passwd"], {}, "/etc/passwd: is not a program that this user may run"),
        (["true"], {"cwd": "/nowhere"}, "/nowhere: No such file or directory"),
        (["true"], {"output": "no/x"}, "output {work}/no/x: No such file or directory"),
        (["true"], {"input": "none"}, "input {work}/none: No such file or directory"),
    ],
)
def test_a_job_that_cannot_start_says_why(pair, argv, more, reason):
    job = pair.wait(pair.submit(*argv, nodes=2, **more))
    assert (job["state"], job["status"]) == ("failed", 125)
    assert job["reason"].endswith(reason.format(work=pair.work))


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ({"nodes": 3}, "infeasible: needs 3 nodes, the domain has 2"),
        ({"nodes": 1, "ppn": 5}, "infeasible: needs 5 tasks on a node, a node takes 4"),
        ({"ranks": 9}, "infeasible: needs 3 nodes, the domain has 2"),
        ({"ranks": 1, "nodes": 2}, "infeasible: 1 tasks cannot fill 2 nodes"),
        (
            {"ranks": 4, "nodes": 1, "ppn": 3},
            "infeasible: 4 tasks on 1 nodes are more than 3",
        ),
    ],
)
def test_a_job_that_can_never_run_is_refused(pair, more, reason):
    with pytest.raises(CoschedError, match=reason):
        pair.submit("true", **more)


def test_a_running_job_can_be_cancelled(pair):
    number = pair.shell("trap 'echo term; exit 1' TERM; sleep 96.5 & wait", nodes=2, ppn=2)
    pair.until_state(number, "running")
    pair.until(lambda: len(pair.strays("96.5")) == 8, "tasks have not begun")
    with pair.client() as client:
        client.cancel(number)
    job = pair.wait(number)
    assert (job["state"], job["status"], job["reason"]) == ("cancelled", 143, "cancelled")
    assert pair.output(job).split() == ["term"] * 4
    assert not pair.strays("96.5")


def test_a_job_that_ignores_sigterm_is_killed_after_the_grace(pair):
    number = pair.shell("trap '' TERM; echo x; while :; do sleep 0.1; done # 95.4")
    pair.until(lambda: pair.output({"output": f"cosched-{number}.out"}), "has not begun")
    with pair.client() as client:
        client.cancel(number)
    assert pair.wait(number)["state"] == "cancelled"
    assert not pair.strays("95.4")


def test_a_job_ends_when_its_time_is_over(pair):
    job = pair.wait(pair.shell("sleep 94.3", time_ns=100_000_000))
    assert (job["state"], job["reason"]) == ("timeout", "its time is over")
    assert not pair.strays("94.3")


def test_a_held_job_starts_when_it_is_released(pair):
    number = pair.shell("echo ran", held=True)
    with pair.client() as client:
        assert (
            client.job(number)["why"] == f"is held; to release it: cosched unhold {number}"
        )
        client.unhold(number)
    assert pair.output(pair.wait(number)) == "ran\n"


def test_a_waiting_job_can_be_held_and_cancelled(pair):
    first = pair.shell("sleep 93.2", nodes=2, time_ns=600 * NS_PER_S)
    second = pair.shell("true", nodes=2)
    with pair.client() as client:
        why = client.job(second)["why"]
        assert why.startswith("waits: 0 nodes free, needs 2; expected ")
        client.hold(second)
        with pytest.raises(CoschedError, match="only a waiting job can be held"):
            client.hold(first)
        client.cancel(second)
        client.cancel(first)
        client.cancel(second)  # the job is cancelled already
    assert pair.wait(second)["state"] == "cancelled"
    assert pair.wait(first)["state"] == "cancelled"


def test_a_drained_node_gets_no_new_job(pair):
    with pair.client() as client:
        client.drain(["n1"], "new disk")
        node = client.nodes()[0]
        assert (node["state"], node["reason"]) == ("drained", "new disk")
    job = pair.wait(pair.shell("true"))
    assert job["hosts"] == ["n2"]
    number = pair.shell("true", nodes=2)
    with pair.client() as client:
        assert client.job(number)["why"].endswith("only 1 node is in service")
        client.undrain(["n1"])
    assert pair.wait(number)["state"] == "done"


def test_the_same_submission_twice_is_one_job(pair):
    first = pair.shell("true", held=True)
    with pair.client() as client:
        again = make_submission(["true"], environ={}, cwd="/")
        assert client.submit(again) == client.submit(again) == first + 1
        client.cancel(first)


def test_an_unknown_job_and_an_unknown_request_are_refused(pair):
    with pair.client() as client:
        with pytest.raises(CoschedError, match="job 99999: there is no such job"):
            client.job(99999)
        with pytest.raises(CoschedError, match="not a request of this version"):
            client._ask("dance")
        with pytest.raises(CoschedError, match="is not the number of a job"):
            client._ask("job", job="one")


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to be two users")
def test_a_job_runs_as_its_user_and_only_that_user_ends_it(open_folder, make_rig):
    rig = make_rig(1, folder=open_folder)
    rig.work.chmod(0o777)
    rig.start()
    rig.until_up()
    number = as_user(65534, lambda: rig.shell("id -u; id -G; sleep 92.1"))
    rig.until(lambda: rig.output({"output": f"cosched-{number}.out"}), "has not begun")
    assert as_user(65533, lambda: attempt_cancel(rig, number)) == "belongs to another user"
    assert as_user(65533, lambda: attempt_drain(rig)).startswith("only root, or the user")
    with rig.client() as client:
        client.cancel(number)
    assert rig.output(rig.wait(number)).split()[:1] == ["65534"]


def attempt_drain(rig):
    with rig.client() as client:
        try:
            client.drain(["n1"])
        except CoschedError as error:
            return str(error)
    return "drained"


def attempt_cancel(pair, number):
    with pair.client() as client:
        try:
            client.cancel(number)
        except CoschedError as error:
            return str(error).partition(": ")[2]
    return "cancelled"


def test_the_domain_ends_and_keeps_the_jobs_that_wait(make_rig):
    rig = make_rig(1)
    rig.start()
    rig.until_up()
    running, waiting = rig.shell("sleep 91.9"), rig.shell("echo later")
    rig.until_state(running, "running")
    with rig.client() as client:
        with pytest.raises(CoschedError, match="1 job runs; to end them too"):
            client.down(end_jobs=False)
        assert client.down(end_jobs=True) == [running]
    assert [process.wait(10) for process in rig.members.values()] == [0, 0]
    rig.start()
    assert rig.output(rig.wait(waiting)) == "later\n"
    rig.kill("controller", signal.SIGTERM)


def test_cancelled_job_leaves_no_shared_memory_and_foreign_files_stay(pair, tmp_path):
    mark = f"sm_segment.{tmp_path.name}.{os.getpid()}"
    own, foreign = Path("/dev/shm", mark), Path("/dev/shm", f"{mark}.foreign")
    program = tmp_path / "program.py"
    program.write_text(
        "import mmap, os, sys, time\n"
        "with open(os.open(sys.argv[1], os.O_RDWR | os.O_CREAT, 0o600), 'r+b') as file:\n"
        "    file.truncate(4096)\n"
        "    kept = mmap.mmap(file.fileno(), 0)\n"
        "print('mapped', flush=True)\n"
        "time.sleep(100)\n"
    )
    foreign.touch(mode=0o600)
    try:
        script = f"{sys.executable} {program} {own}"
        number = pair.shell(f"{script}; true", output="mapped.out")
        output = pair.work / "mapped.out"
        pair.until(lambda: output.exists() and output.read_text(), "maps nothing")
        with pair.client() as client:
            client.cancel(number)
        assert pair.wait(number)["state"] == "cancelled"
        assert not own.exists()
        assert foreign.exists()
    finally:
        own.unlink(missing_ok=True)
        foreign.unlink()
