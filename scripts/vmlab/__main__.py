"""Carries out ``scripts/vm-lab``, whose command line ``options`` reads."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence

from cosched.bench.run.interrupts import interruptible
from cosched.core.errors import CoschedError
from scripts.vmlab import lab, slurm
from scripts.vmlab.lab import VmLab
from scripts.vmlab.options import parser
from scripts.vmlab.package import make_package
from scripts.vmlab.plan import Shape
from scripts.vmlab.release import release_of
from scripts.vmlab.remote import ROOT, USER


def main(words: Sequence[str] | None = None) -> int:
    """Returns the command's exit status; 1 after one line if the lab has a fault."""
    options = parser().parse_args(words)
    try:
        return COMMANDS[options.does](options)
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


def _package(options: argparse.Namespace) -> int:
    release = release_of(options.release)
    print(make_package(options.cache, release, options.folder, _reporter()))
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


COMMANDS: Mapping[str, Callable[[argparse.Namespace], int]] = {
    "up": _up,
    "image": _image,
    "package": _package,
    "down": _down,
    "status": _status,
    "exec": _exec,
    "slurm": _slurm,
}


if __name__ == "__main__":
    sys.exit(main())
