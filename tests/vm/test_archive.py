"""The writer of initramfs archives, against cpio's own reading of them."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.places import ROOT

sys.path.append(str(ROOT / "scripts"))
from vmlib.archive import Archive


@pytest.fixture
def host(tmp_path: Path) -> Path:
    """A tree with a link to a folder, a link to a file, and a link to nothing."""
    top = tmp_path / "host"
    (top / "usr/bin").mkdir(parents=True)
    (top / "usr/bin/tool-1").write_text("#!/bin/sh\n")
    (top / "usr/bin/tool-1").chmod(0o755)
    (top / "usr/bin/tool").symlink_to("tool-1")
    (top / "usr/bin/lost").symlink_to("nowhere")
    (top / "bin").symlink_to("usr/bin")
    return top


def _unpacked(archive: Archive, where: Path) -> Path:
    cpio = shutil.which("cpio")
    if cpio is None:
        pytest.skip("no cpio to read the archive with")
    file = where / "archive"
    with file.open("wb") as out:
        archive.write(out)
    inside = where / "inside"
    inside.mkdir()
    command = [cpio, "-idm", "--quiet", "--no-absolute-filenames"]
    with file.open("rb") as data:
        subprocess.run(command, stdin=data, cwd=inside, check=True, timeout=60)
    return inside


def test_archive_keeps_links_in_parents(host: Path, tmp_path: Path) -> None:
    archive = Archive()
    archive.mirror(host / "bin" / "tool")
    inside = _unpacked(archive, tmp_path) / str(host).lstrip("/")
    assert (inside / "bin").readlink() == Path("usr/bin")
    assert (inside / "usr/bin/tool").readlink() == Path("tool-1")
    assert (inside / "bin/tool").read_text() == "#!/bin/sh\n"
    assert (inside / "bin/tool").stat().st_mode & 0o777 == 0o755


def test_archive_keeps_file_times(host: Path, tmp_path: Path) -> None:
    tool = host / "usr/bin/tool-1"
    archive = Archive()
    archive.mirror(tool)
    inside = _unpacked(archive, tmp_path) / str(tool).lstrip("/")
    assert int(inside.stat().st_mtime) == int(tool.stat().st_mtime)


def test_archive_adds_parents_of_files(tmp_path: Path) -> None:
    archive = Archive()
    archive.text("etc/deep/hosts", "127.0.0.1 localhost\n")
    archive.link("etc/deep/link", "hosts")
    inside = _unpacked(archive, tmp_path)
    assert (inside / "etc/deep/link").read_text() == "127.0.0.1 localhost\n"


def test_archive_tree_takes_only_kept_files(host: Path, tmp_path: Path) -> None:
    archive = Archive()
    archive.mirror_tree(host, lambda path: path.name != "lost")
    inside = _unpacked(archive, tmp_path) / str(host).lstrip("/")
    names = sorted(path.name for path in (inside / "usr/bin").iterdir())
    assert names == ["tool", "tool-1"]


def test_fingerprint_ignores_byte_code(tmp_path: Path) -> None:
    source = tmp_path / "module.py"
    source.write_text("a = 1\n")

    def fingerprint() -> str:
        archive = Archive()
        archive.mirror_tree(tmp_path, lambda _: True)
        return archive.fingerprint()

    first = fingerprint()
    (tmp_path / "__pycache__").mkdir()
    (tmp_path / "__pycache__" / "module.cpython-311.pyc").write_bytes(b"code")
    assert fingerprint() == first
    source.write_text("a = 1000\n")
    assert fingerprint() != first
