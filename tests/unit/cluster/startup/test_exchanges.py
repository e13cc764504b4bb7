"""Exchanges of tables between agents: large tables go in several messages."""

from collections import deque

import pytest

from cosched.cluster.agent.route import Route
from cosched.cluster.agent.startup import LONGEST_TABLE, LONGEST_TABLES, TableExchanges
from cosched.cluster.messages import LONGEST, encode
from cosched.core.cluster.startup.tree import Tree
from cosched.core.errors import CoschedError

CHUNK = 1000


class Nodes:
    """The exchanges of a job's nodes, and messages between them."""

    def __init__(self, size, kind):
        self.hosts = tuple(f"n{place}" for place in range(size))
        self.tree = Tree(size, 2)
        self.messages, self.longest, self.sent = deque(), 0, 0
        self.delivered, self.failed = {}, {}
        self.exchanges = [
            TableExchanges(
                Route(1, 1, at, ((0, size - 1),), self.hosts, self.tree, kind, 0, "n0"),
                Around(self, at),
                CHUNK,
            )
            for at in range(size)
        ]

    def exchange(self, tables):
        for exchange, table in zip(self.exchanges, tables, strict=True):
            exchange.table_ready(table)
        while self.messages:
            sender, to, message = self.messages.popleft()
            self.longest = max(self.longest, len(encode(message)))
            self.sent += 1
            self.exchanges[self.hosts.index(to)].take(sender, message)


class Around:
    def __init__(self, nodes, place):
        self.nodes, self.place = nodes, place

    def send(self, to, message):
        self.nodes.messages.append((self.nodes.hosts[self.place], to, message))

    def send_to_steward(self, frame):
        self.nodes.delivered[self.place] = frame.tables

    def fail(self, reason):
        self.nodes.failed[self.place] = reason

    def note(self, step):
        pass


@pytest.mark.parametrize("kind", ["siblings", "through-root"])
@pytest.mark.parametrize("size", [1, 2, 5, 12])
@pytest.mark.parametrize("bytes_each", [0, 10, 700, 5000])
def test_each_node_gets_all_tables(kind, size, bytes_each):
    nodes = Nodes(size, kind)
    tables = tuple(bytes([place]) * bytes_each for place in range(size))
    nodes.exchange(tables)
    assert nodes.delivered == dict.fromkeys(range(size), tables)
    if kind == "siblings":
        assert nodes.longest < CHUNK + bytes_each + 200


def test_small_tables_go_at_once():
    nodes = Nodes(5, "siblings")
    nodes.exchange([b"x"] * 5)
    assert nodes.sent <= 2 * 4 * 2


def test_large_tables_through_the_root_fit_into_messages():
    nodes = Nodes(3, "through-root")
    nodes.exchange([bytes(LONGEST_TABLE)] * 3)
    assert nodes.longest < LONGEST // 4 * 3
    assert nodes.delivered.keys() == {0, 1, 2}


def test_tables_that_no_message_holds_end_the_job():
    nodes = Nodes(1, "siblings")
    with pytest.raises(CoschedError, match="more than"):
        nodes.exchanges[0].table_ready(bytes(LONGEST_TABLE + 1))
    nodes = Nodes(4, "siblings")
    nodes.exchange([bytes(LONGEST_TABLES // 4 + 1)] * 4)
    assert nodes.failed.keys() == {0, 1, 2, 3}
    assert not nodes.delivered
