"""Links of simulated nodes: which bytes leave first."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cosched.core.cluster.startup.tables import SendTables
from cosched.sim.startup.costs import Costs
from cosched.sim.startup.counted import Counted, Tables
from cosched.sim.startup.driver import Start
from cosched.sim.startup.model import StartupRun
from cosched.sim.startup.network import Message, links_for
from cosched.sim.virtual_time import VirtualTime, no_progress

#: 10 ns a byte, and no other time.
COSTS = Costs(link_mb_s=100, latency_us=0, overhead_bytes=0)
WINDOWED = replace(COSTS, window_bytes=400)


def arrivals(costs, sent):
    """Returns when messages arrive, in ns. sent: place, neighbour, bytes and time."""
    engine, found = VirtualTime(), {}
    links = links_for(engine, costs, 4)
    for number, (place, to, size, at_ns) in enumerate(sent):

        def arrive(what):
            found[what] = engine.now_ns

        links.send(Message(place, to, size, arrive, number), at_ns)
    engine.run(lambda: None)
    return [found[number] for number in range(len(sent))]


def test_whole_messages_leave_one_after_the_other():
    assert arrivals(COSTS, [(0, 1, 1000, 0), (0, 2, 1000, 0)]) == [10_000, 20_000]


def test_long_messages_to_two_neighbours_share_the_link():
    first, second = arrivals(WINDOWED, [(0, 1, 10_000, 0), (0, 2, 10_000, 0)])
    assert (first, second) == (pytest.approx(200_000, rel=0.03), 200_000)


def test_messages_within_the_window_leave_in_their_order():
    sent = [(0, 1, 100, 0), (0, 2, 100, 0), (0, 3, 100, 0)]
    assert arrivals(WINDOWED, sent) == [1000, 2000, 3000]


def test_a_short_message_does_not_wait_for_the_rest_of_a_long_one():
    long, short = arrivals(WINDOWED, [(0, 1, 10_000, 0), (0, 2, 100, 1000)])
    assert short <= 1000 + 10 * (400 + 100)
    assert long == 101_000


def test_nodes_do_not_share_a_link():
    assert arrivals(WINDOWED, [(0, 1, 1000, 0), (2, 1, 1000, 0)]) == [10_000, 10_000]


def test_a_message_arrives_a_latency_after_its_last_byte():
    for costs in (COSTS, WINDOWED):
        later = replace(costs, latency_us=3)
        assert arrivals(later, [(0, 1, 1000, 500)]) == [13_500]


MESSAGES = st.lists(
    st.tuples(st.integers(0, 1), st.integers(1, 3), st.integers(0, 3000), st.just(0)),
    min_size=1,
    max_size=8,
)


@given(MESSAGES, st.sampled_from([0, 1, 100, 400, 5000]))
def test_a_link_with_work_never_rests_and_keeps_the_order_to_each_neighbour(sent, window):
    costs = replace(COSTS, window_bytes=window)
    found = arrivals(costs, sent)
    for place in (0, 1):
        both = zip(sent, found, strict=True)
        mine = [(to, size, at) for (p, to, size, _), at in both if p == place]
        if mine:
            total = sum(size for _, size, _ in mine)
            assert max(at for _, _, at in mine) == total * 10
        for neighbour in (1, 2, 3):
            to_it = [at for to, _, at in mine if to == neighbour]
            assert to_it == sorted(to_it)


# -- messages of tables ------------------------------------------------------------------


class Sizes:
    """Remembers the number of tables in each message."""

    def __init__(self, run, how):
        self.start = Start(run, how)
        self.found = []
        send = self.start.network.send

        def noted(place, to, size, deliver, content):
            if deliver == self.start._take_tables:
                self.found.append(len(content.places))
            send(place, to, size, deliver, content)

        self.start.network.send = noted


@pytest.mark.parametrize("how", [Tables(), Counted()], ids=["kept", "counted"])
def test_tables_that_come_together_leave_in_messages_of_a_chunk(how):
    # Six tables of 3,200 bytes fill a message.
    sizes = Sizes(StartupRun("pipelined", 16, 128, chunk_bytes=16 << 10), how)
    sizes.start._queue(0, SendTables(1, range(13), last=False))
    assert sizes.found == [6, 6]
    sizes.start._queue(0, SendTables(1, range(8), last=True))
    assert sizes.found == [6, 6, 6, 3]


@pytest.mark.parametrize("design", ["new", "through-root"])
def test_tables_of_other_designs_leave_in_one_message(design):
    run = StartupRun(design, 16, 128, chunk_bytes=16 << 10)
    sizes = Sizes(run, Tables())
    sizes.start._queue(0, SendTables(1, range(9), last=False))
    sizes.start._queue(0, SendTables(1, range(9, 13), last=True))
    assert sizes.found == [13]


def test_a_start_takes_the_same_time_with_a_very_large_window():
    run = StartupRun("pipelined", 20, 4)
    large = replace(run, costs=replace(run.costs, window_bytes=1e12))
    times = [Start(each, Tables()).carry_out(no_progress) for each in (run, large)]
    assert times[0] == times[1]
