"""A node with a key of the domain cannot make other nodes run what it wants."""

import asyncio

from cosched.cluster.keys import load_keys
from cosched.cluster.links import Links
from cosched.cluster.messages import Chunk, Order
from cosched.core.cluster.startup.seal import Tied, seal
from tests.domain.played import object_of

NODES = ((0, 1),)


async def send(rig, sender, to, messages):
    keys = load_keys(rig.paths.keys, sender, rig.config.members)
    links = Links(keys, rig.config.addresses, print)
    links.listen(rig.config.nodes[sender])
    try:
        for message in messages:
            links.send(to, message)
            await asyncio.sleep(1)  # the tasks wait at their gate
    finally:
        links.close()


def test_forged_job_object_starts_nothing(make_rig):
    rig = make_rig(2)
    rig.start("controller", "n2")
    rig.until_up("n2")
    data = object_of(rig, 99, (1, 1), "/bin/sh", "-c", "touch forged")
    guessed = seal(data, Tied(99, 1, NODES, 2, "siblings"), [b"guess"] * 2)
    for number, whole in ((98, data), (99, guessed)):
        # n1's key is in the wrong hands: it claims to be the root of a job with n2.
        chunk = Chunk(number, 1, 1, NODES, 2, "siblings", 0, 1, 0, whole)
        messages = [chunk, Order(number, 1, go=True)]
        asyncio.run(send(rig, "n1", "n2", messages))
    assert rig.wait(rig.shell("true"))["state"] == "done"
    assert not (rig.work / "forged").exists()
    assert not rig.strays("touch forged")
