"""Kills members of a domain between each pair of their actions, and at other bad moments.

Each task of a job writes one line into a file of its own start. So the files show how often
a job ran, and whether all of it ran.
"""

import contextlib
import os
import shutil
import signal
import subprocess
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial

import pytest
import zmq

from cosched.cluster.agent import agent as agent_module
from cosched.cluster.client import Client, Patience
from cosched.cluster.keys import make_keys
from cosched.cluster.messages import PROTOCOL
from cosched.cluster.submission import make_submission
from cosched.core.errors import CoschedError
from cosched.core.names import CONTROLLER
from tests.domain import storm
from tests.domain.crashing import crash_before
from tests.domain.rig import QUICK, WITHIN_S
from tests.tools.deep import make_deep

__all__ = ["make_deep"]

#: How long users wait for a controller that gives no answer.
UNANSWERED_S = 3.0
#: More actions than a member has for the jobs of a test.
ACTIONS_MOST = 60
RAN = "echo $PMI_RANK >> ran.$COSCHED_DOMAIN_JOB.$COSCHED_DOMAIN_START"


def starts_of(rig, number):
    """Returns the ranks that ran, by start."""
    return {
        path.name: sorted(path.read_text().split())
        for path in rig.work.glob(f"ran.{number}.*")
    }


def nothing_is_left(rig, mark):
    def clean():
        with rig.client() as client:
            busy = [node for node in client.nodes() if node["jobs"]]
        return not busy and not rig.strays(mark)

    rig.until(clean, "a node or a process is left")


def reasons(rig):
    """Returns the reasons of the nodes' states, as users see them."""
    with rig.client() as client:
        return [node["reason"] for node in client.nodes()]


def node_state(rig, name):
    with rig.client("n3") as client:
        (state,) = (node["state"] for node in client.nodes() if node["node"] == name)
    return state


def has_crashed(member):
    return member.poll() is not None


def restart_once(rig, over):
    """Starts the controller again if it crashes before ``over`` is set; returns whether it
    did."""
    controller = rig.members[CONTROLLER]
    while not over.is_set():
        if has_crashed(controller):
            rig.start(CONTROLLER)
            return True
        over.wait(0.01)
    return False


@pytest.fixture
def pool():
    with ThreadPoolExecutor() as executor:
        yield executor


@pytest.mark.parametrize("requeue", [False, True])
def test_a_controller_killed_between_any_two_actions_loses_no_job(make_rig, pool, requeue):
    seen = []
    rig = make_rig(2)
    counted = rig.folder / "counted"
    rig.start(*rig.config.nodes)
    for action in range(1, ACTIONS_MOST):
        rig.start(CONTROLLER, alter=partial(crash_before, action, counted))
        over = threading.Event()
        restarting = pool.submit(restart_once, rig, over)
        try:
            # A request waits in the agent until a controller has answered it.
            number = rig.shell(
                f"{RAN}; sleep 0.1 # mark88", nodes=2, ppn=1, pmi="pmi1", requeue=requeue
            )
            job = rig.wait(number)
            nothing_is_left(rig, "mark88")
        finally:
            over.set()
            crashed = restarting.result(WITHIN_S)
        if crashed:
            seen.append(counted.read_text())
        starts = starts_of(rig, number)
        whole = [ranks for ranks in starts.values() if ranks == ["0", "1"]]
        at = seen[-1] if crashed else "no crash"
        # A start that was given up before the order to go has run nothing.
        assert len(starts) <= 1, (at, starts, job)
        assert job["state"] == "done", (at, job, rig.log(CONTROLLER))
        assert len(whole) == 1, (at, starts, job)
        rig.kill(CONTROLLER)
        if not crashed:
            break
    else:
        pytest.fail("the controller never finished")
    assert len(set(seen)) >= 4, seen  # their order may differ from run to run


