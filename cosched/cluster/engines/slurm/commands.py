"""Runs Slurm's commands beside the event loop, each with a time limit."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import signal
import subprocess
import threading
import time
from calendar import timegm
from collections.abc import Mapping, Sequence
from weakref import WeakValueDictionary

from cosched.cluster.engines.slurm.jobs import (
    SlurmJob,
    moved_line,
    own_nice,
    read_jobs,
    shown_nice,
)
from cosched.cluster.engines.slurm.sinfo_text import COLUMNS
from cosched.cluster.engines.slurm.try_options import options
from cosched.cluster.slurm.user_commands import CONF, without_slurm
from cosched.core.decoding import shown_text
from cosched.core.errors import CoschedError
from cosched.linux.processes.signals import send_to_child

#: Commands that run at a time.
AT_ONCE = 4
#: Characters of a comment or message that scontrol gets.
LONGEST_LINE = 1000
_EXPECTED = r"to start at (\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)"
_WORDS = r"[^\w '.,:;@=/+\[\]-]"


class SlurmCommands:
    """The commands of one cluster. environ: their environment; conf: its ``slurm.conf``;
    limit_s: after this time a command is ended, and counts as failed."""

    def __init__(self, environ: Mapping[str, str], conf: str, limit_s: float) -> None:
        chosen = {CONF: conf} if conf else {}
        kept = without_slurm(environ)
        self._environ = {**kept, **chosen, "TZ": "UTC", "LC_ALL": "C"}
        self._limit_s = limit_s
        self._free = asyncio.Semaphore(AT_ONCE)
        self._turns: WeakValueDictionary[int, asyncio.Lock] = WeakValueDictionary()

    async def jobs(self) -> list[SlurmJob]:
        """Returns the jobs that Slurm knows, with those that have just ended."""
        # Slurm 22.05 prints all states as JSON; later versions only of jobs that go on.
        words = ("squeue", "--states=all", "--json")
        text = await self._run(*words)
        try:
            return await asyncio.to_thread(read_jobs, text)  # a large site has many
        except CoschedError as error:
            raise CommandFailed(words, str(error)) from None

    async def nodes(self) -> str:
        """Returns what sinfo prints of each node; ``nodes`` reads it."""
        words = ("sinfo", "--all", "--noheader", "--Node", f"--format={COLUMNS}")
        return shown_text(await self._run(*words))

    async def config(self) -> dict[str, str]:
        """Returns the configuration of the running slurmctld."""
        text = shown_text(await self._run("scontrol", "show", "config"))
        pairs = (line.partition("=") for line in text.splitlines() if " = " in line)
        return {key.strip(): value.strip() for key, _, value in pairs}

    async def may_start(self, job: int, wait_s: float) -> None:
        """Delays a queued job: it gets nodes after ``wait_s`` at the earliest."""
        when = f"now+{round(wait_s)}" if wait_s >= 0.5 else "now"
        await self._update(job, f"StartTime={when}")

    async def expected_in(self, job: SlurmJob) -> float:
        """Returns in how many seconds a new job like this one would start, after those that
        run or wait. Raises CommandFailed if it never could."""
        words = options(job)
        if os.geteuid() == 0:
            words.append(f"--uid={job.user_id}")
        tested = ("sbatch", "--test-only", *words, "--wrap=:")
        said = shown_text(await self._run(*tested))
        found = re.search(_EXPECTED, said)
        if found is None:
            raise CommandFailed(tested, said.strip())
        at = timegm(time.strptime(found[1], "%Y-%m-%dT%H:%M:%S"))
        return max(0.0, at - time.time())

    async def hold(self, job: SlurmJob, reason: str) -> None:
        """Holds a queued job, so that its user can release it; then the reason stands in
        its AdminComment. The job gets the nice value of its user first: with priority/basic
        a change of it would release a held job."""
        if back := _nice_back(job):
            await self._update(job.job_id, *back)
        await self._run("scontrol", "uhold", str(job.job_id))
        await self._update(job.job_id, f"AdminComment={_one_line(reason)}")

    async def cancel(self, job: SlurmJob, reason: str) -> None:
        """Cancels a job. srun and salloc print the reason; it also stands in the job's
        AdminComment."""
        for show in (self.comment, self.notify):  # a batch job that waits prints nothing
            with contextlib.suppress(CommandFailed):
                await show(job, reason)
        await self._run("scancel", str(job.job_id))

    async def notify(self, job: SlurmJob, line: str) -> None:
        """Prints a line at the user's srun or salloc."""
        await self._run("scontrol", "notify", str(job.job_id), _one_line(line))

    async def comment(self, job: SlurmJob, line: str) -> None:
        """Sets the AdminComment of a job, which its user can read. A job that was moved
        gets the nice value of its user back, since the line about that is gone."""
        await self._update(job.job_id, *_nice_back(job), f"AdminComment={_one_line(line)}")

    async def move(self, job: SlurmJob, places: int) -> None:
        """Moves a queued job forward from where its user put it, by its nice value. Its
        AdminComment shows that."""
        own = own_nice(job)
        line = moved_line(own, own - places)
        await self._update(job.job_id, f"Nice={own - places}", f"AdminComment={line}")

    async def _update(self, job: int, *changes: str) -> None:
        """Changes a job. The changes of a job reach Slurm in the order of the calls."""
        turn = self._turns.setdefault(job, asyncio.Lock())
        async with turn:
            await self._run("scontrol", "update", f"JobId={job}", *changes)

    async def _run(self, *words: str) -> bytes:
        """Returns what a command prints. Raises CommandFailed."""
        async with self._free:
            command = _Command(words, self._environ)
            try:
                ended = await asyncio.to_thread(command.run, self._limit_s)
            except asyncio.CancelledError:
                command.kill()
                raise
        if ended is None:
            raise CommandFailed(words, f"no answer in {self._limit_s:g} s")
        if ended.returncode != 0:
            lines = shown_text(ended.stderr).strip().splitlines()
            raise CommandFailed(words, lines[-1] if lines else str(ended.returncode))
        return ended.stdout if words[0] != "sbatch" else ended.stdout + ended.stderr


