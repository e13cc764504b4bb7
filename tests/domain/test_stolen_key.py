"""The thief of a node's key gets the rights of no user that the node may not vouch for."""

import asyncio
import grp
import json
import os
import pwd
from dataclasses import replace

import pytest

from cosched.cluster.messages import (
    PROTOCOL,
    Began,
    Chunk,
    End,
    Failure,
    GiveInput,
    Hello,
    InputTaken,
    NodeEnded,
    Order,
    StartFailed,
    SubtreeEnded,
    SubtreePrepared,
    TaskFailed,
    UserReply,
    UserRequest,
    Welcome,
)
from cosched.core.cluster.startup.jobobject import WorldObject, encode_object
from cosched.core.cluster.startup.questions import Command, Spawn
from cosched.core.names import CONTROLLER
from tests.domain.played import Played

pytestmark = [
    pytest.mark.mpi_job,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to be several users"),
]
#: A user of every Linux system, and a number that no user has.
USER = pwd.getpwnam("nobody")
NO_USER = max(user.pw_uid for user in pwd.getpwall()) + 1
#: A group that lets its members read files of the system.
SYSTEM_GROUP = grp.getgrnam("shadow").gr_gid
ELSEWHERE = "from node n1 are refused: send them on the controller's machine"


@pytest.fixture
def rig(open_folder, make_rig):
    """A domain of n1, whose key is stolen, and n2; n1 is on another host."""
    rig = make_rig(2, folder=open_folder)
    rig.work.chmod(0o777)
    elsewhere = rig.config.nodes["n1"].replace("127.0.0.1", "127.0.0.2")
    rig.config = replace(rig.config, nodes={**rig.config.nodes, "n1": elsewhere})
    rig.write_config(rig.config)
    rig.start(CONTROLLER, "n2")
    rig.until_up("n2")
    return rig


def submission(rig, number):
    job = {
        "token": f"stolen{number}",
        "name": "x",
        "argv": ["/bin/sh", "-c", f"touch ran.{number}; id -u; id -g; id -G"],
        "environ": rig.environ,
        "cwd": str(rig.work),
        "output": f"out.{number}",
    }
    return json.dumps({"do": "submit", "job": job}).encode()


async def ask(thief, rig, uid, gid, number, body=None):
    """Returns the controller's answer to the thief's request, by default for a job."""
    body = body or submission(rig, number)
    thief.send(CONTROLLER, UserRequest(number, uid, gid, body))
    reply = await thief.receive()
    assert isinstance(reply, UserReply)
    assert reply.number == number
    return json.loads(reply.body)


def play(rig, act):
    """Lets the thief act as n1. Returns what ``act`` returns."""

    async def run():
        async with Played(rig, "n1").listen() as thief:
            return await act(thief)

    return asyncio.run(run())


def ran(rig):
    return sorted(path.name for path in rig.work.glob("ran.*"))


def test_numbers_that_no_user_has_are_no_message(rig):
    odd = [(-1, USER.pw_gid), (2**32 - 1, USER.pw_gid), (USER.pw_uid, -1)]
    odd += [(USER.pw_uid, 2**32 - 1), (-5, -5), (2**40, 2**40), (2**63, 5), (5, 2**63)]

    async def act(thief):
        for number, (uid, gid) in enumerate(odd, 1):
            thief.send(CONTROLLER, UserRequest(number, uid, gid, submission(rig, number)))
        return await ask(thief, rig, USER.pw_uid, USER.pw_gid, 99)

    assert play(rig, act) == {"ok": {"job": 1}}  # none of the others became a job
    job = rig.wait(1)
    assert (job["state"], job["reason"]) == ("done", "")
    assert rig.output(job).split()[:2] == [str(USER.pw_uid), str(USER.pw_gid)]
    assert ran(rig) == ["ran.99"]
    lines = rig.log(CONTROLLER).splitlines()
    assert len([line for line in lines if "n1: a message is dropped: not a" in line]) == 1
    assert all(process.poll() is None for process in rig.members.values())


@pytest.mark.parametrize(
    ("uid", "gid", "whose"),
    [
        (0, 0, "root's requests"),
        (0, USER.pw_gid, "root's requests"),
        (USER.pw_uid, 0, "root's requests"),
        (999, USER.pw_gid, "requests of user 999"),
    ],
)
def test_root_and_users_of_the_system_are_refused(rig, uid, gid, whose):
    answer = play(rig, lambda thief: ask(thief, rig, uid, gid, 1))
    assert answer["error"].startswith(f"{whose} {ELSEWHERE}")
    with rig.client("n2") as client:
        assert client.queue(10) == []


@pytest.mark.parametrize(
    ("uid", "gid", "reason"),
    [
        (USER.pw_uid, SYSTEM_GROUP, f"user nobody ({USER.pw_uid}) is not in group"),
        (USER.pw_uid, NO_USER, f"user nobody ({USER.pw_uid}) is not in group"),
        (NO_USER, NO_USER, f"user {NO_USER} is not in the user database of this node"),
    ],
    ids=["system group", "other group", "unknown user"],
)
def test_node_refuses_what_its_user_database_does_not_have(rig, uid, gid, reason):
    answer = play(rig, lambda thief: ask(thief, rig, uid, gid, 1))
    job = rig.wait(answer["ok"]["job"])
    assert job["state"] == "failed"
    assert job["reason"].startswith(f"n2: {reason}")
    assert (job["starts"], ran(rig)) == (1, [])
    assert rig.wait(rig.shell("true"))["state"] == "done"


