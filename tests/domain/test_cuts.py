"""Cuts links of a domain of real daemons: at each message, and in real networks."""

import os
import random
import shutil
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest

from cosched.cluster.client import Client
from cosched.config.domain import SecuritySettings
from cosched.core.names import CONTROLLER
from tests.domain.cutting import CUT, cut
from tests.domain.rig import QUICK, WITHIN_S
from tests.domain.test_crashes import RAN, nothing_is_left, starts_of
from tests.domain.user import User
from tests.domain.wires import Wires

MEMBERS = (CONTROLLER, "n1", "n2")
#: Nodes are lost after 1 s.
LONG_S = 2.0
#: More messages than a job of a test needs on a link.
MESSAGES_MOST = 40
#: Domains that run at the same time: each waits most of the time.
AT_ONCE = 4


@pytest.fixture
def pool():
    with ThreadPoolExecutor() as executor:
        yield executor


@pytest.fixture
def wired(make_rig):
    """A domain of two nodes with a network for each member."""
    if os.geteuid() != 0 or shutil.which("ip") is None:
        pytest.skip("needs root and iproute2, to make networks")
    with Wires(MEMBERS) as wires:
        rig = make_rig(2, life=QUICK, wires=wires, security=SecuritySettings(("n1", "n2")))
        rig.start()
        rig.until_up()
        yield rig, wires
        rig.close()


def ask(rig, node, what, *words):
    """Returns the answer to one request of a user."""
    with Client.connect(rig.paths.run_dir, node) as client:
        return getattr(client, what)(*words)


def check_ran_once(rig, number, job, *, may_be_lost):
    starts = starts_of(rig, number)
    assert job["state"] in (("done", "node lost") if may_be_lost else ("done",)), rig.logs()
    assert len(starts) <= 1, starts
    if job["state"] == "done":
        assert list(starts.values()) == [["0", "1"]]


def cut_at(rig, member, peer, number):
    """Runs a job while the link is cut at a message; returns whether there was one."""
    cut_once = partial(cut, peer, number, LONG_S)
    for name in MEMBERS:  # an agent gets a welcome for each time that it asked before
        rig.start(name, alter=cut_once if name == member else None)
    rig.until_up()
    job = rig.shell(f"{RAN}; sleep 0.1 # mark83", nodes=2, ppn=1, pmi="pmi1")
    with ThreadPoolExecutor() as users:
        waits = [users.submit(ask, rig, node, "wait", job) for node in ("n1", "n2")]
        ends = [each.result(WITHIN_S) for each in waits]
    was_cut = CUT in rig.log(member)
    assert ends[0] == ends[1]
    check_ran_once(rig, job, ends[0], may_be_lost=was_cut and CONTROLLER in (member, peer))
    rig.until_up()
    nothing_is_left(rig, "mark83")
    rig.close()
    return was_cut


@pytest.mark.parametrize(
    ("member", "peer"),
    [("n1", CONTROLLER), (CONTROLLER, "n2"), ("n1", "n2"), ("n2", "n1")],
)
def test_link_that_is_cut_at_any_message_to_a_member(make_rig, pool, member, peer):
    """Tests ask at n1, so only the link of n2 has a known number of answers."""
    cuts = [True]
    while all(cuts):
        rigs = [make_rig(2, life=QUICK) for _ in range(AT_ONCE)]
        numbers = range(len(cuts), len(cuts) + AT_ONCE)
        work = pool.map(cut_at, rigs, [member] * AT_ONCE, [peer] * AT_ONCE, numbers)
        cuts += work
        assert len(cuts) < MESSAGES_MOST
    assert cuts.index(False) > 1


