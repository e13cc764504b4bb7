"""The command line of ``scripts/vm-lab``."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from cosched.bench.run.interrupts import interruptible
from cosched.core.errors import CoschedError
from scripts.vmlab import lab, slurm
from scripts.vmlab.lab import VmLab
from scripts.vmlab.plan import Shape
from scripts.vmlab.release import RELEASES, release_of
from scripts.vmlab.remote import ROOT, USER

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


def main(words: Sequence[str] | None = None) -> int:
    """Returns the command's exit status; 1 after one line if the lab has a fault."""
    options = _parser().parse_args(words)
    try:
        return int(options.run(options))
    except CoschedError as error:
        print(f"scripts/vm-lab: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


def _reporter() -> Callable[[str], None]:
    began = time.monotonic()

    def report(line: str) -> None:
        print(f"{time.monotonic() - began:5.0f} s  {line}", file=sys.stderr)

    return report


def _image(options: argparse.Namespace) -> int:
    release = release_of(options.release)
    image, disk = lab.make_disks(options.cache, release, options.fresh, _reporter())
    print(f"{image.disk}\n{disk}")
    return 0


def _up(options: argparse.Namespace) -> int:
    shape = Shape(options.nodes, options.cpus, options.memory, options.release)
    with interruptible():
        made = lab.up(options.dir, options.cache, shape, options.fresh, _reporter())
    print(f"the lab is up: {', '.join(node.name for node in made.nodes)}")
    return 0


def _down(options: argparse.Namespace) -> int:
    if not lab.down(options.dir):
        print("no lab was up")
    return 0


def _status(options: argparse.Namespace) -> int:
    found = VmLab.load(options.dir)
    for node in found.nodes:
        shape = found.shape
        size = f"{shape.release}, {shape.cpus} CPU, {shape.memory_mib} MiB"
        place = f"{node.address}, ssh at 127.0.0.1:{node.port}"
        print(f"{node.name}: {place}, {size}, qemu {node.qemu.pid}")
    return 0


def _exec(options: argparse.Namespace) -> int:
    remote = VmLab.load(options.dir).remote(options.node)
    user = USER if options.user else ROOT
    tty = sys.stdin.isatty() and sys.stdout.isatty()
    argv = remote.argv(options.command, user, tty)
    sys.stdout.flush()
    os.execvp(argv[0], argv)


def _slurm(options: argparse.Namespace) -> int:
    slurm.up(VmLab.load(options.dir))
    print("slurm is up: partition shared")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="scripts/vm-lab",
        description="Boots a lab of virtual machines: nodes with a kernel each, systemd "
        "and cgroup v2.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--dir", type=Path, default=lab.DEFAULT, help=f"the lab's folder: {lab.DEFAULT}"
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    up = commands.add_parser("up", help="boot a lab")
    shape = Shape()
    up.add_argument("--nodes", type=int, default=shape.nodes, metavar="N")
    up.add_argument("--cpus", type=int, default=shape.cpus, metavar="N", help="of a node")
    up.add_argument(
        "--memory", type=int, default=shape.memory_mib, metavar="MIB", help="of a node"
    )
    up.set_defaults(run=_up)
    image = commands.add_parser("image", help="only make the disks that 'up' boots")
    image.set_defaults(run=_image)
    for command in (up, image):
        command.add_argument(
            "--release",
            default=shape.release,
            metavar="NAME",
            help=f"of Debian: {', '.join(RELEASES)} (default: {shape.release})",
        )
        command.add_argument(
            "--fresh", action="store_true", help="do not install cosched: sources only"
        )
        command.add_argument(
            "--cache", type=Path, default=default_cache(), help=argparse.SUPPRESS
        )
    commands.add_parser("down", help="end the lab").set_defaults(run=_down)
    commands.add_parser("status", help="show the nodes").set_defaults(run=_status)
    run = commands.add_parser("exec", help="run a command in a node, or a shell")
    run.add_argument("--user", action="store_true", help="as the ordinary user")
    run.add_argument("node")
    run.add_argument("command", nargs=argparse.REMAINDER)
    run.set_defaults(run=_exec)
    start = commands.add_parser("slurm", help="start Slurm on all nodes")
    start.set_defaults(run=_slurm)
    return parser


def default_cache() -> Path:
    """Returns the folder of the images."""
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home) / "cosched" / "vm-lab"


if __name__ == "__main__":
    sys.exit(main())
