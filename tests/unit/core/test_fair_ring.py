"""The last things of several users in bounded room."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from cosched.core.trace.fair_ring import FairRing

USERS = st.integers(1, 4)


def test_user_with_many_things_loses_only_its_own():
    ring = FairRing(10)
    for number in range(5):
        ring.add(1, f"first {number}")
    for number in range(1000):
        ring.add(2, f"second {number}")
    assert list(ring.of(1)) == [f"first {number}" for number in range(5)]
    assert list(ring.of(2)) == [f"second {number}" for number in range(995, 1000)]
    assert list(ring) == [*ring.of(1), *ring.of(2)]


def test_single_user_has_all_the_room():
    ring = FairRing(10)
    for number in range(100):
        ring.add(1, number)
    assert list(ring) == list(range(90, 100))


@given(st.lists(st.tuples(USERS, st.integers(1, 5)), max_size=80), st.integers(5, 30))
def test_ring_is_fair_and_bounded(plan, capacity):
    ring, newest = FairRing(capacity), {}
    for number, (uid, weight) in enumerate(plan):
        ring.add(uid, (number, uid, weight), weight)
        newest.setdefault(uid, []).insert(0, (number, uid, weight))
        kept = list(ring)
        assert kept == sorted(kept)
        weights = Counter()
        for _, owner, heavy in kept:
            weights[owner] += heavy
        assert sum(weights.values()) <= capacity
        assert len(ring._heaviest) <= 65 + 2 * len(newest)
        for owner, things in newest.items():
            # The newest of each user, without a gap ...
            own = [thing for thing in kept if thing[1] == owner]
            assert own == things[: len(own)][::-1]
            # ... and none is lost within the user's part of the room.
            within = 0
            for thing in things:
                within += thing[2]
                if within > capacity // len(newest) - 5:
                    break
                assert thing in own
