"""The part of a job on one node: its slots, its directory and its steward."""

import asyncio
import os
import socket
from unittest.mock import Mock

import pytest
from msgspec.structs import replace

from cosched.cluster.agent.frames import FrameReader, Prepare, receive_frame
from cosched.cluster.agent.node_parts import NodePart, NodeParts, read_parts
from cosched.cluster.agent.preparing import PageSpot, Stewards
from cosched.cluster.agent.route import Route
from cosched.cluster.paths import DomainPaths
from cosched.core.cluster.startup.jobobject import JobObject
from cosched.core.cluster.startup.tree import Tree
from cosched.core.errors import CoschedError
from tests.tools.deep import make_deep

__all__ = ["make_deep"]

SLOTS = 2
PARTS = NodeParts((NodePart((0,), (0,)), NodePart((1,), (1,))), "by count")
#: It needs all slots.
JOB = JobObject(
    *("job", os.getuid(), os.getgid(), ("./app",), {}, "/", 0o22, (SLOTS,), "none", ""),
    *(False, "/dev/null", "out", "", False, 1.0),
)


class Nursery:
    """Makes stewards that are sockets only, unless it fails."""

    def __init__(self):
        self.theirs = []
        self.removed = []
        self.fails = False

    def make(self, limit_s):
        if self.fails:
            raise CoschedError("no process")
        ours, theirs = socket.socketpair()
        self.theirs.append(theirs)
        return len(self.theirs), ours

    def write_topology(self, path):
        pass

    def remove_tree(self, path):
        if self.fails:
            raise CoschedError("no process")
        assert os.path.isdir(path)
        self.removed.append(path)


class Node:
    """A node with stewards, whose job can be started again and again."""

    def __init__(self, home):
        self.paths = DomainPaths(home)
        self.paths.node("n1").mkdir(parents=True)
        self.nursery = Nursery()
        self.tasks = []
        self.stewards = Stewards(
            "n1", self.paths, SLOTS, self.nursery, self.spawn, print, PARTS
        )

    def spawn(self, work):
        self.tasks.append(asyncio.create_task(work))

    def files(self):
        """Returns the names of the directories that no process removes."""
        found = set(self.paths.spool("n1").iterdir()) - set(self.nursery.removed)
        return [path.name for path in found]

    def start(self, start, on_end=print, job=JOB, world=0):
        route = Route(7, start, 0, ((0, 0),), ("n1",), Tree(1, 2), "siblings", world, "n1")
        return self.stewards.make(route, job, {}, print, on_end)

    async def cpus(self):
        """Returns the CPUs of each task of the newest steward."""
        theirs, reader = self.nursery.theirs[-1], FrameReader()
        receive = asyncio.get_running_loop().run_in_executor
        (frame,) = await receive(None, receive_frame, theirs, reader) or ()
        assert isinstance(frame, Prepare)
        return frame.cpus


def test_a_steward_that_ends_leaves_no_slots_taken_and_no_files(tmp_path):
    async def run():
        node = Node(tmp_path)
        for start in (1, 2):
            ended = asyncio.Event()
            node.start(start, ended.set)
            assert node.files() == [f"7.{start}.0"]
            node.nursery.theirs[-1].close()
            await asyncio.wait_for(ended.wait(), 5)
            assert node.files() == []

    asyncio.run(run())


def test_a_job_without_slots_is_refused(tmp_path):
    async def run():
        node = Node(tmp_path)
        steward = node.start(1)
        with pytest.raises(CoschedError):
            node.start(2)
        steward.close()
        node.nursery.theirs[-1].close()
        await asyncio.gather(*node.tasks)

    asyncio.run(run())


def test_a_steward_that_cannot_be_made_leaves_no_slots_taken_and_no_files(
    tmp_path, monkeypatch
):
    async def run():
        node = Node(tmp_path)
        with monkeypatch.context() as patch:
            no_process = Mock(side_effect=CoschedError("no process"))
            patch.setattr(node.nursery, "make", no_process)
            with pytest.raises(CoschedError, match="no process"):
                node.start(1)
        assert node.files() == []
        node.start(2)
        node.nursery.theirs[-1].close()
        await asyncio.gather(*node.tasks)

    asyncio.run(run())


def test_an_odd_error_takes_no_slots(tmp_path, monkeypatch):
    async def run():
        node = Node(tmp_path)
        with monkeypatch.context() as patch:
            patch.setattr(os, "chown", Mock(side_effect=OverflowError("uid")))
            patch.setattr(os, "geteuid", lambda: 0)
            with pytest.raises(OverflowError):
                node.start(1)
        node.start(2)
        node.nursery.theirs[-1].close()
        await asyncio.gather(*node.tasks)

    asyncio.run(run())


