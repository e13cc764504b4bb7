"""The machine boots, runs a command on the working tree, and says how it ended.

Runs outside: each test boots the machine, which takes a few seconds.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.places import ROOT

pytestmark = pytest.mark.vm

SCRIPT = ROOT / "scripts" / "vm"
DEADLINE_S = 120


def _vm(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(SCRIPT), *arguments],
        capture_output=True,
        text=True,
        timeout=DEADLINE_S + 60,
        check=False,
        env={**os.environ, **variables},
    )


@pytest.fixture
def bootable() -> None:
    """Skip where nothing can be booted."""
    if shutil.which("qemu-system-x86_64") is None:
        pytest.skip("no qemu-system-x86_64")
    if not list(Path("/boot").glob("vmlinuz-*-cloud-amd64")):
        pytest.skip("no /boot/vmlinuz-*-cloud-amd64")
    if shutil.which("busybox") is None:
        pytest.skip("no busybox")


@pytest.mark.usefixtures("bootable")
def test_vm_returns_output_status_and_files(tmp_path: Path) -> None:
    command = "echo kept >/out/file; seq 2000; exit 7"
    deadline = f"--timeout={DEADLINE_S}"
    done = _vm(deadline, f"--out={tmp_path}", "--", "sh", "-c", command)
    assert done.returncode == 7, done.stderr
    numbers = [str(number) for number in range(1, 2001)]
    assert done.stdout.splitlines() == [*numbers, "cosched-vm: status 7"]
    assert (tmp_path / "file").read_text() == "kept\n"


@pytest.mark.usefixtures("bootable")
def test_vm_kernel_divides_a_cpu() -> None:
    test = "tests/vm/test_cgroup2.py"
    done = _vm(f"--timeout={DEADLINE_S}", "--", "pytest", "-q", test)
    assert done.returncode == 0, done.stdout


@pytest.mark.usefixtures("bootable")
def test_vm_deadline_ends_machine() -> None:
    done = _vm("--timeout=1", "--", "sleep", "100")
    assert done.returncode == 125
    assert "not done after 1 s" in done.stderr


@pytest.mark.usefixtures("bootable")
def test_vm_too_little_memory_gives_one_line() -> None:
    done = _vm(f"--timeout={DEADLINE_S}", "--memory=640", "--", "true")
    assert done.returncode == 125
    assert "finds no room in 640 MiB; give the machine more" in done.stderr


def test_vm_missing_emulator_names_package() -> None:
    done = _vm("--", "true", PATH="/nowhere")
    assert done.returncode == 125
    assert done.stderr.count("\n") == 1
    assert "apt-get install qemu-system-x86" in done.stderr


def test_vm_missing_kernel_gives_one_line() -> None:
    if shutil.which("qemu-system-x86_64") is None:
        pytest.skip("no qemu-system-x86_64")
    done = _vm("--kernel=/nowhere/vmlinuz-1", "--", "true")
    assert done.returncode == 125
    assert done.stderr.count("\n") == 1
    assert "/nowhere/vmlinuz-1" in done.stderr