@pytest.mark.parametrize("node", ["n1", "n2"])
def test_an_agent_killed_between_any_two_actions_ends_its_job_clearly(make_rig, node):
    seen = []
    rig = make_rig(3, life=QUICK)
    counted = rig.folder / "counted"
    rig.start(CONTROLLER, *(set(rig.config.nodes) - {node}))
    for action in range(1, ACTIONS_MOST):
        rig.start(node, alter=partial(crash_before, action, counted))
        rig.until_up()
        script = f"{RAN}; sleep 0.1 # mark87"
        number = rig.shell(script, by="n3", nodes=2, ppn=1, pmi="pmi1", requeue=True)
        agent = rig.members[node]
        job = rig.wait(number)
        crashed = agent.poll() is not None
        if crashed:
            seen.append(counted.read_text())
        at = seen[-1] if crashed else "no crash"
        assert job["state"] == "done", (at, job, rig.log(CONTROLLER))
        whole = [ranks for ranks in starts_of(rig, number).values() if ranks == ["0", "1"]]
        assert whole, (at, starts_of(rig, number))
        nothing_is_left(rig, "mark87")
        rig.kill(node)
        rig.until(lambda: node_state(rig, node) != "up", f"{node} is still up")
        if not crashed:
            break
    else:
        pytest.fail("the agent never finished")
    assert len(set(seen)) >= 2, seen


def test_jobs_run_on_while_the_controller_is_away(make_rig):
    rig = make_rig(2)
    rig.start()
    rig.until_up()
    number = rig.shell(f"{RAN}; until [ -e go ]; do sleep 0.05; done", nodes=2, pmi="pmi1")
    waiting = rig.shell("echo next", nodes=2)
    rig.until(lambda: starts_of(rig, number), "has not begun")
    rig.kill(CONTROLLER)
    (rig.work / "go").touch()
    rig.start(CONTROLLER)
    assert rig.wait(number)["state"] == "done"
    assert len(starts_of(rig, number)) == 1
    assert rig.output(rig.wait(waiting)) == "next\n" * 2


def test_a_lost_node_ends_its_jobs_and_others_go_on(make_rig):
    rig = make_rig(3, life=QUICK)
    rig.start()
    rig.until_up()
    hit = rig.shell("sleep 86.5", nodes=2)
    other = rig.shell("until [ -e go ]; do sleep 0.05; done; echo ok")
    for number in (hit, other):
        rig.until_state(number, "running")
    rig.kill("n2")
    job = rig.wait(hit)
    assert (job["state"], job["status"]) == ("node lost", 137)
    assert job["reason"] == "node n2 was lost"
    assert not rig.strays("86.5")
    with rig.client() as client:
        node = client.nodes()[1]
    assert (node["state"], node["reason"]) == ("lost", "it does not answer")
    (rig.work / "go").touch()
    assert rig.output(rig.wait(other)) == "ok\n"
    rig.start("n2")
    rig.until_up("n2")
    assert rig.wait(rig.shell("true", nodes=3))["state"] == "done"


def test_a_frozen_node_is_lost_and_returns_without_its_old_job(make_rig):
    rig = make_rig(2, life=QUICK)
    rig.start()
    rig.until_up()
    number = rig.shell(f"{RAN}; sleep 85.4", nodes=2, pmi="pmi1")
    rig.until(lambda: len(rig.strays("85.4")) == 4, "has not begun")
    rig.members["n2"].send_signal(signal.SIGSTOP)
    assert rig.wait(number)["state"] == "node lost"
    rig.members["n2"].send_signal(signal.SIGCONT)
    rig.until_up("n2")
    rig.until(lambda: not rig.strays("85.4"), "the old job's tasks are left")
    assert rig.wait(rig.shell("true", nodes=2))["state"] == "done"


def test_a_node_with_tasks_of_a_lost_job_takes_no_other_job(make_rig):
    rig = make_rig(2, slots=1)
    rig.start()
    rig.until_up()
    stubborn = f"trap '' TERM; {RAN}; while :; do sleep 0.1; done # stubborn"
    lost = rig.shell(stubborn, nodes=2, pmi="pmi1")
    rig.until(lambda: starts_of(rig, lost), "the job does not begin")
    rig.kill(CONTROLLER)
    rig.kill("n2")
    rig.start(CONTROLLER, "n2")
    after = rig.submit("/bin/true", nodes=2)
    assert rig.wait(lost)["state"] == "node lost"
    job = rig.wait(after)
    assert (job["state"], job["starts"]) == ("done", 1), job["reason"]
    nothing_is_left(rig, "# stubborn")


