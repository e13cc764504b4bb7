"""Runs a launcher as without cosched-run, and ends every process of its job.

One loop waits in one place (``sigwaitinfo``): ends of children and signals to pass on
arrive in the same queue.

Terminal. The launcher stays in our process group, so job control, pipelines and password
prompts work as usual. A signal from a key (the kernel is the sender) has already reached
the launcher and is not passed on. Any other signal that would end this process is passed
on, so a ``kill`` of the whole group reaches the launcher twice.

End. This process is the subreaper of every descendant. After the launcher's end, remaining
processes have a moment to end; then they get SIGTERM and later SIGKILL. If a signal killed
the launcher, there is no such moment. A launcher that fails after an interrupt counts as
interrupted, with the status that a shell gives it. Every process is waited for, so
RUSAGE_CHILDREN includes its CPU time, unless it gets SIGKILL. If this process is killed,
the kernel sends the launcher ``death_signal``. A process that cannot be killed is left
after a while. A connection that ssh keeps for later commands of the user (ControlPersist)
is no part of the job: it is left at once.

Shared memory. A rank that is ended by a signal leaves the files of its MPI library in
/dev/shm. They are noted now and then, and before a signal is passed on. They are removed at
the end.
"""

from __future__ import annotations

import os
import re
import resource
import signal
import time
from collections.abc import Mapping, Sequence

from cosched.core.errors import CoschedError
from cosched.linux import proc
from cosched.linux.files.mpi_segments import (
    FIRST_LOOK_S,
    Files,
    mapped_files,
    remove_unused,
)
from cosched.linux.prctl import adopt_orphans, die_with_parent
from cosched.linux.processes.signals import send

#: How long ranks may take to end after their launcher.
RANKS_LINGER_S = 3.0
TERM_S = 2.0
KILL_S = 5.0
#: How many processes of a job are looked at for shared memory that they may leave.
RANKS_MOST = 4096

_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
#: Signals that are not passed on: those of a fault and of the terminal, those that Python
#: or processes by default ignore, and those that no process can handle.
_OWN = (
    *(signal.SIGILL, signal.SIGTRAP, signal.SIGBUS, signal.SIGFPE, signal.SIGSEGV),
    *(signal.SIGSYS, signal.SIGPIPE, signal.SIGXFSZ, signal.SIGTTIN, signal.SIGTTOU),
    *(signal.SIGURG, signal.SIGWINCH, signal.SIGCHLD, signal.SIGKILL, signal.SIGSTOP),
)
_KEYS = (signal.SIGINT, signal.SIGQUIT, signal.SIGTSTP)
_SI_KERNEL = 0x80
#: As a shell reports a command that Ctrl-C has ended.
_EXIT_INTERRUPTED = 128 + signal.SIGINT
#: The wait statuses of launchers that end because they were interrupted.
_FAILED = (1 << 8, 255 << 8)
#: The title of a process that keeps a connection of ssh.
_SSH_MASTER = r"ssh: .* \[mux\]"


def run_launcher(
    argv: Sequence[str],
    environ: Mapping[str, str],
    *,
    death_signal: signal.Signals = signal.SIGTERM,
) -> int:
    """Runs ``argv`` to its end and returns its wait status.

    CoschedError if it cannot be started. Call it once and last: the signals to pass on
    stay blocked afterwards, and this process goes on adopting orphans.
    """
    return _Run(argv, environ, death_signal).run()


def exit_like(status: int) -> int:
    """Returns the exit status for ``status``; ends by the same signal as the launcher."""
    if not os.WIFSIGNALED(status):
        return os.waitstatus_to_exitcode(status)
    number = os.WTERMSIG(status)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [number])
    os.kill(os.getpid(), number)
    return 128 + number


