"""Boots qemu, shows the serial console, and returns the exit status of the command.

The machine has two serial ports: the console, and one on which the files that the
command left in /out come as a tar archive. It has no disk and no network. Without
KVM qemu translates every instruction and is ten times slower or more. Times measured
inside have no meaning; shares of time do.

Invariant: qemu never outlives this process, nor the deadline.
"""

from __future__ import annotations

import os
import re
import select
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from .errors import VmError

QEMU = "qemu-system-x86_64"
KERNELS = "vmlinuz-*-cloud-amd64"
STATUS = re.compile(rb"cosched-vm: status (\d+)\r?\n")
TAIL_LENGTH = 40  # more than either of the two texts
PATIENCE_S = 5
# The kernel unpacks the image, which grows with the environment, into half of it at most.
MEMORY_MIB = 1536
NO_ROOM = b"Initramfs unpacking failed: write error"

# loglevel: only what stops the machine. nowatchdog: on a busy host
# the kernel would take a CPU that had to wait for one that is stuck.
KERNEL_OPTIONS = (
    "console=ttyS0 loglevel=3 panic=-1 nowatchdog mitigations=off nokaslr "
    "tsc=reliable no_timer_check random.trust_cpu=on"
)


@dataclass(frozen=True)
class Machine:
    """Boots a machine."""

    kernel: Path  #: the image of the kernel
    initrd: IO[bytes]  #: the file system, in an open file
    cpus: int = 2  #: number of CPUs
    memory_mib: int = MEMORY_MIB  #: memory in MiB
    timeout_s: float = 600.0  #: seconds until the machine is ended
    interactive: bool = False  #: whether the terminal's input and signals go to the machine

    def run(self, show: Callable[[bytes], object], out: Path | None) -> int:
        """Boots, shows the console, fills ``out``; returns the command's exit status."""
        with tempfile.TemporaryDirectory(prefix="cosched-vm-") as folder:
            files = Path(folder, "out.tar")
            status = self._boot(self._command(files), show)
            if out is not None and files.exists() and files.stat().st_size:
                _unpack(files, out)
        return status

    def _command(self, files: Path) -> list[str]:
        accelerators = ["-accel", "tcg,thread=multi"]
        if has_kvm():
            accelerators = ["-accel", "kvm", "-cpu", "host"]
        signals = "off" if self.interactive else "on"
        return [
            *_dies_with_us(),
            *(find_qemu(), "-machine", "q35", *accelerators),
            *("-smp", str(self.cpus), "-m", str(self.memory_mib)),
            *("-nodefaults", "-no-reboot", "-display", "none"),
            *("-chardev", f"stdio,id=console,signal={signals}"),
            *("-serial", "chardev:console", "-serial", f"file:{files}"),
            *("-kernel", str(self.kernel), "-initrd", f"/dev/fd/{self.initrd.fileno()}"),
            *("-append", KERNEL_OPTIONS),
        ]

    def _boot(self, command: list[str], show: Callable[[bytes], object]) -> int:
        tail = b""
        no_room = False
        with subprocess.Popen(
            command,
            stdin=None if self.interactive else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            pass_fds=[self.initrd.fileno()],
        ) as qemu:
            try:
                for text in self._console(qemu):
                    show(text)
                    no_room = no_room or NO_ROOM in tail + text
                    tail = (tail + text)[-TAIL_LENGTH:]
            finally:
                _end(qemu)
        if no_room:
            raise VmError(
                f"the image finds no room in {self.memory_mib} MiB; give the machine "
                f"more: --memory {2 * self.memory_mib}"
            )
        found = STATUS.search(tail)
        if found is None:
            raise VmError("the machine stopped before the command had ended")
        return int(found.group(1))

    def _console(self, qemu: subprocess.Popen[bytes]) -> Iterator[bytes]:
        """Yields the output of the console until qemu ends or the deadline passes."""
        deadline = time.monotonic() + self.timeout_s
        if qemu.stdout is None:
            return
        console = qemu.stdout.fileno()
        while (left := deadline - time.monotonic()) > 0:
            if select.select([console], [], [], left)[0]:
                text = os.read(console, 1 << 16)
                if not text:
                    return
                yield text
        raise VmError(f"not done after {self.timeout_s:g} s, stopped; see --timeout")


def find_qemu() -> str:
    """The emulator's path."""
    path = shutil.which(QEMU)
    if path is None:
        raise VmError(f"no {QEMU} here: apt-get install qemu-system-x86")
    return path


def find_kernel(given: Path | None = None) -> Path:
    """The kernel asked for, or the newest of Debian's for virtual machines."""
    if given is not None:
        if not os.access(given, os.R_OK):
            raise VmError(f"cannot read the kernel {given}")
        return given
    kernels = sorted(Path("/boot").glob(KERNELS), key=lambda path: path.stat().st_mtime)
    if not kernels:
        raise VmError(f"no /boot/{KERNELS} here: apt-get install linux-image-cloud-amd64")
    return kernels[-1]


def has_kvm() -> bool:
    """Returns whether KVM works; some hosts have /dev/kvm on a CPU without support."""
    flags = Path("/proc/cpuinfo").read_text()
    able = re.search(r"^flags\b.*\b(vmx|svm)\b", flags, re.MULTILINE)
    return able is not None and os.access("/dev/kvm", os.R_OK | os.W_OK)


def _dies_with_us() -> list[str]:
    """Returns a command prefix that ends qemu even if this process is killed."""
    setpriv = shutil.which("setpriv")
    return [] if setpriv is None else [setpriv, "--pdeathsig", "KILL"]


def _end(qemu: subprocess.Popen[bytes]) -> None:
    """Ends qemu gently, so that it restores the terminal."""
    qemu.terminate()
    try:
        qemu.wait(PATIENCE_S)
    except subprocess.TimeoutExpired:
        qemu.kill()


def _unpack(files: Path, out: Path) -> None:
    out.mkdir(parents=True, exist_ok=True)
    try:
        with tarfile.open(files) as archive:
            archive.extractall(out, filter="data")
    except tarfile.TarError as problem:
        print(f"scripts/vm: files of the machine were lost: {problem}", file=sys.stderr)
