"""Runs a member of a domain whose messages are dropped, doubled and delayed.

usage: faulty.py SEED MODULE ARGUMENTS. It drops 4% of the envelopes, sends 2% twice and
delivers 4% late, after others. SIGUSR1 cuts its links for a while: it sends
nothing at all.
"""

import asyncio
import random
import runpy
import signal
import sys
import time

from cosched.cluster.links import Links

DROPPED, DOUBLED, LATE = 0.04, 0.02, 0.04
LATE_S = 0.2
CUT_S = 3.0


def main():
    chance, module = random.Random(int(sys.argv[1])), sys.argv[2]
    sys.argv[:] = [module, *sys.argv[3:]]
    transmit = Links._transmit
    cut_until_s = 0.0

    def cut(_number, _frame):
        nonlocal cut_until_s
        cut_until_s = time.monotonic() + chance.random() * CUT_S

    def badly(self, name, envelope):
        fate = chance.random()
        if fate < DROPPED or time.monotonic() < cut_until_s:
            return
        if fate < DROPPED + DOUBLED:
            transmit(self, name, envelope)
        if fate > 1 - LATE:
            delay = chance.random() * LATE_S
            asyncio.get_running_loop().call_later(delay, transmit, self, name, envelope)
            return
        transmit(self, name, envelope)

    Links._transmit = badly
    signal.signal(signal.SIGUSR1, cut)
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
