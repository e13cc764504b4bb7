"""Where a job's output goes: refused folders, and a home that takes no files."""

import errno
import os
from pathlib import Path

import pytest

from cosched.cli.domain.waiting import is_private, private_files
from cosched.core.errors import CoschedError
from cosched.jobs import preparing
from cosched.jobs.job import Job


def test_folder_that_cannot_be_written_is_refused_at_once(tmp_path, monkeypatch):
    """Root may write anywhere, so the answer of the kernel is played."""
    monkeypatch.setattr(preparing.os, "access", lambda path, mode: path.endswith("there"))
    job = Job(("true",), cwd=str(tmp_path))
    with pytest.raises(CoschedError, match="has no place for its output; name another"):
        preparing._check_output(job)
    (tmp_path / "there").touch()
    preparing._check_output(Job(("true",), cwd=str(tmp_path), output="there"))
    preparing._check_output(Job(("true",), cwd=str(tmp_path), output="/nowhere/here/out"))


def test_output_in_a_folder_that_is_closed_to_the_user(tmp_path, monkeypatch):
    closed = tmp_path / "closed"
    closed.mkdir()
    real = os.stat

    def stat(path, *more, **options):
        if str(path).startswith(f"{closed}/"):
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return real(path, *more, **options)

    monkeypatch.setattr(os, "stat", stat)
    monkeypatch.setattr(os, "access", lambda *_: False)
    with pytest.raises(CoschedError, match=f"^{closed}: cannot be written, so"):
        preparing._check_output(Job(("true",), output=f"{closed}/x"))


def test_output_that_is_no_file_of_the_user(tmp_path, monkeypatch):
    with pytest.raises(CoschedError, match=f"^{tmp_path}: is a directory, so the job has"):
        preparing._check_output(Job(("true",), output=str(tmp_path)))
    other = tmp_path / "other"
    other.touch()
    monkeypatch.setattr(os, "access", lambda path, _: path != str(other))
    with pytest.raises(CoschedError, match=f"^{other}: cannot be written, so the job"):
        preparing._check_output(Job(("true",), output=str(other)))


def test_home_that_takes_no_files_has_a_substitute(tmp_path, monkeypatch):
    blocked = tmp_path / "file"
    blocked.touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(blocked))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with private_files() as (output, error):
        folder = Path(output).parent
        assert folder.is_dir()
        assert folder.stat().st_mode & 0o077 == 0
        assert is_private(Path(output))
        assert is_private(Path(error))
    assert os.listdir(tmp_path) == ["file"]