class _Run:
    def __init__(
        self,
        argv: Sequence[str],
        environ: Mapping[str, str],
        death_signal: signal.Signals,
    ) -> None:
        self._argv = list(argv)
        self._environ = dict(environ)
        self._death_signal = death_signal
        self._pid = 0
        self._status: int | None = None
        self._children_left = True
        self._interrupted = False
        self._segments: Files = {}  # shared memory of ranks that are about to end
        # The launcher also ignores the signals that this process ignores (nohup).
        self._waited = {
            number
            for number in signal.valid_signals().difference(_OWN)
            if signal.getsignal(number) is not signal.SIG_IGN
        } | {signal.SIGCHLD}

    def run(self) -> int:
        adopt_orphans()
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        old_mask = signal.pthread_sigmask(signal.SIG_BLOCK, self._waited)
        try:
            self._start(old_mask)
        except BaseException:
            signal.pthread_sigmask(signal.SIG_SETMASK, old_mask)
            raise
        status = self._wait_for_launcher()
        self._end_the_rest(killed=os.WIFSIGNALED(status))
        remove_unused(self._segments)
        if self._interrupted and status in _FAILED:
            return _EXIT_INTERRUPTED << 8
        return status

    def _start(self, mask: set[int | signal.Signals]) -> None:
        read_end, write_end = os.pipe()
        parent = os.getpid()
        self._pid = os.fork()
        if self._pid == 0:
            self._become_launcher(write_end, mask, parent)
        os.close(write_end)
        with os.fdopen(read_end, "rb") as pipe:
            failure = pipe.read()
        if failure:
            os.waitpid(self._pid, 0)
            reason = os.strerror(int(failure))
            raise CoschedError(f"{self._argv[0]}: cannot be started: {reason}")

    def _become_launcher(
        self, failure_pipe: int, mask: set[int | signal.Signals], parent: int
    ) -> None:
        """In the child. Never returns."""
        try:
            die_with_parent(self._death_signal, parent)
            # Python ignores two of them; its handler of SIGINT would run before the exec.
            for number in {signal.SIGPIPE, signal.SIGXFSZ, *self._waited}:
                signal.signal(number, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
            os.execvpe(self._argv[0], self._argv, self._environ)
        except OSError as error:
            os.write(failure_pipe, str(error.errno).encode())
        finally:
            os._exit(127)

    def _wait_for_launcher(self) -> int:
        began = time.monotonic()
        look_at = began + FIRST_LOOK_S
        while True:
            self._reap()
            if self._status is not None:
                return self._status
            left_s = max(0.0, look_at - time.monotonic())
            info = signal.sigtimedwait(self._waited, left_s)
            if info is None:
                self._note_segments()
                look_at = began + 2 * (time.monotonic() - began)
            elif info.si_signo != signal.SIGCHLD:
                self._forward(info)

    def _reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                self._children_left = False
                return
            if pid == 0:
                return
            if pid == self._pid:
                self._status = status

    def _forward(self, info: signal.struct_siginfo) -> None:
        number = info.si_signo
        self._interrupted |= number == signal.SIGINT
        if number in _ENDING:
            self._note_segments()
        if number not in _KEYS or info.si_code != _SI_KERNEL:
            send(self._pid, number)
        if number == signal.SIGTSTP:
            # Stops us here, as the default action does, until SIGCONT.
            os.kill(os.getpid(), signal.SIGTSTP)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTSTP])
            signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTSTP])

    def _end_the_rest(self, *, killed: bool) -> None:
        if self._gone_within(0.0 if killed else RANKS_LINGER_S):
            return
        self._note_segments()
        self._terminate_rest()
        if self._gone_within(TERM_S):
            return
        from cosched.linux.processes.descendants import kill_descendants

        kill_descendants(KILL_S, kept=_ssh_masters())

    def _note_segments(self) -> None:
        ranks = proc.started_by(os.getpid(), RANKS_MOST, lambda _: True)
        self._segments |= mapped_files(ranks)

    def _gone_within(self, seconds: float) -> bool:
        """Waits for the end of every child of the job. A signal that asks us to end ends
        the wait early."""
        deadline = time.monotonic() + seconds
        while True:
            self._reap()
            if not self._children_left or _only_ssh_masters_left():
                return True
            left = deadline - time.monotonic()
            if left <= 0:
                return False
            info = signal.sigtimedwait(self._waited, left)
            if info is not None and info.si_signo in _ENDING:
                return False

    def _terminate_rest(self) -> None:
        import psutil

        kept = _ssh_masters()
        for process in psutil.Process().children(recursive=True):
            if process.pid in kept:
                continue
            try:
                process.terminate()
            except psutil.Error:
                continue  # it ended, or we may not signal it


def _ssh_masters() -> set[int]:
    """Returns the children that keep a connection of ssh."""
    return {pid for pid in proc.children(os.getpid()) if _is_ssh_master(pid)}


def _only_ssh_masters_left() -> bool:
    masters = _ssh_masters()
    return bool(masters) and proc.children(os.getpid()) <= masters


def _is_ssh_master(pid: int) -> bool:
    title, _, _ = (proc.read_of(pid, "cmdline") or "").partition("\0")
    return re.fullmatch(_SSH_MASTER, title) is not None
