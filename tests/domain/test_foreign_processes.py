"""Jobs whose processes are hard to end: chains of forks, other users' processes, and tasks
that stop their steward."""

import os

import pytest

from cosched.config.queue import QueueSettings
from cosched.core.units import NS_PER_S
from tests.tools.chains import build_chains

#: Words for ``Rig.start``: a member that may not kill the processes of other users.
WEAK = (
    "-c",
    "import os, sys; weak = ['setpriv', '--bounding-set=-kill', '--inh-caps=-kill']; "
    "os.execvp(weak[0], [*weak, sys.executable, '-m', *sys.argv[1:]])",
)
LIVES_S = 60


@pytest.fixture
def start(make_rig):
    """Returns a function that starts a domain of one node."""

    def make(wrapper=()):
        queue = QueueSettings(grace_ns=NS_PER_S, jobs_per_node=2)
        rig = make_rig(1, queue=queue)
        rig.start("controller")
        rig.start("n1", wrapper=wrapper)
        rig.until_up()
        return rig

    return make


def test_chains_of_forks_end_with_their_job_and_the_node_goes_on(start):
    rig = start()
    chains = str(build_chains(rig.work))
    number = rig.submit(chains, str(LIVES_S), "200")
    assert rig.wait(number)["state"] == "done"
    rig.until(lambda: not rig.strays(chains), "a chain is left", LIVES_S / 3)
    assert rig.wait(rig.shell("true", ppn=4))["state"] == "done"


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to make another user's process")
def test_a_process_of_another_user_ends_neither_its_job_nor_the_node(start):
    rig = start(WEAK)
    pipe = rig.work / "pipe"
    os.mkfifo(pipe)
    writer = os.open(pipe, os.O_RDWR)
    try:
        other = f"setpriv --reuid 65534 --clear-groups cat <{pipe}"
        running = rig.shell("until [ -e over ]; do sleep 0.1; done; echo over")
        left = rig.wait(rig.shell(f"{other} & sleep 0.3; echo done"))
        assert (left["state"], left["status"], left["reason"]) == ("done", 0, "")
        (rig.work / "over").touch()
        assert rig.output(rig.wait(running)) == "over\n"
        assert "done" in rig.output(left)
    finally:
        os.close(writer)


def test_a_task_that_stops_its_steward_does_not_stop_its_job(start):
    rig = start()
    job = rig.wait(rig.shell("echo begun; kill -STOP $PPID; exit 3"))
    assert (job["state"], job["status"]) == ("failed", 3)
    assert job["reason"] == "rank 0 ended with status 3 on n1"
    assert rig.output(job) == "begun\n"


def test_a_task_that_a_real_time_signal_ends_has_its_output_and_reason(start):
    rig = start()
    job = rig.wait(rig.shell("echo hello; kill -40 $$"))
    assert (job["state"], job["status"]) == ("failed", 168)
    assert job["reason"] == "rank 0 was ended by SIGRTMIN+6 on n1"
    assert rig.output(job) == "hello\n"
