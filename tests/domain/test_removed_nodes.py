"""A node that was removed from domain.toml while the controller was away.

If its agent answers, it leaves after its jobs. If not, its jobs are lost, and the agent
ends with its tasks when it comes back.
"""

import signal
from dataclasses import replace

from cosched.core.names import CONTROLLER
from tests.domain.rig import QUICK

LINE = "the controller refused it: its node is not in [nodes] of the controller's"
SCRIPT = "trap 'touch asked' TERM; while ! test -e end; do sleep 0.1; done # removed"


def running_without_its_second_node(rig, *, away):
    """Returns a job of both nodes, after the second one was removed from the file."""
    rig.start()
    rig.until_up()
    number = rig.shell(SCRIPT, nodes=2)
    rig.until_state(number, "running")
    rig.until(lambda: len(rig.strays("# removed")) == 2, "no tasks")
    rig.kill(CONTROLLER)
    nodes = {"n1": rig.config.nodes["n1"]}
    rig.write_config(replace(rig.config, nodes=nodes))
    if away:
        rig.members["n2"].send_signal(signal.SIGSTOP)
    rig.start(CONTROLLER)
    return number


def test_removed_node_leaves_after_its_job(make_rig):
    rig = make_rig(2)
    number = running_without_its_second_node(rig, away=False)
    rig.until_up("n1")
    assert rig.state(number) == "running"
    (rig.work / "end").touch()
    assert rig.wait(number)["state"] == "done"
    assert rig.members["n2"].wait(20) == 0
    assert "its node was removed" in rig.log("n2").splitlines()[-1]
    assert rig.wait(rig.shell("true"))["state"] == "done"


def test_removed_node_that_comes_back_later_ends_its_tasks(make_rig):
    rig = make_rig(2, life=QUICK)
    number = running_without_its_second_node(rig, away=True)
    assert rig.wait(number)["state"] == "node lost"
    assert rig.strays("# removed")
    rig.until(lambda: "n2 was removed" in rig.log(CONTROLLER), "n2 is not removed")
    agent = rig.members["n2"]
    agent.send_signal(signal.SIGCONT)
    assert agent.wait(20) == 1
    assert (rig.work / "asked").exists()
    assert not rig.strays("# removed")
    assert LINE in rig.log("n2").splitlines()[-1]
    assert rig.log(CONTROLLER).count("n2: is not a member any more") == 1
    assert rig.wait(rig.shell("true"))["state"] == "done"
