"""The lock of a daemon on a full disk."""

from __future__ import annotations

import errno
import os

import pytest

from cosched.core.errors import CoschedError
from cosched.rundir.lock import DaemonLock, is_held


def test_lock_that_cannot_be_written_leaves_no_file(tmp_path, monkeypatch):
    """Only a killed daemon leaves its file."""
    path, open_before = tmp_path / "lock", os.listdir("/proc/self/fd")

    def full(_fd, _text, _offset):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", full)
        lock = DaemonLock(path)
        with pytest.raises(CoschedError, match=f"^{path}: No space left on device$"):
            lock.acquire()
    assert not path.exists()
    assert os.listdir("/proc/self/fd") == open_before
    assert lock.acquire()
    assert is_held(path)
    lock.release()
