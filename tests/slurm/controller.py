"""A controller that follows a script: prints the events of a Slurm engine, and carries out
the orders that come on stdin. Both are one JSON array a line."""

from __future__ import annotations

import asyncio
import json
import os
import pwd
import sys
from dataclasses import asdict
from pathlib import Path

from cosched.cluster.engines.slurm.steering import Names, SlurmSteering
from cosched.config.slurm import SlurmSettings


def log(line):
    print(line, file=sys.stderr, flush=True)


async def main():
    own, others, socket, settings = (json.loads(word) for word in sys.argv[1:])
    settings = SlurmSettings(**settings)
    users = {0, pwd.getpwnam(settings.user).pw_uid}
    engine = SlurmSteering(
        Names(own, others),
        settings,
        Path(socket),
        users,
        os.environ,
        log,
    )

    def report(event):
        print(json.dumps([type(event).__name__, asdict(event)]), flush=True)

    loop = asyncio.get_running_loop()
    orders = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(orders), sys.stdin)

    async def obey():
        while line := await orders.readline():
            order, *values = json.loads(line)
            getattr(engine, order)(*values)

    running = asyncio.ensure_future(engine.run(report))
    obeying = asyncio.ensure_future(obey())
    await asyncio.wait({running, obeying}, return_when=asyncio.FIRST_COMPLETED)
    running.cancel()
    if not obeying.done():
        await running


if __name__ == "__main__":
    asyncio.run(main())
