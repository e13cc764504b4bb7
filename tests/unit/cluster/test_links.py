"""Messages between two members over the loopback."""

from __future__ import annotations

import asyncio
import contextlib

from cosched.cluster.keys import load_keys, make_keys
from cosched.cluster.links import Links
from cosched.cluster.messages import Leave, UserReply
from cosched.linux.ports import free_address

WITHIN_S = 20.0


def test_message_that_is_too_long_is_dropped_and_later_ones_arrive(tmp_path):
    names = ("controller", "n1")
    addresses = {name: free_address() for name in names}
    make_keys(tmp_path, names)
    log = []

    async def talk():
        controller, agent = (
            Links(load_keys(tmp_path, name, names), addresses, log.append, 5000)
            for name in names
        )
        with contextlib.closing(controller), contextlib.closing(agent):
            agent.listen(addresses["n1"])
            came = asyncio.Queue()
            receiving = asyncio.ensure_future(
                agent.receive(lambda *each: came.put_nowait(each))
            )
            controller.send("n1", UserReply(1, bytes(6000)))
            controller.send("n1", UserReply(2, bytes(4000)))
            controller.send("n1", Leave())
            try:
                first, second = [await asyncio.wait_for(came.get(), WITHIN_S) for _ in "ab"]
            finally:
                receiving.cancel()
        assert first == ("controller", UserReply(2, bytes(4000)))
        assert second == ("controller", Leave())

    asyncio.run(talk())
    assert log == ["n1: UserReply of 6015 bytes is longer than 5000; not sent"]
