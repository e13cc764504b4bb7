"""Looks at the nodes and the domain again and again, as long as a page asks for news."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable

import msgspec

from cosched.dashboard.looks import Look
from cosched.dashboard.picture import Picture

#: Without a page that asks, the daemons are left alone after this time.
IDLE_S = 15.0
#: A page waits this long for the first look after a rest.
FIRST_LOOK_WITHIN_S = 10.0
#: Pages ask for the changes since one of a few versions: their answers are kept.
ANSWERS_MOST = 32


class Watcher:
    """Keeps a picture up to date. Any thread may ask for news; one runs ``watch``."""

    def __init__(
        self, look: Callable[[], Look], picture: Picture, interval_s: float
    ) -> None:
        self._look = look
        self._picture = picture
        self._interval_s = interval_s
        #: Versions of one process mean nothing to a page of an earlier one.
        self._run = os.urandom(6).hex()
        self._changed = threading.Condition()
        self._wanted_s = self._looked_s = time.monotonic() - IDLE_S
        self._answers: dict[int, bytes] = {}

    def watch(self) -> None:
        """Looks once, and then as long as pages ask. Does not return."""
        while True:
            began_s = time.monotonic()
            self.look()
            with self._changed:
                rest_s = self._interval_s - (time.monotonic() - began_s)
                if rest_s > 0:
                    self._changed.wait_for(lambda: False, rest_s)
                self._changed.wait_for(self._is_wanted)

    def look(self) -> None:
        """Takes one look."""
        look = self._look()
        with self._changed:
            self._picture.take(look)
            self._answers.clear()
            self._looked_s = time.monotonic()
            self._changed.notify_all()

    def news(self, run: str = "", after: int = 0) -> bytes:
        """Returns as JSON what changed after a version of the run; everything if the run is
        another one."""
        with self._changed:
            self._wanted_s = time.monotonic()
            self._changed.notify_all()
            self._changed.wait_for(self._is_fresh, FIRST_LOOK_WITHIN_S)
            version = after if run == self._run else 0
            if version not in self._answers:
                if len(self._answers) >= ANSWERS_MOST:
                    self._answers.clear()
                self._answers[version] = self._encode(version)
            return self._answers[version]

    def _encode(self, version: int) -> bytes:
        head = {"run": self._run, "interval_s": self._interval_s}
        return msgspec.json.encode({**head, **self._picture.since(version)})

    def _is_wanted(self) -> bool:
        return time.monotonic() - self._wanted_s < IDLE_S

    def _is_fresh(self) -> bool:
        return time.monotonic() - self._looked_s < IDLE_S
