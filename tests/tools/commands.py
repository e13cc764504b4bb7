"""Runs commands and daemons of ours in processes of their own, without a start of Python.

The process is a fork of this one, which has loaded what most commands need. It has its own
standard streams, arguments, directory and environment, and an exit status. Tests of the
start itself (``tests/unit/start``, ``tests/unit/cli/test_entry.py``) run the real programs.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import logging
import os
import select
import signal
import subprocess
import sys
import tempfile
import traceback
from multiprocessing import resource_tracker

#: A command that takes longer is killed by SIGALRM, before its test is over its limit.
LONGEST_S = 240
#: As many bytes fit into a pipe that no process reads yet.
GIVEN_MOST = 1 << 15


def run_command(
    *words, module="cosched.cli.main", cwd=None, env=None, given=None, text=True
):
    """Runs ``main()`` of a module; returns its status and output as subprocess.run does.

    env: the whole environment; None: that of this process. given: the bytes on its standard
    input, GIVEN_MOST at most, from a pipe; None: its input is /dev/null."""
    argv = [str(importlib.import_module(module).__file__), *map(str, words)]
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        reading = _open_with(given)
        pid = os.fork()
        if pid == 0:
            signal.alarm(LONGEST_S)
            streams = (reading, out.fileno(), err.fileno())
            _become(module, argv, streams, cwd=cwd, env=env)
        os.close(reading)
        _, status = os.waitpid(pid, 0)
        shown = []
        for file in (out, err):
            file.seek(0)
            shown.append(file.read().decode() if text else file.read())
    return subprocess.CompletedProcess(argv, os.waitstatus_to_exitcode(status), *shown)


def _open_with(given):
    """Returns a descriptor that reads these bytes."""
    if given is None:
        return os.open(os.devnull, os.O_RDONLY)
    assert len(given) <= GIVEN_MOST
    reading, writing = os.pipe()
    os.write(writing, given)
    os.close(writing)
    return reading


class Daemon:
    """A daemon in a fork of this process, with what subprocess.Popen has for it."""

    def __init__(self, module, *words, log, cwd, given=None, kept=(), alter=None):
        """log: a file for standard error. Standard output is a pipe. given: a descriptor
        that becomes standard input; None: /dev/null. kept: other descriptors that stay
        open. alter: called in the process before the daemon begins, to make it another
        one."""
        argv = [str(importlib.import_module(module).__file__), *map(str, words)]
        read, write = os.pipe()
        self.returncode = None
        self.pid = os.fork()
        if self.pid == 0:
            reading = _open_with(None) if given is None else given
            streams = (reading, write, log.fileno())
            _become(module, argv, streams, cwd=cwd, kept=kept, alter=alter)
        os.close(write)
        self.stdout = open(read, "rb")  # noqa: SIM115
        self._pidfd = os.pidfd_open(self.pid)

    def poll(self):
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.wait(0)
        return self.returncode

    def wait(self, timeout=None):
        if self.returncode is None:
            if not select.select([self._pidfd], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired(f"process {self.pid}", timeout)
            os.close(self._pidfd)
            self.returncode = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        return self.returncode

    def send_signal(self, number):
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self):
        self.send_signal(signal.SIGTERM)

    def kill(self):
        self.send_signal(signal.SIGKILL)


def _become(module, argv, streams, *, cwd=None, env=None, kept=(), alter=None):
    """Runs in the fork, which must not return."""
    status = 1
    try:
        gc.freeze()  # the pages of these objects stay shared
        signal.signal(signal.SIGALRM, signal.SIG_DFL)  # it fails a test that hangs
        # A handler of pytest would write into the file that gets its descriptor.
        logging.getLogger().handlers.clear()
        if cwd is not None:
            os.chdir(cwd)
        if env is not None:
            os.environ.clear()
            os.environ.update(env)
        sys.argv = argv
        sys.modules["__main__"] = sys.modules[module]  # processes of its own begin there
        _use_streams(*streams)
        _close_others(kept)
        if alter is not None:
            alter()
        sys.modules[module].main()
        status = 0
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else int(end.code is not None)
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
    except BaseException:  # noqa: BLE001  (a fork must not return)
        traceback.print_exc()
    finally:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        os._exit(status)


def _use_streams(given, out, err):
    for number, descriptor in enumerate((given, out, err)):
        os.dup2(descriptor, number)
    sys.stdin = sys.__stdin__ = open(0, closefd=False)  # noqa: SIM115
    sys.stdout = sys.__stdout__ = open(1, "w", closefd=False)  # noqa: SIM115
    sys.stderr = sys.__stderr__ = open(2, "w", closefd=False)  # noqa: SIM115


def _close_others(kept):
    """Closes all descriptors but the standard streams and those that are kept."""
    first = 3
    for number in sorted(kept):
        os.closerange(first, number)
        first = number + 1
    os.closerange(first, os.sysconf("SC_OPEN_MAX"))
    # Its pipe was closed with the others; a pool of processes starts another one.
    tracker = resource_tracker._resource_tracker
    tracker._fd = tracker._pid = None
