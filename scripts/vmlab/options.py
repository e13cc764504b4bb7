"""Reads the command line of ``scripts/vm-lab``, with the standard library alone.

So its help and its errors need none of the packages that the lab needs.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from scripts.vmlab.plan import Shape
from scripts.vmlab.release import RELEASES

#: The lab's folder.
DEFAULT = Path("/run/cosched-vm-lab")

EPILOG = """\
examples:
  scripts/vm-lab up                         three nodes n1, n2, n3
  scripts/vm-lab up --nodes 2 --cpus 2 --fresh
  scripts/vm-lab up --release trixie        Debian 13 in place of Debian 12
  scripts/vm-lab exec n1 uname -a
  scripts/vm-lab exec --user n2 sh -c 'echo $HOME; id -un'
  scripts/vm-lab exec n1                    a shell
  scripts/vm-lab slurm                      Slurm on all nodes; scripts/slurm-lab up --vm
  scripts/vm-lab status
  scripts/vm-lab down

The first start makes an image from Debian's packages (some 2 minutes, 3 GB a release below
~/.cache/cosched). /home is one folder of the host, the same in all nodes. Nothing else
that a node writes is kept.
"""


def parser() -> argparse.ArgumentParser:
    """Returns the command line. The options have the name of the command as ``does``."""
    made = argparse.ArgumentParser(
        prog="scripts/vm-lab",
        description="Boots a lab of virtual machines: nodes with a kernel each, systemd "
        "and cgroup v2.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    made.add_argument(
        "--dir", type=Path, default=DEFAULT, help=f"the lab's folder: {DEFAULT}"
    )
    commands = made.add_subparsers(required=True, dest="does", metavar="COMMAND")
    up = commands.add_parser("up", help="boot a lab")
    shape = Shape()
    up.add_argument("--nodes", type=int, default=shape.nodes, metavar="N")
    up.add_argument("--cpus", type=int, default=shape.cpus, metavar="N", help="of a node")
    up.add_argument(
        "--memory", type=int, default=shape.memory_mib, metavar="MIB", help="of a node"
    )
    image = commands.add_parser("image", help="only make the disks that 'up' boots")
    package = commands.add_parser(
        "package", help="make the Debian package in the image of its release"
    )
    package.add_argument("folder", type=Path, help="for the package")
    for command in (up, image):
        command.add_argument(
            "--fresh", action="store_true", help="do not install cosched: sources only"
        )
    for command in (up, image, package):
        command.add_argument(
            "--release",
            default=shape.release,
            metavar="NAME",
            help=f"of Debian: {', '.join(RELEASES)} (default: {shape.release})",
        )
        command.add_argument(
            "--cache", type=Path, default=default_cache(), help=argparse.SUPPRESS
        )
    commands.add_parser("down", help="end the lab")
    commands.add_parser("status", help="show the nodes")
    run = commands.add_parser("exec", help="run a command in a node, or a shell")
    run.add_argument("--user", action="store_true", help="as the ordinary user")
    run.add_argument("node")
    run.add_argument("command", nargs=argparse.REMAINDER)
    commands.add_parser("slurm", help="start Slurm on all nodes")
    return made


def default_cache() -> Path:
    """Returns the folder of the images."""
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home) / "cosched" / "vm-lab"


if __name__ == "__main__":
    parser().parse_args()