def test_a_second_controller_is_refused(make_rig):
    rig = make_rig(1)
    rig.start()
    second = rig.launch(CONTROLLER)
    assert second.wait(10) == 1
    assert "another controller is up" in rig.log(CONTROLLER)


def test_an_agent_of_another_domain_file_is_refused(make_rig):
    rig = make_rig(1)
    rig.start(CONTROLLER)
    rig.write_config(replace(rig.config, name="other"))
    agent = rig.launch("n1")
    assert agent.wait(20) == 1
    assert "its domain.toml differs from the controller's" in rig.log("n1")
    assert reasons(rig) == ["refused: its domain.toml differs from the controller's"]
    rig.write_config(rig.config)
    time.sleep(1)  # a refusal that is sent again would wait for the next agent
    rig.start("n1")
    rig.until_up()
    assert rig.wait(rig.shell("true"))["state"] == "done"


def speak_next_version():
    """Makes this agent speak another version of the protocol."""
    agent_module.PROTOCOL += 1


def test_an_agent_of_another_version_is_refused_with_one_line(make_rig):
    rig = make_rig(1)
    rig.start(CONTROLLER)
    agent = rig.launch("n1", alter=speak_next_version)
    assert agent.wait(20) == 1
    (line,) = rig.log("n1").splitlines()
    assert "it speaks version" in line
    why = f"refused: it speaks version {PROTOCOL + 1} of the protocol, not {PROTOCOL}"
    assert reasons(rig) == [why]
    rig.start("n1")
    rig.until_up()
    assert reasons(rig) == [""]


def test_an_agent_with_a_wrong_key_gets_no_answer(make_rig):
    rig = make_rig(2, life=QUICK)  # the line in its log comes after that time
    rig.start(CONTROLLER, "n1")
    for file in rig.paths.keys.glob("n2.*"):
        file.unlink()
    make_keys(rig.paths.keys, ["n2"])  # the controller has read the old one
    rig.start("n2")
    rig.until_up("n1")
    rig.until(lambda: any(reasons(rig)), "no reason")
    assert reasons(rig) == ["", "an unknown key came from its address"]
    with rig.client() as client:
        assert [node["state"] for node in client.nodes()] == ["up", "down"]
    line = f"no answer from the controller at {rig.config.controller}: is it up"
    rig.until(lambda: line in rig.log("n2"), "n2 logs nothing")


def test_an_agent_joins_once_the_controller_has_its_key(make_rig):
    rig = make_rig(2)
    public = rig.paths.keys / "n2.public"
    right = public.read_text()
    public.write_bytes(zmq.curve_keypair()[0])
    rig.start(CONTROLLER)
    public.write_text(right)
    rig.start("n1", "n2")
    rig.until(lambda: any(reasons(rig)), "no reason")
    rig.kill(CONTROLLER)
    rig.start(CONTROLLER)
    rig.until_up()
    assert reasons(rig) == ["", ""]


def test_a_torn_store_is_refused_with_one_line(make_rig):
    rig = make_rig(1)
    rig.paths.store.write_bytes(b"SQLite format 3\0" + b"torn" * 100)
    controller = rig.launch(CONTROLLER)
    assert controller.wait(10) == 1
    lines = rig.log(CONTROLLER).splitlines()
    assert len(lines) == 1
    assert "jobs.sqlite" in lines[0]


def submit_many(rig):
    """The store's own file may still have room for some jobs. A controller that stands
    still gives no answer, however long its users wait."""
    more = {"environ": rig.environ, "cwd": str(rig.work)}
    with Client.connect(rig.paths.run_dir, "n1", Patience(UNANSWERED_S)) as client:
        for _ in range(50):
            client.submit(make_submission(("true",), **more))


