"""Runs a member of a domain that kills itself between two of its actions.

usage: crashing.py N MODULE ARGUMENTS. An action is a message that is sent, or a change that
is stored. The member dies before its N-th action. Messages that it has sent before may or
may not leave, as when a real process is killed.
"""

import os
import runpy
import signal
import sys
from pathlib import Path

from cosched.cluster import messages
from cosched.cluster.links import Links
from cosched.cluster.store import JobStore

#: Messages that come at their own times, which would make the count differ from run to run.
UNCOUNTED = (
    messages.Beat,
    messages.Hello,
    messages.HelloAgain,
    messages.Roster,
    messages.Welcome,
    messages.UserRequest,
    messages.UserReply,
)


def main():
    left, module = int(sys.argv[1]), sys.argv[2]
    sys.argv[:] = [module, *sys.argv[3:]]
    counted = Path(sys.argv[sys.argv.index("--run-dir") + 1]).parent / "counted"

    def count(what):
        nonlocal left
        left -= 1
        if left == 0:
            counted.write_text(what)
            os.kill(os.getpid(), signal.SIGKILL)

    send, save, add = Links.send, JobStore.save, JobStore.add

    def counted_send(self, to, message):
        if not isinstance(message, UNCOUNTED):
            count(f"send {type(message).__name__}")
        send(self, to, message)

    def counted_save(self, record):
        count(f"save {record.state.value}")
        save(self, record)

    def counted_add(self, token, record):
        count("add")
        return add(self, token, record)

    Links.send, JobStore.save, JobStore.add = counted_send, counted_save, counted_add
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