class _Command:
    """A command in a thread. A process of asyncio would not do: if its start is cancelled
    before its pipes are there, asyncio waits for ever."""

    def __init__(self, words: Sequence[str], environ: Mapping[str, str]) -> None:
        self._words = words
        self._environ = environ
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._killed = False

    def run(self, limit_s: float) -> subprocess.CompletedProcess[bytes] | None:
        """Runs the command; None if it has not ended in time, or was killed before."""
        with self._lock:
            if self._killed:
                return None
            process = self._process = self._start()
        try:
            out, complaint = process.communicate(timeout=limit_s)
        except subprocess.TimeoutExpired:
            send_to_child(process, signal.SIGKILL)
            process.communicate()
            return None
        return subprocess.CompletedProcess(self._words, process.returncode, out, complaint)

    def _start(self) -> subprocess.Popen[bytes]:
        try:
            return subprocess.Popen(
                self._words,
                env=self._environ,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                cwd="/",
            )
        except FileNotFoundError as error:
            raise CoschedError(
                f"{self._words[0]}: {error.strerror}; is Slurm here?"
            ) from None
        except OSError as error:  # the machine has no process or file left
            raise CommandFailed(self._words, str(error.strerror)) from None

    def kill(self) -> None:
        """Ends the command; another thread runs it, or will."""
        with self._lock:
            self._killed = True
            if self._process is not None:
                send_to_child(self._process, signal.SIGKILL)


class CommandFailed(CoschedError):
    """A command of Slurm has failed."""

    def __init__(self, words: Sequence[str], why: str) -> None:
        super().__init__(f"{' '.join(words[:3])}: {why}")


def _nice_back(job: SlurmJob) -> list[str]:
    """Returns the change that gives a job the nice value of its user, if it was moved."""
    own = own_nice(job)
    return [] if own == shown_nice(job) else [f"Nice={own}"]


def _one_line(text: str) -> str:
    """Returns a text that scontrol takes as one value."""
    return re.sub(_WORDS, "?", text)[:LONGEST_LINE]
