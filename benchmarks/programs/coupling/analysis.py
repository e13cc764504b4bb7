"""Takes the pictures of simulation.py while it runs, and prints one line about each.

usage: analysis.py ADDRESS PORT, both of this node
"""

from __future__ import annotations

import json
import socket
import sys
import time


def main() -> None:
    """Waits for the simulation, and reads until it closes the connection."""
    began = time.time()
    with socket.create_server((sys.argv[1], int(sys.argv[2]))) as server:
        connection, _ = server.accept()
    print(f"analysis began at {began:.3f}")
    with connection, connection.makefile() as lines:
        for line in lines:
            picture = json.loads(line)
            rod = picture["rod"]
            warm = sum(cell > 1.0 for cell in rod)
            print(f"step {picture['step']}: {warm} of {len(rod)} cells are warm")


main()
