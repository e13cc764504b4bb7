"""Named tuples that are quick to define are used as those of typing."""

from __future__ import annotations

import copy
import pickle
import typing

import msgspec
import pytest

from cosched.core.named_tuples import NamedTuple


class Quick(NamedTuple):
    """Has two fields."""

    first: int
    second: str = "x"

    @property
    def third(self):
        return self.first + 1


class Usual(typing.NamedTuple):
    """Has the same."""

    first: int
    second: str = "x"


class Below(Quick):
    """Has other methods."""


BOTH = pytest.mark.parametrize("kind", [Quick, Usual, Below])


@BOTH
def test_values_come_by_place_and_by_name(kind):
    for made in (kind(1, "y"), kind(1, second="y"), kind(second="y", first=1)):
        assert (made.first, made.second, tuple(made)) == (1, "y", (1, "y"))
    assert kind(1) == kind._make([1, "x"]) == (1, "x")
    assert kind._fields == kind.__match_args__ == ("first", "second")
    assert kind._field_defaults == {"second": "x"}


@BOTH
def test_copies(kind):
    made = kind(1)
    assert repr(made) == f"{kind.__name__}(first=1, second='x')"
    assert made._replace(second="y") == kind(1, "y")
    assert made._asdict() == {"first": 1, "second": "x"}
    for same in (copy.copy(made), pickle.loads(pickle.dumps(made))):
        assert (same, type(same), hash(same)) == (made, kind, hash((1, "x")))
    assert msgspec.json.decode(msgspec.json.encode(made), type=kind) == made


@BOTH
def test_mistakes_are_errors(kind):
    for values, named in (
        ((), {}),
        ((1, "y", 3), {}),
        ((1,), {"first": 1}),
        ((1,), {"other": 1}),
        ((1, "y"), {"second": "z"}),
    ):
        with pytest.raises(TypeError):
            kind(*values, **named)
    with pytest.raises((TypeError, ValueError)):
        kind(1)._replace(other=2)
    with pytest.raises(AttributeError):
        kind(1).first = 2


def test_it_has_no_other_attributes():
    with pytest.raises(AttributeError):
        Quick(1).other = 2
    assert Quick(1).third == 2
