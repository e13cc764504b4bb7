"""A node starts tasks of a job on other nodes only if it may vouch for the job's user."""

from unittest.mock import Mock

import pytest

from cosched.cluster.agent.nodejob import Designs, NodeJob
from cosched.cluster.agent.route import Route
from cosched.cluster.messages import Answered, Ask, Chunk
from cosched.core.cluster.startup.jobobject import JobObject, WorldObject, encode_object
from cosched.core.cluster.startup.questions import Command, Spawn
from cosched.core.cluster.startup.tree import Tree
from cosched.core.errors import CoschedError

HOSTS = ("n1", "n2")
SPAWN = Spawn((Command(("./child",), 1),), {})
WORLD = encode_object(WorldObject((1,), SPAWN))
JOB = JobObject(
    *("job", 0, 0, ("./app",), {}, "/", 0o22, (1, 1), "pmi1", "", False),
    *("/dev/null", "out", "", False, 1.0),
)


def job_at(place, *trusted):
    """Returns root's job on n1, its root, and n2; and the node, which sends its messages.
    trusted: the nodes that may vouch for root."""
    node = Mock(slots=4)
    node.open_object.return_value = JOB
    node.may_vouch = lambda member, uid, gid: member in trusted
    route = Route(1, 1, place, ((0, 1),), HOSTS, Tree(2, 2), "siblings", 0, "n1")
    job = NodeJob(route, node, Designs("pipeline", 1000, 60.0))
    job.take(route.parent, Chunk(1, 1, place, ((0, 1),), 2, "siblings", 0, 1, 0, b""))
    node.send.reset_mock()
    return job, node


def world(root, *hosts, place=0):
    numbers = tuple((int(host[1:]) - 1,) * 2 for host in hosts)
    return Route(1, 1, place, numbers, hosts, Tree(len(hosts), 2), "siblings", 1, root)


@pytest.mark.parametrize("asker", HOSTS)
@pytest.mark.parametrize("trusted", [(), ("n2",)])
def test_root_node_asks_for_itself_and_others_if_they_may_vouch(asker, trusted):
    job, node = job_at(0, *trusted)
    job.worlds.take(asker, Ask(1, 1, 7, SPAWN))
    ((to, sent),) = [call.args for call in node.send.call_args_list]
    if asker in ("n1", *trusted):
        assert isinstance(sent, Chunk)
    else:
        assert isinstance(sent, Answered)
        assert to == "n2"
        assert sent.answer.error.startswith(
            "n2 may start no tasks of user 0 on other nodes"
        )


def test_world_comes_from_a_node_that_may_vouch():
    job, _ = job_at(1, "n1")
    assert job.confirmed.object_of_world(world("n1", "n2"), WORLD).uid == 0
    job, _ = job_at(1)
    with pytest.raises(CoschedError, match="n1 may start no tasks of user 0"):
        job.confirmed.object_of_world(world("n1", "n2"), WORLD)


@pytest.mark.parametrize(
    "route",
    [world("n1", "n3", "n2", place=1), world("n1", "n2", "n3"), world("n3", "n2")],
    ids=["parent", "child", "root"],
)
def test_world_has_no_nodes_that_its_job_has_not(route):
    job, _ = job_at(1, "n1", "n2", "n3")
    with pytest.raises(CoschedError, match="is not a world of a job on this node"):
        job.confirmed.object_of_world(route, WORLD)