def test_steward_that_sends_garbage_ends_only_its_job(tmp_path):
    async def run():
        node = Node(tmp_path)
        ended = asyncio.Event()
        node.start(1, ended.set)
        node.nursery.theirs[-1].sendall(b"\0\0\0\1\xc1")
        await asyncio.wait_for(ended.wait(), 5)
        await asyncio.gather(*node.tasks)
        assert node.files() == []
        node.start(2)  # the node has its slots again
        assert node.files() == ["7.2.0"]
        node.nursery.theirs[-1].close()
        await asyncio.gather(*node.tasks)

    asyncio.run(run())


def test_files_of_an_earlier_life_are_removed(make_deep, tmp_path):
    paths = DomainPaths(tmp_path)
    left = paths.spool("n1").with_name("removed.0")
    left.mkdir(parents=True)
    make_deep(paths.spool("n1") / "7.1.0")
    nursery = Nursery()
    Stewards("n1", paths, SLOTS, nursery, print, print, NodeParts())
    assert not paths.spool("n1").exists()
    assert nursery.removed[0] == left
    assert (nursery.removed[1] / "7.1.0" / "d").exists()


@pytest.mark.parametrize("fails", [False, True])
def test_steward_ends_well_whatever_its_user_made_in_its_directory(
    make_deep, tmp_path, fails
):
    async def run():
        node = Node(tmp_path)
        ended = asyncio.Event()
        node.start(1, ended.set)
        make_deep(node.paths.spool("n1") / "7.1.0")
        node.nursery.fails = fails
        node.nursery.theirs[-1].close()
        await asyncio.gather(*node.tasks)
        assert ended.is_set()
        assert not (node.paths.spool("n1") / "7.1.0").exists()

    asyncio.run(run())


def test_page_leaves_whatever_its_user_made_beside_it(make_deep, tmp_path):
    node = Node(tmp_path)
    spot = PageSpot((7, 1), 0, os.getuid(), os.getgid())
    make_deep(node.stewards.path_of_page(spot).parent)
    node.stewards.drop_page(spot)
    assert node.files() == []
    node.stewards.drop_page(spot)
    assert len(node.nursery.removed) == 1


def on_half(part, tasks=1, **more):
    return replace(JOB, counts=(tasks,), parts=(part,), **more)


def test_jobs_on_the_halves_of_a_node_have_disjoint_cpus(tmp_path):
    async def run():
        node = Node(tmp_path)
        bottom = node.start(1, job=on_half(1))
        assert await node.cpus() == ((1,),)
        top = node.start(2, job=on_half(0, bind=True))
        assert await node.cpus() == ((0,),)
        with pytest.raises(CoschedError, match="needs 1 slots on this node, which has 0"):
            node.start(3, job=on_half(0))
        with pytest.raises(CoschedError, match="has no part of this node any more"):
            node.start(3, job=on_half(0), world=1)  # nothing is left of the start
        for steward in (bottom, top):
            steward.close()
        for theirs in node.nursery.theirs:
            theirs.close()
        await asyncio.gather(*node.tasks)
        node.start(4)  # all slots are free
        assert await node.cpus() == ()

    asyncio.run(run())


def test_spawned_world_stays_on_the_half_of_its_job(tmp_path):
    async def run():
        node = Node(tmp_path)
        node.start(1, job=on_half(1))
        node.start(1, job=on_half(1, tasks=3), world=2)
        assert await node.cpus() == ((1,),) * 3
        first, second = node.nursery.theirs
        first.close()  # the submitted tasks end, those of the world go on
        await node.tasks[0]
        node.start(1, job=on_half(0, tasks=1), world=3)
        assert await node.cpus() == ((1,),)
        second.close()
        node.nursery.theirs[-1].close()
        await asyncio.gather(*node.tasks)
        with pytest.raises(CoschedError, match="has no part of this node any more"):
            node.start(1, job=on_half(1), world=4)

    asyncio.run(run())


@pytest.mark.parametrize(
    ("job", "text"),
    [
        (on_half(2), "job 7: wants part 2 of a node with 2"),
        (replace(JOB, parts=(0, 1)), "job 7: its parts do not fit its nodes"),
        (on_half(0, tasks=2), "job .*: needs 2 slots on this node, which has 1 free"),
    ],
    ids=["part", "nodes", "tasks"],
)
def test_job_on_a_half_that_is_not_there_is_refused(tmp_path, job, text):
    async def run():
        node = Node(tmp_path)
        with pytest.raises(CoschedError, match=text):
            node.start(1, job=job)
        node.start(2)  # nothing is taken
        node.nursery.theirs[-1].close()
        await asyncio.gather(*node.tasks)

    asyncio.run(run())


def test_parts_describe_themselves():
    assert PARTS.text == "is divided into CPUs 0 and 1, by count"
    assert (PARTS.least_slots, NodeParts().least_slots) == (1, 0)
    assert read_parts(1, range(8), 8).why == ""
    with pytest.raises(CoschedError, match=r"too few CPUs \(1\) for 2 parts"):
        read_parts(2, (3,), 1)
