"""Looks at the domain, in a thread of their own."""

from __future__ import annotations

import pytest

from cosched.core.errors import NoDaemon
from cosched.dashboard.looks import Looker


class Broken:
    """A domain whose queue raises an unforeseen error."""

    def look(self):
        raise ValueError("not foreseen")


def no_daemons():
    raise NoDaemon("none")


def test_an_error_in_the_thread_ends_the_command_and_no_look_waits_for_it():
    with pytest.raises(ValueError, match="not foreseen"):
        Looker(no_daemons, Broken()).look()
