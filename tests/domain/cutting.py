"""Runs a member of a domain whose link to another member is cut for a while.

usage: cutting.py PEER NUMBER SECONDS MODULE ARGUMENTS. The cut begins with the NUMBERth new
message to PEER, which is lost. Nothing comes from PEER either. It adds a line to the
member's log.
"""

import runpy
import sys
import time

from cosched.cluster.links import Links

CUT = "the link is cut"


def main():
    peer, number, seconds, module = (
        sys.argv[1],
        int(sys.argv[2]),
        float(sys.argv[3]),
        sys.argv[4],
    )
    sys.argv[:] = sys.argv[4:]
    transmit, open_envelope = Links._transmit, Links._open
    sent, until_s = 0, 0.0

    def send(self, name, envelope):
        nonlocal sent, until_s
        if name == peer and envelope.number and not envelope.attempt:
            sent += 1
            if sent == number:
                until_s = time.monotonic() + seconds
                print(CUT, file=sys.stderr, flush=True)
        if name != peer or time.monotonic() >= until_s:
            transmit(self, name, envelope)

    def receive(self, sender, data):
        if sender == peer and time.monotonic() < until_s:
            return []
        return open_envelope(self, sender, data)

    Links._transmit, Links._open = send, receive
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