@pytest.fixture
def small_disk(tmp_path):
    """A folder on a file system of its own, which is soon full."""
    if os.geteuid() != 0:
        pytest.skip("needs root, to mount")
    folder = tmp_path / "small"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=400k", "tmpfs", folder]
    if subprocess.run(mount, check=False).returncode != 0:
        pytest.skip("cannot mount here")
    yield folder
    subprocess.run(["umount", "-l", folder], check=True)


def test_a_full_disk_loses_no_job_that_was_accepted(make_rig, small_disk):
    rig = make_rig(1)
    shutil.move(rig.paths.directory, small_disk / "domain")
    rig.paths.directory.symlink_to(small_disk / "domain")
    rig.start()
    rig.until_up()
    first = rig.shell("until [ -e go ]; do sleep 0.05; done; echo first")
    rig.until_state(first, "running")
    filler = small_disk / "filler"
    with contextlib.suppress(OSError), filler.open("wb") as file:
        while True:
            file.write(bytes(4096))
            file.flush()
    with pytest.raises(CoschedError, match=r"full|has not answered"):
        submit_many(rig)
    (rig.work / "go").touch()
    rig.until(lambda: "waiting for space" in rig.log(CONTROLLER), "nothing waits")
    filler.unlink()
    job = rig.wait(first)
    assert not has_crashed(rig.members[CONTROLLER])
    assert (job["state"], rig.output(job)) == ("done", "first\n")


def test_a_drained_node_stays_drained_when_the_controller_is_killed(make_rig):
    rig = make_rig(1)
    rig.start()
    rig.until_up()
    with rig.client() as client:
        client.drain(["n1"], "new disk")
    rig.kill(CONTROLLER)
    rig.start(CONTROLLER)

    def node():
        with rig.client() as client:
            return client.nodes()[0]

    rig.until(lambda: node()["state"] == "drained", "n1 has not joined")
    assert node()["reason"] == "new disk"
    with rig.client() as client:
        client.undrain(["n1"])
    rig.kill(CONTROLLER)
    rig.start(CONTROLLER)
    assert rig.wait(rig.shell("true"))["state"] == "done"


def test_a_steward_that_is_killed_ends_its_job(make_rig):
    rig = make_rig(1)
    rig.start()
    rig.until_up()
    number = rig.shell("echo $PPID; sleep 84.3")
    name = {"output": f"cosched-{number}.out"}
    rig.until(lambda: rig.output(name), "has not begun")
    os.kill(int(rig.output(name)), signal.SIGKILL)
    job = rig.wait(number)
    assert (job["state"], job["reason"]) == (
        "failed",
        "the steward of the job on n1 was killed",
    )
    rig.until(lambda: not rig.strays("84.3"), "a task is left")
    assert rig.wait(rig.shell("true", ppn=4))["state"] == "done"


def test_a_job_that_fills_its_directory_ends_no_agent(make_deep, make_rig):
    """Its tree is too deep for a function that calls itself, also at the next start."""
    rig = make_rig(1)
    rig.start()
    rig.until_up()
    number = rig.shell("until [ -e made ]; do sleep 0.1; done")
    spool = rig.paths.spool("n1")
    rig.until(lambda: list(spool.glob(f"{number}.*")), "has no directory")
    make_deep(next(spool.glob(f"{number}.*")))
    (rig.work / "made").touch()
    assert rig.wait(number)["state"] == "done"
    rig.until(lambda: not list(spool.iterdir()), "its files are left")
    rig.kill("n1")
    make_deep(spool / "2.1.0")
    rig.start("n1")
    assert rig.wait(rig.shell("true"))["state"] == "done"
    rig.until(lambda: not list(spool.parent.glob("removed.*")), "files are left")


def test_nothing_is_lost_in_a_small_storm(tmp_path):
    problems, ends = storm.run(jobs=25, faults=10, nodes=3, seed=7, folder=tmp_path)
    assert not problems
    assert sum(ends.values()) == 25