def test_input_of_root_is_taken_from_no_other_node(rig):
    number = rig.shell("cat > read", input="-")
    rig.until_state(number, "running")

    async def act(thief):
        for each, uid in enumerate((0, USER.pw_uid), 1):
            thief.send("n2", GiveInput(number, 1, each, uid, 0, b"forged", True))
            assert isinstance(answer := await thief.receive(), InputTaken)
            assert answer.problem.endswith("belongs to another user")

    play(rig, act)
    with rig.client("n2") as client:
        client.cancel(number)
    rig.wait(number)
    assert "forged" not in (rig.work / "read").read_text()


def test_no_world_joins_the_job_of_other_nodes(rig):
    number = rig.shell("touch began; sleep 93.3")
    rig.until((rig.work / "began").exists, "has not begun")
    program = Command(("/bin/sh", "-c", "touch forged"), 1)
    data = encode_object(WorldObject((1, 1), Spawn((program, program), {})))
    #: n1 calls itself the parent of n2 in a world of the job, whose root is n2.
    chunk = Chunk(number, 1, 1, ((0, 1),), 2, "siblings", 0, 1, 1, data, world=1)

    async def act(thief):
        thief.send("n2", chunk)
        thief.send("n2", Order(number, 1, go=True, world=1))
        return await thief.receive()

    answer = play(rig, act)
    assert isinstance(answer, StartFailed), answer
    assert "is not a world of a job on this node" in answer.reason
    assert rig.state(number) == "running"
    with rig.client("n2") as client:
        client.cancel(number)
    assert rig.wait(number)["state"] == "cancelled"
    assert not (rig.work / "forged").exists()


def test_thief_acts_for_ordinary_users(rig):
    with rig.client("n2") as client:
        client.drain(["n2"])  # the job waits

    async def act(thief):
        user = USER.pw_uid, USER.pw_gid
        number = (await ask(thief, rig, *user, 1))["ok"]["job"]
        cancel = json.dumps({"do": "cancel", "job": number}).encode()
        other = await ask(thief, rig, USER.pw_uid - 1, USER.pw_gid, 2, cancel)
        assert other["error"] == f"job {number}: belongs to another user"
        return number, await ask(thief, rig, *user, 3, cancel)

    number, cancelled = play(rig, act)
    assert cancelled == {"ok": {"job": number}}
    assert rig.wait(number)["state"] == "cancelled"


def test_thief_gets_the_jobs_of_its_node_and_reports_what_it_likes(rig):
    async def act(thief):
        hello = Hello(PROTOCOL, 5, rig.config.digest("n1"), {"slots": 4}, ())
        thief.send(CONTROLLER, hello)
        assert isinstance(await thief.receive(), Welcome)
        number = await asyncio.to_thread(
            lambda: rig.shell(
                "touch ran.1", nodes=2, ppn=1, environ={"WORD": "of the user"}
            )
        )
        chunk = await thief.receive()
        assert isinstance(chunk, Chunk)
        assert b"of the user" in chunk.data
        thief.send(CONTROLLER, SubtreePrepared(number, 1))
        assert isinstance(await thief.receive(), Order)
        thief.send(CONTROLLER, SubtreeEnded(number, 1, None))
        await thief.receive()
        return number

    job = rig.wait(play(rig, act))
    assert (job["state"], job["hosts"], ran(rig)) == ("done", ["n1", "n2"], [])


def test_messages_about_a_job_of_other_nodes_change_nothing(rig):
    number = rig.shell("touch began; sleep 93.4", input="-")
    rig.until((rig.work / "began").exists, "has not begun")
    start = number, 1
    failure = Failure(1, "forged")

    async def act(thief):
        for message in (
            Order(*start, go=False),
            End(*start, "forged", direct=False),
            End(*start, "forged", direct=True),
            TaskFailed(*start, failure),
            SubtreeEnded(*start, failure),
        ):
            thief.send("n2", message)
        thief.send("n2", GiveInput(*start, 1, 0, 0, b"", False))
        assert isinstance(await thief.receive(), InputTaken)  # so n2 has read them all
        for message in (
            Began(*start, 1),
            NodeEnded(*start),
            StartFailed(*start, 0, "forged", again=False),
            TaskFailed(*start, failure),
            SubtreeEnded(*start, failure),
        ):
            thief.send(CONTROLLER, message)
        return await ask(thief, rig, USER.pw_uid, USER.pw_gid, 1, b'{"do": "queue"}')

    (job,) = play(rig, act)["ok"]
    assert job["state"] == "running"
    assert job["started_ns"] > 1
    assert rig.strays("sleep 93.4")
    with rig.client("n2") as client:
        client.cancel(number)
    assert rig.wait(number)["state"] == "cancelled"