def test_answer_that_is_under_way_when_its_node_is_lost_arrives(wired, pool):
    rig, wires = wired
    job = rig.submit("/bin/true", held=True)
    waits = pool.submit(ask, rig, "n1", "wait", job)
    wires.cut(CONTROLLER, "n1")
    asks = pool.submit(ask, rig, "n1", "queue", 10)
    with Client.connect(rig.paths.run_dir, "n2") as client:
        client.cancel(job)
        rig.until(lambda: client.nodes()[0]["state"] == "lost", "n1 is not lost")
    assert not waits.done()
    assert not asks.done()
    wires.mend(CONTROLLER, "n1")
    assert waits.result(WITHIN_S)["state"] == "cancelled"
    assert [each["job"] for each in asks.result(WITHIN_S)] == [job]


def test_job_waits_while_the_wire_between_its_nodes_is_cut(wired, pool):
    rig, wires = wired
    write = "for i in $(seq 200); do echo $i; sleep 0.01; done"
    script = f'if [ "$PMI_RANK" = 1 ]; then {write}; fi'
    job = rig.shell(script, nodes=2, ppn=1, pmi="pmi1", output="out")
    waits = pool.submit(ask, rig, "n2", "wait", job)
    rig.until(lambda: rig.output({"output": "out"}), "nothing is written")
    wires.cut("n1", "n2")
    assert not threading.Event().wait(2 * LONG_S)
    assert not waits.done()
    wires.mend("n1", "n2")
    assert waits.result(WITHIN_S)["state"] == "done"
    assert rig.output({"output": "out"}).split() == [str(n) for n in range(1, 201)]


def test_each_user_has_an_answer_while_wires_break(wired, pool):
    """Wires are cut at chance, some for longer than nodes may be silent."""
    rig, wires = wired
    chance, over = random.Random(42), threading.Event()
    pairs = [(CONTROLLER, "n1"), (CONTROLLER, "n2"), ("n1", "n2")]

    def use(node):
        found = []
        for _ in range(5):
            script = f"{RAN}; sleep 0.2 # mark82"
            job = rig.shell(script, by=node, nodes=2, ppn=1, pmi="pmi1")
            found.append((job, ask(rig, node, "wait", job)))
        return found

    users = [pool.submit(use, node) for node in ("n1", "n2")]
    while not all(user.done() for user in users):
        pair = chance.choice(pairs)
        wires.cut(*pair)
        over.wait(chance.choice([0.1, 0.5, 2.5]))
        wires.mend(*pair)
        over.wait(chance.random() * 2)
    for user in users:
        for number, job in user.result():
            check_ran_once(rig, number, job, may_be_lost=True)
    rig.until_up()
    nothing_is_left(rig, "mark82")


WAIT = """
import sys
from pathlib import Path
from cosched import Client
client = Client.connect(Path(sys.argv[1]), "n1")
print("waits", flush=True)
client.wait(int(sys.argv[2]))
"""


@pytest.fixture
def rig(make_rig):
    """A domain of one node, whose controller may be stopped."""
    rig = make_rig(1)
    rig.start()
    rig.until_up()
    yield rig
    rig.members[CONTROLLER].send_signal(signal.SIGCONT)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signal_ends_a_program_that_waits_without_answer(rig, number):
    job = rig.shell("sleep 81.2")
    rig.until_state(job, "running")
    rig.members[CONTROLLER].send_signal(signal.SIGSTOP)
    words = [sys.executable, "-c", WAIT, rig.paths.run_dir, str(job)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    with subprocess.Popen(words, **pipes) as process:
        assert process.stdout.readline() == b"waits\n"
        process.send_signal(number)
        assert process.wait(WITHIN_S) == -number


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_second_signal_ends_a_command_that_waits_without_answer(rig, number):
    """The first one cancels the job, but the controller does not answer."""
    controller = rig.members[CONTROLLER]
    script = "echo begins; sleep 81.3"
    words = ("submit", "--wait", "sh", "-c", script)
    with User(rig).start(*words, COSCHED_NODE="n1") as process:
        assert process.stdout.readline() == "begins\n"
        controller.send_signal(signal.SIGSTOP)
        process.send_signal(number)
        assert "is being cancelled" in process.stderr.readline()
        process.send_signal(number)
        assert process.wait(WITHIN_S) == 128 + number
