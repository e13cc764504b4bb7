"""The agent of a node that was removed from domain.toml ends the tasks there."""

import signal
from dataclasses import replace

import pytest

from cosched.core.names import CONTROLLER

LINE = "the controller refused it: its node is not in [nodes] of the controller's"


@pytest.mark.parametrize("away", [False, True], ids=["there", "away"])
def test_removed_node_ends_its_tasks_also_if_it_comes_back_later(make_rig, away):
    rig = make_rig(2)
    rig.start()
    rig.until_up()
    script = "trap 'touch asked' TERM; while :; do sleep 0.1; done # removed"
    number = rig.shell(script, nodes=2)
    rig.until_state(number, "running")
    rig.until(lambda: len(rig.strays("# removed")) == 2, "no tasks")
    agent = rig.members["n2"]
    rig.kill(CONTROLLER)
    nodes = {"n1": rig.config.nodes["n1"]}
    rig.write_config(replace(rig.config, nodes=nodes))
    if away:
        agent.send_signal(signal.SIGSTOP)
    rig.start(CONTROLLER)
    assert rig.members["n1"].wait(20) == 1  # it has other nodes in domain.toml
    rig.start("n1")
    rig.until_up("n1")
    job = rig.wait(number)
    assert job["state"] == "node lost"
    if away:
        assert rig.strays("# removed")
        agent.send_signal(signal.SIGCONT)
    assert agent.wait(20) == 1
    assert (rig.work / "asked").exists()
    assert not rig.strays("# removed")
    assert LINE in rig.log("n2").splitlines()[-1]
    assert rig.log(CONTROLLER).count("n2: is not a member any more") == 1
    assert rig.wait(rig.shell("true"))["state"] == "done"
