"""Keeps the last things of several users in bounded room, fairly.

A plain ring loses the oldest thing, so one user with many things pushes out those of all
others. Here the user with the most loses its own oldest one.
"""

from __future__ import annotations

import heapq
import itertools
from collections import deque
from collections.abc import Iterator
from operator import attrgetter
from typing import Generic, NamedTuple, TypeVar

T = TypeVar("T")


class _Kept(NamedTuple, Generic[T]):
    number: int
    weight: int
    thing: T


class FairRing(Generic[T]):
    """Holds things whose weights add up to ``capacity`` at most, oldest first.

    A user whose things weigh no more than those of each other user loses none of them while
    another user has more. So with n users, nothing is lost that is among the last
    ``capacity / n`` of its user.
    """

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._things: dict[int, deque[_Kept[T]]] = {}
        self._weights: dict[int, int] = {}
        self._total = 0
        self._numbers = itertools.count()
        # (-weight, user) of each user, and of earlier times; a heap.
        self._heaviest: list[tuple[int, int]] = []

    def __iter__(self) -> Iterator[T]:
        """Yields the things of all users, oldest first."""
        merged = heapq.merge(*self._things.values(), key=attrgetter("number"))
        return (kept.thing for kept in merged)

    def of(self, uid: int) -> Iterator[T]:
        """Yields the things of one user, oldest first."""
        return (kept.thing for kept in self._things.get(uid, ()))

    def add(self, uid: int, thing: T, weight: int = 1) -> None:
        """Adds the newest thing, and drops others until all fit."""
        self._things.setdefault(uid, deque()).append(
            _Kept(next(self._numbers), weight, thing)
        )
        self._weigh(uid, weight)
        while self._total > self._capacity:
            self._drop_one()

    def _drop_one(self) -> None:
        while True:
            weight, uid = heapq.heappop(self._heaviest)
            if self._weights.get(uid) == -weight:
                break
        dropped = self._things[uid].popleft()
        self._weigh(uid, -dropped.weight)
        if not self._things[uid]:
            del self._things[uid], self._weights[uid]

    def _weigh(self, uid: int, more: int) -> None:
        self._total += more
        self._weights[uid] = self._weights.get(uid, 0) + more
        heapq.heappush(self._heaviest, (-self._weights[uid], uid))
        if len(self._heaviest) > 64 + 2 * len(self._weights):
            self._heaviest = [(-weight, user) for user, weight in self._weights.items()]
            heapq.heapify(self._heaviest)
