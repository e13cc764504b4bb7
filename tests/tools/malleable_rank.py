"""Runs a program as a rank of a malleable job whose agents are played: finds the page of
the node that this rank stands on, and sets its variable.

    python malleable_rank.py FOLDER PROGRAM ARGUMENT...

FOLDER has the pages, and for each generation a file with the nodes of its ranks.
"""

import os
import runpy
import sys
from pathlib import Path

from cosched.core.decoding import parse_integer
from cosched.malleable.worlds import own_generation
from cosched.shm.boundaries import VARIABLE

RANKS = ("PMI_RANK", "PMIX_RANK")


def main():
    folder, program = Path(sys.argv[1]), sys.argv[2]
    rank = parse_integer(next(os.environ[n] for n in RANKS if n in os.environ), "", 0, 999)
    nodes = (folder / f"nodes-{own_generation()}").read_text().split()
    os.environ[VARIABLE] = str(folder / f"page-{nodes[rank]}")
    del sys.argv[:2]
    runpy.run_path(program, run_name="__main__")


if __name__ == "__main__":
    main()
