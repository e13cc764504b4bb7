"""Cuts the link of a member of a domain to another member for a while."""

import sys
import time

from cosched.cluster.links import Links

CUT = "the link is cut"


def cut(peer, number, seconds):
    """Cuts this member's link to ``peer``. The cut begins with the new message of this
    number, which is lost. Nothing comes from the peer either. The member's log gets a
    line."""
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
