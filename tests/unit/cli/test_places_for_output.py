"""Where a job's output goes: refused folders, and a home that takes no files."""

import os
from pathlib import Path

import pytest

from cosched.cli.domain.waiting import is_private, private_files
from cosched.core.errors import CoschedError
from cosched.jobs import client
from cosched.jobs.job import Job


def test_folder_that_cannot_be_written_is_refused_at_once(tmp_path, monkeypatch):
    """Root may write anywhere, so the answer of the kernel is played."""
    monkeypatch.setattr(client.os, "access", lambda path, mode: False)
    job = Job(("true",), cwd=str(tmp_path))
    with pytest.raises(CoschedError, match="has no place for its output; name another"):
        client._check_output(job)
    (tmp_path / "there").touch()
    client._check_output(Job(("true",), cwd=str(tmp_path), output="there"))
    client._check_output(Job(("true",), cwd=str(tmp_path), output="/nowhere/here/out"))


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
