"""Makes a member of a domain kill itself between two of its actions.

An action is a message that is sent, or a change that is stored. Messages that the member
has sent before may or may not leave, as when any process is killed.
"""

import os
import signal

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


def crash_before(action, counted):
    """Kills this process before its action of this number, counted from 1. counted: a file
    that gets the name of the action."""
    left = action

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
