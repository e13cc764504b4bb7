"""Measures the CPU time of each test, that of the processes it starts included.

A wall clock says little about a test on a busy machine; CPU time says what the test costs
the suite. ``--cost FILE`` writes one line a test into FILE, the dearest test first, and
prints the sum. Columns: seconds of CPU of set-up, call and end; seconds of the clock of all
three; the test. What a shared fixture costs stands at the first test that uses it.

With the cpuacct controller (control groups version 1, root) each process of pytest has a
group of its own, and daemons count, too. Otherwise descendants count that are waited for.
"""

import contextlib
import os
import resource
from collections import defaultdict
from pathlib import Path

import pytest

PHASES = ("setup", "call", "teardown")
ACCOUNTS = Path("/sys/fs/cgroup/cpuacct")
SECOND_NS = 1e9
#: What each process of the session has used: seconds before its first test, and in all.
PROCESSES = pytest.StashKey[list[tuple[float, float]]]()


class Waited:
    """This process and the descendants that it and they have waited for."""

    def used_s(self):
        return sum(
            use.ru_utime + use.ru_stime
            for use in map(
                resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
            )
        )

    def close(self):
        pass


class Group:
    """A control group of this process and all that it starts."""

    def __init__(self):
        for left in ACCOUNTS.glob("cosched-cost-*"):  # by a session that was killed
            with contextlib.suppress(OSError):  # it is in use
                left.rmdir()
        self._path = ACCOUNTS / f"cosched-cost-{os.getpid()}"
        self._path.mkdir()
        self._before_s = Waited().used_s()
        (self._path / "cgroup.procs").write_text(str(os.getpid()))
        # It stays open: a test may leave no free descriptor.
        self._usage = os.open(self._path / "cpuacct.usage", os.O_RDONLY)

    def used_s(self):
        usage_ns = int(os.pread(self._usage, 32, 0))
        return self._before_s + usage_ns / SECOND_NS

    def close(self):
        """Removes the group; processes that are left go into the group above."""
        os.close(self._usage)
        while left := (self._path / "cgroup.procs").read_text().split():
            for pid in left:
                with contextlib.suppress(ProcessLookupError):  # it has ended
                    (ACCOUNTS / "cgroup.procs").write_text(pid)
        self._path.rmdir()


class Meter:
    """Adds to each report of a test what its phase has used. Runs where tests run."""

    def __init__(self):
        accounts = os.access(ACCOUNTS / "cgroup.procs", os.W_OK)
        self._use = Group() if accounts else Waited()
        self._last_s = None
        self._imports_s = 0.0

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logstart(self):
        """Leaves out what pytest itself does between two tests."""
        if self._last_s is None:
            self._imports_s = self._use.used_s()
        self._last_s = self._use.used_s()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, call):
        report = yield
        now = self._use.used_s()
        report.cost_s = (now - self._last_s, call.duration)
        self._last_s = now
        return report

    def pytest_sessionfinish(self, session):
        process_s = (self._imports_s, self._use.used_s())
        self._use.close()
        if hasattr(session.config, "workeroutput"):
            session.config.workeroutput["cost_s"] = process_s
        else:
            session.config.stash[PROCESSES].append(process_s)


class Writer:
    """Collects the reports of all processes of the session and writes the file."""

    def __init__(self, config, file):
        self._processes = config.stash[PROCESSES] = []
        self._file = Path(file)
        self._tests = defaultdict(dict)

    def pytest_runtest_logreport(self, report):
        if hasattr(report, "cost_s"):
            self._tests[report.nodeid][report.when] = report.cost_s

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node):
        self._processes.append(getattr(node, "workeroutput", {}).get("cost_s", (0.0, 0.0)))

    def pytest_terminal_summary(self, terminalreporter):
        rows = []
        for test, phases in self._tests.items():
            use = [phases.get(phase, (0.0, 0.0)) for phase in PHASES]
            rows.append((*(cpu for cpu, _ in use), sum(wall for _, wall in use), test))
        rows.sort(key=lambda row: -sum(row[: len(PHASES)]))
        with self._file.open("w") as lines:
            for *numbers, test in rows:
                lines.write("".join(f"{number:.3f}\t" for number in numbers) + test + "\n")
        imports_s = sum(before_s for before_s, _ in self._processes)
        all_s = sum(in_all_s for _, in_all_s in self._processes)
        tests_s = sum(sum(row[: len(PHASES)]) for row in rows)
        terminalreporter.write_line(
            f"CPU: {all_s:.0f} s; {tests_s:.0f} s in {len(rows)} tests,"
            f" {imports_s:.0f} s before the first one; see {self._file}"
        )


def measure(config, file):
    """Registers what this process of pytest has to do for ``--cost``."""
    worker = hasattr(config, "workerinput")
    if not worker:
        config.pluginmanager.register(Writer(config, file))
    if worker or not config.getoption("numprocesses"):
        config.pluginmanager.register(Meter())
