"""The names that tasks of a job publish, and the questions that wait for them."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cosched.cluster.agent.worlds import names as module
from cosched.cluster.agent.worlds.names import Names
from cosched.core.cluster.startup.questions import Lookup, Publish, RootAnswer, Unpublish


class Asker:
    """Asks and keeps the answers."""

    def __init__(self):
        self.names = Names()

    def ask(self, question):
        answers = []
        self.names.take(question, answers.append)
        return answers


@pytest.fixture
def asker():
    return Asker()


def test_port_of_a_name_is_found_until_it_is_removed(asker):
    assert asker.ask(Publish("name", "port")) == [RootAnswer()]
    assert (
        asker.ask(Lookup("name")) == asker.ask(Lookup("name")) == [RootAnswer(value="port")]
    )
    assert asker.ask(Unpublish("name")) == [RootAnswer()]
    line = "the name 'name' is not published in this job"
    assert asker.ask(Lookup("name")) == asker.ask(Unpublish("name")) == [RootAnswer(line)]


def test_name_in_use_is_refused(asker):
    asker.ask(Publish("name", "port"))
    line = "the name 'name' is published already"
    assert asker.ask(Publish("name", "other")) == [RootAnswer(line)]


def test_name_for_one_reader_is_free_after_it(asker):
    for port in ("first", "second"):
        assert asker.ask(Publish("name", port, once=True)) == [RootAnswer()]
        assert asker.ask(Lookup("name", wait=True)) == [RootAnswer(value=port)]
    assert asker.ask(Lookup("name"))[0].error


def test_readers_that_wait_get_the_port_once_it_is_published(asker):
    waiting = [asker.ask(Lookup("name", wait=True)) for _ in range(2)]
    assert waiting == [[], []]
    asker.ask(Publish("other", "no"))
    assert waiting == [[], []]
    asker.ask(Publish("name", "port"))
    assert waiting == [[RootAnswer(value="port")], [RootAnswer(value="port")]]


def test_first_of_the_readers_that_wait_gets_a_port_for_one(asker):
    first, second = (asker.ask(Lookup("name", wait=True)) for _ in range(2))
    asker.ask(Publish("name", "a", once=True))
    assert (first, second) == ([RootAnswer(value="a")], [])
    asker.ask(Publish("name", "b", once=True))
    assert second == [RootAnswer(value="b")]


def test_numbers_of_names_and_of_readers_that_wait_are_bounded(asker, monkeypatch):
    monkeypatch.setattr(module, "NAMES_MOST", 2)
    for number in range(2):
        asker.ask(Publish(str(number), "port"))
    assert "unpublish some" in asker.ask(Publish("more", "port"))[0].error
    kept = [asker.ask(Lookup("later", wait=True)) for _ in range(2)]
    assert "wait for names" in asker.ask(Lookup("later", wait=True))[0].error
    asker.ask(Unpublish("0"))
    asker.ask(Publish("later", "port"))
    assert [each[0].value for each in kept] == ["port", "port"]
    assert asker.ask(Lookup("another", wait=True)) == []


@given(st.lists(st.booleans(), max_size=30))
def test_each_port_for_one_reader_reaches_exactly_one_of_those_that_wait(publishes):
    asker = Asker()
    ports, waiting = Counter(), []
    for number, publish in enumerate(publishes):
        if publish:
            done = asker.ask(Publish("name", str(number), once=True))
            ports[str(number)] += done == [RootAnswer()]
        else:
            waiting.append(asker.ask(Lookup("name", wait=True)))
    found = Counter(answer.value for each in waiting for answer in each)
    assert all(len(each) <= 1 for each in waiting)
    assert found <= ports
    assert all(number == 1 for number in found.values())
    unread = sum((ports - found).values())
    assert unread == 0 or all(waiting)  # a port waits only if no reader does
