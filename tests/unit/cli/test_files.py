"""Files that commands are asked for, and the check before long work."""

import os
from pathlib import Path

import pytest

from cosched.cli.files import check_writable
from cosched.core.errors import CoschedError


def test_only_a_new_file_needs_a_folder_that_takes_it(tmp_path, monkeypatch):
    """Root may write anywhere, so the answer of the kernel is played."""
    (tmp_path / "there").touch()
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    check_writable(None, Path("-"), Path("/dev/null"), tmp_path / "there")
    with pytest.raises(CoschedError, match="new: its folder cannot be written to"):
        check_writable(tmp_path / "new")


def test_folder_of_a_link_is_the_one_of_its_file(tmp_path):
    (tmp_path / "link").symlink_to("absent/file")
    with pytest.raises(CoschedError, match="link: its folder cannot be written to"):
        check_writable(tmp_path / "link")
