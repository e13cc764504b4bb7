"""Signals at every moment at which a folder of a bench is made or removed."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile

import pytest

from cosched.bench.run.interrupts import interruptible, temporary_folder


@pytest.fixture(autouse=True)
def temporary(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


@pytest.fixture(params=["before", "after"])
def signal_at(request, monkeypatch):
    """Makes a function of a module raise SIGTERM before or after its work."""

    def interrupt(module, name):
        function = getattr(module, name)

        def interrupted(*args, **kwargs):
            if request.param == "before":
                os.kill(os.getpid(), signal.SIGTERM)
            result = function(*args, **kwargs)
            if request.param == "after":
                os.kill(os.getpid(), signal.SIGTERM)
            return result

        monkeypatch.setattr(module, name, interrupted)

    return interrupt


def use():
    with interruptible(), temporary_folder() as folder:
        (folder / "file").write_text("text")
        (folder / "below").mkdir()


def test_folder_is_removed(temporary):
    use()
    assert os.listdir(temporary) == []


@pytest.mark.parametrize(
    ("module", "name"), [(tempfile, "mkdtemp"), (shutil, "rmtree"), (os, "unlink")]
)
def test_signal_leaves_no_folder(temporary, signal_at, module, name):
    signal_at(module, name)
    with pytest.raises(KeyboardInterrupt):
        use()
    assert os.listdir(temporary) == []


def test_failure_leaves_no_folder(temporary):
    with pytest.raises(ZeroDivisionError), temporary_folder():
        print(1 / 0)
    assert os.listdir(temporary) == []
