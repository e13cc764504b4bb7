"""Ends tests that hang.

At its limit a test fails where it is (pytest-timeout, by SIGALRM), and its fixtures end. A
test that does not stop at that is in C, in a search for a smaller example, in a task that
keeps its errors, or at its end already. Its whole process ends a little later, which takes
neither a signal nor the interpreter's lock. xdist names the test as a failed one, and
another process runs the rest. Both ends print where the process is.

Each suite has its limit. On a machine that is busy with other work, ``--timeout SECONDS``
gives another one.
"""

import faulthandler
import os

import pytest

from tests.places import ROOT

TESTS = ROOT / "tests"

#: Seconds that a test may take with its fixtures, by the folder of its suite.
LIMITS_S = {"unit": 300, "measured": 2400, "packaging": 4800, "vmlab": 4800}
#: In other suites; one command of MPI may take 240 s on a busy machine.
OTHER_S = 900
#: For tests that are marked as long.
LONG_S = 3600
#: So long after its limit the process of a test ends.
GRACE_S = 60


class Limits:
    """Gives each test a limit, and ends the process of one that goes on after it."""

    def __init__(self, grace_s=GRACE_S):
        self._grace_s = grace_s
        # While a test runs, its standard error is a file that ends with the process.
        self._stderr = os.dup(2)

    def pytest_configure(self, config):
        config.addinivalue_line("markers", "timeout(seconds): a test's own limit")

    def pytest_unconfigure(self):
        os.close(self._stderr)

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, config, items):
        wanted_s = config.getoption("timeout", None)
        for item in items:
            if item.get_closest_marker("timeout") is None:
                limit_s = usual_limit_s(item) if wanted_s is None else wanted_s
                item.add_marker(pytest.mark.timeout(limit_s))

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item):
        self._begin(item)
        try:
            return (yield)
        finally:
            faulthandler.cancel_dump_traceback_later()

    @pytest.hookimpl(trylast=True)
    def pytest_exception_interact(self, node):
        """Begins again, for the fixtures: pytest takes the limits from a failed test."""
        if isinstance(node, pytest.Item):
            self._begin(node)

    def _begin(self, item):
        limit_s = item.get_closest_marker("timeout").args[0]
        if limit_s:  # 0: no limit
            after_s = limit_s + self._grace_s
            faulthandler.dump_traceback_later(after_s, exit=True, file=self._stderr)


def usual_limit_s(item):
    folders = (folder for folder in LIMITS_S if item.path.is_relative_to(TESTS / folder))
    limit_s = LIMITS_S.get(next(folders, ""), OTHER_S)
    return limit_s if item.get_closest_marker("long") is None else max(limit_s, LONG_S)
