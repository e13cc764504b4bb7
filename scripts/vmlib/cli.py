"""Reads the command line of ``scripts/vm``, and runs its machine."""

from __future__ import annotations

import argparse
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from . import image, machine, programs
from .contents import REPOSITORY, Python
from .errors import VmError

FAILED = 125
SOME_S = 600
ALL_S = 1800
SHELL_S = 86400

EPILOG = """\
examples:
  scripts/vm                               all tests that make sense inside
  scripts/vm --short                       the part for CI, about a minute
  scripts/vm -- pytest tests/vm -q         any command, in the working tree
  scripts/vm --out results -- pytest tests/vm --junitxml=/out/vm.xml
  scripts/vm --shell                       look around; "exit" ends it

The working tree, the virtual environment and its MPI have the same paths inside and
outside. --out DIR copies the files of /out to DIR at the end.

exit status: the command's; 125 if the machine could not be built or started, or
did not end by itself.
"""

# Paths of tests in the repository; a path that does not exist is left out.
SHORT = (
    "tests/vm/test_cgroup2.py",
    "tests/vm/test_cosched.py",
    "tests/live/test_classes_live.py",
)
ALL = ("tests/vm/test_*.py", "tests/live/test_*.py")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command in the machine; its exit status."""
    options = _parser().parse_args(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        return _run(options)
    except VmError as problem:
        print(f"scripts/vm: {problem}", file=sys.stderr)
        return FAILED
    except KeyboardInterrupt:
        return 128 + signal.SIGINT


def _run(options: argparse.Namespace) -> int:
    began = time.monotonic()
    machine.find_qemu()
    kernel = machine.find_kernel(options.kernel)
    python = Python.ask(options.python)
    base = image.base_image(python, kernel.name.removeprefix("vmlinuz-"))
    extra = [*programs.build(python), *options.include]
    command = _in_its_session(options)
    with image.image(base, python, command, extra) as initrd:
        size = initrd.tell()
        built = time.monotonic()
        status = machine.Machine(
            kernel=kernel,
            initrd=initrd,
            cpus=options.cpus,
            memory_mib=options.memory,
            timeout_s=options.timeout or _deadline_s(options),
            interactive=options.shell,
        ).run(_show, options.out)
    if options.verbose:
        print(
            f"scripts/vm: image {size / 1e6:.0f} MB in {built - began:.1f} s, "
            f"machine {time.monotonic() - built:.1f} s",
            file=sys.stderr,
        )
    return status


def _in_its_session(options: argparse.Namespace) -> list[str]:
    """Returns the command to run inside.

    Only a shell gets the console as its terminal: when the first process of a terminal's
    session ends, the kernel drops the output that is not sent yet.
    """
    if options.shell:
        return ["setsid", "-c", "bash"]
    return ["setsid", *(options.command or _tests(options.short))]


def _deadline_s(options: argparse.Namespace) -> float:
    if options.shell:
        return SHELL_S
    return SOME_S if options.short or options.command else ALL_S


def _tests(short: bool) -> list[str]:
    patterns = SHORT if short else ALL
    paths = [str(path) for pattern in patterns for path in sorted(REPOSITORY.glob(pattern))]
    # Hypothesis alone would take seconds to import, and no test in here needs it.
    plugins = ["-p", "no:cacheprovider", "-p", "no:hypothesispytest"]
    return ["pytest", *plugins, "-m", "vm or live", *paths]


def _show(text: bytes) -> None:
    sys.stdout.buffer.write(text)
    sys.stdout.buffer.flush()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="scripts/vm",
        usage="%(prog)s [OPTION...] [--short | --shell | -- COMMAND...]",
        description="Run a command in a small virtual machine with cgroup v2.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--short", action="store_true", help="the part for CI")
    what.add_argument("--shell", action="store_true", help="a shell, interactively")
    parser.add_argument(
        "--timeout",
        type=float,
        metavar="S",
        help=f"default: {SOME_S} s, for all tests {ALL_S} s",
    )
    parser.add_argument("--cpus", type=int, default=2, metavar="N", help="default: 2")
    parser.add_argument(
        "--memory",
        type=int,
        default=machine.MEMORY_MIB,
        metavar="MIB",
        help=f"default: {machine.MEMORY_MIB}",
    )
    parser.add_argument("--out", type=Path, metavar="DIR", help="where /out goes")
    parser.add_argument(
        "--include",
        type=Path,
        action="append",
        default=[],
        metavar="PATH",
        help="a further file or folder to bring in; may be repeated",
    )
    parser.add_argument(
        "--python",
        type=Path,
        default=_environment(),
        metavar="PATH",
        help="the interpreter of the environment to bring in; default: .venv's",
    )
    parser.add_argument(
        "--kernel", type=Path, metavar="PATH", help="default: the newest cloud kernel"
    )
    parser.add_argument(
        "-v", "--verbose", action="store_true", help="print how long it took"
    )
    parser.add_argument("command", nargs="*", help=argparse.SUPPRESS)
    return parser


def _environment() -> Path:
    """The repository's own environment, or the interpreter that runs this."""
    own = REPOSITORY / ".venv" / "bin" / "python"
    return own if own.exists() else Path(sys.executable)
