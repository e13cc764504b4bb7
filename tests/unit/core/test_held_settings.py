"""Loans of settings end in any order and leave what the operator set."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule

from cosched.core.errors import CoschedError
from cosched.core.node.held_settings import Loans
from cosched.core.node.settings import USUAL

CHANGES = st.fixed_dictionaries(
    {},
    optional={
        "slice": st.sampled_from(["auto", "1s", "5s", "auto:250ms"]),
        "gmet": st.sampled_from(["auto", "20ms", "3s"]),
        "align": st.sampled_from(["on", "off"]),
        "order": st.sampled_from(["rest", "age"]),
    },
).filter(bool)


class Lending(RuleBasedStateMachine):
    """Compares with a model: the layers as a list of dictionaries, the first one kept."""

    def __init__(self):
        super().__init__()
        self.loans = Loans(USUAL)
        self.kept = {}
        self.layers = {}

    def compare(self):
        expected = USUAL.changed(self.kept)
        for changes in self.layers.values():
            expected = expected.changed(changes)
        assert self.loans.now == expected
        assert set(self.loans.lent) == {n for one in self.layers.values() for n in one}

    @rule(changes=CHANGES)
    def set(self, changes):
        expected = self.loans.after_set(changes)
        self.loans.set(changes)
        self.kept |= changes
        assert self.loans.now == expected
        self.compare()

    @rule(changes=CHANGES)
    def borrow(self, changes):
        expected = self.loans.after_borrow(changes)
        self.layers[self.loans.borrow(7, changes)] = changes
        assert self.loans.now == expected
        self.compare()

    @precondition(lambda self: self.layers)
    @rule(data=st.data())
    def give_back(self, data):
        number = data.draw(st.sampled_from(sorted(self.layers)))
        self.loans.give_back(number)
        del self.layers[number]
        self.compare()

    def teardown(self):
        for number in list(self.layers):
            self.loans.give_back(number)
        assert self.loans.now == USUAL.changed(self.kept)
        assert self.loans.lent == {}


TestLending = Lending.TestCase
TestLending.settings = settings(max_examples=50, stateful_step_count=15)


def test_operators_change_counts_when_the_loan_ends():
    loans = Loans(USUAL)
    number = loans.borrow(42, {"slice": "5s"})
    loans.set({"slice": "1s", "align": "off"})
    assert loans.now.texts()["slice"] == "5s"
    assert not loans.now.align
    assert loans.lent == {"slice": 42}
    loans.give_back(number)
    assert loans.now.texts()["slice"] == "1s"


@pytest.mark.parametrize("change", [{"slice": "soon"}, {"slyce": "1s"}])
def test_invalid_change_leaves_everything(change):
    loans = Loans(USUAL)
    for act in (loans.set, lambda changes: loans.borrow(1, changes)):
        with pytest.raises(CoschedError):
            act(change)
    assert (loans.now, loans.lent) == (USUAL, {})
