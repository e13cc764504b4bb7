"""The warning of a full /dev/shm."""

from __future__ import annotations

import os
from types import SimpleNamespace

from cosched.launch import shm_room


def test_full_folder_is_one_line(monkeypatch):
    free = SimpleNamespace(f_bavail=16, f_frsize=4096)
    monkeypatch.setattr(os, "statvfs", lambda _: free)
    assert shm_room.shm_text() == (
        "/dev/shm: 64.0 KiB are free, so a bus error may end the ranks; remove files of "
        "dead jobs there"
    )
    free.f_bavail = shm_room.LEAST_BYTES // free.f_frsize
    assert shm_room.shm_text() == ""


def test_folder_that_cannot_be_asked_is_no_warning(tmp_path):
    assert shm_room.shm_text(tmp_path / "absent") == ""
