"""The start of a job over its tree, with messages in any order, and the counts of nodes."""

from __future__ import annotations

from collections import Counter, deque

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.experiments.startup.workers import blocks_of, first_of
from cosched.core.cluster.queue.places.matching import Matcher, NodeOffer, Request
from cosched.core.cluster.startup import tables
from cosched.core.cluster.startup.assignment import Inventory, Units
from cosched.core.cluster.startup.object_relay import (
    ChunkArrived,
    Pipeline,
    ReadObject,
    SendChunk,
    StoreAndForward,
)
from cosched.core.cluster.startup.tree import Tree
from cosched.core.cluster.startup.two_phase import (
    Begin,
    Order,
    Ordered,
    Prepared,
    PrepareFailed,
    ReportFailure,
    ReportPrepared,
    Stage,
    SubtreePrepared,
    TwoPhaseStart,
)
from cosched.core.errors import CoschedError

TREES = st.builds(Tree, st.integers(1, 40), st.integers(1, 5))
EDGE_SIZES = [1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33]


class Links:
    """Messages under way: each link keeps their order, links deliver in any order."""

    def __init__(self, chance):
        self._chance = chance
        self._queues = {}

    def send(self, sender, to, message):
        self._queues.setdefault((sender, to), deque()).append(message)

    def deliver_all(self, take):
        """take: is called with receiver, sender and message until nothing is under way."""
        while links := sorted(link for link, queue in self._queues.items() if queue):
            sender, to = links[self._chance.randrange(len(links))]
            take(to, sender, self._queues[sender, to].popleft())


# -- the tree ---------------------------------------------------------------------------


@given(TREES)
def test_each_node_but_the_root_has_one_parent(tree):
    parents = Counter(child for place in range(tree.size) for child in tree.children(place))
    assert parents == Counter(range(1, tree.size))
    for place in range(tree.size):
        assert len(tree.children(place)) <= tree.arity
        for child in tree.children(place):
            assert tree.parent(child) == place


@given(TREES, st.data())
def test_levels_are_the_subtree(tree, data):
    place = data.draw(st.integers(0, tree.size - 1))
    found, below = {place}, [place]
    while below:
        below = [child for node in below for child in tree.children(node)]
        found.update(below)
    assert {node for level in tree.levels(place) for node in level} == found
    assert tree.below(place) == len(found)


@pytest.mark.parametrize(("size", "arity"), [(0, 2), (3, 0)])
def test_tree_needs_nodes_and_children(size, arity):
    with pytest.raises(CoschedError, match="both must be 1 or more"):
        Tree(size, arity)


# -- the job object ---------------------------------------------------------------------


def pass_down(tree, chunks, machine, chance):
    """Returns how often each node read the object, and the messages on each link."""
    nodes = [machine(tuple(tree.children(place))) for place in range(tree.size)]
    links, read, sent = Links(chance), Counter(), Counter()

    def take(to, _sender, message):
        for command in nodes[to].handle(message):
            if isinstance(command, ReadObject):
                read[to] += 1
                continue
            sent[to, command.child] += 1
            if isinstance(command, SendChunk):
                links.send(to, command.child, ChunkArrived(command.number, chunks))
            else:
                links.send(to, command.child, ChunkArrived(0, 1))

    for number in range(chunks):
        links.send(-1, 0, ChunkArrived(number, chunks))
    links.deliver_all(take)
    return read, sent


@given(TREES, st.integers(1, 6), st.randoms())
def test_each_node_reads_the_object_once(tree, chunks, chance):
    everywhere = Counter(range(tree.size))
    edges = {(tree.parent(place), place) for place in range(1, tree.size)}
    read, sent = pass_down(tree, chunks, Pipeline, chance)
    assert read == everywhere
    assert sent == Counter(dict.fromkeys(edges, chunks))
    read, sent = pass_down(tree, chunks, StoreAndForward, chance)
    assert read == everywhere
    assert sent == Counter(dict.fromkeys(edges, 1))


@given(st.permutations([0, 1, 2, 0, 2]))
def test_chunks_may_come_twice_and_in_any_order(numbers):
    node = Pipeline((1,))
    commands = []
    for number in numbers:
        commands += node.handle(ChunkArrived(number, 3))
    assert commands.count(ReadObject()) == 1
    assert sorted(c.number for c in commands if isinstance(c, SendChunk)) == [
        0,
        1,
        2,
    ]


@pytest.mark.parametrize(("number", "count"), [(3, 3), (-1, 3), (0, 2), (0, 0)])
def test_chunk_of_another_object_is_refused(number, count):
    node = Pipeline(())
    node.handle(ChunkArrived(0, 3))
    with pytest.raises(CoschedError, match="does not belong"):
        node.handle(ChunkArrived(number, count))


# -- the tables -------------------------------------------------------------------------


def exchange(tree, machine, chance):
    """Returns the nodes that published, and the tables that each link carried."""
    nodes = [machine(tree, place) for place in range(tree.size)]
    links, published, carried = Links(chance), Counter(), {}

    def take(to, _sender, message):
        for command in nodes[to].handle(message):
            if isinstance(command, tables.PublishTables):
                published[to] += 1
                continue
            carried.setdefault((to, command.to), []).extend(command.places)
            arrived = tables.TablesArrived(to, command.places, command.last)
            links.send(to, command.to, arrived)

    for place in range(tree.size):
        links.send(-1, place, tables.TableReady())
    links.deliver_all(take)
    return published, carried


@given(TREES, st.randoms())
def test_siblings_carry_each_table_once_to_each_node(tree, chance):
    published, carried = exchange(tree, tables.Siblings, chance)
    assert published == Counter(range(tree.size))
    for place in range(1, tree.size):
        own = {node for level in tree.levels(place) for node in level}
        parent = tree.parent(place)
        assert sorted(carried[place, parent]) == sorted(own)
        assert sorted(carried[parent, place]) == sorted(set(range(tree.size)) - own)


@given(TREES, st.randoms())
def test_root_sends_the_full_set(tree, chance):
    published, carried = exchange(tree, tables.ThroughRoot, chance)
    assert published == Counter(range(tree.size))
    for place in range(1, tree.size):
        assert carried[tree.parent(place), place] == list(range(tree.size))


@pytest.mark.parametrize("machine", [tables.Siblings, tables.ThroughRoot])
@pytest.mark.parametrize("size", EDGE_SIZES)
def test_exchange_at_the_edges_of_levels(machine, size, randomly):
    published, _ = exchange(Tree(size, 2), machine, randomly)
    assert published == Counter(range(size))


def test_binary_tree_of_siblings_carries_half():
    """Section 4.1: half of the data, on the links down."""
    tree = Tree(255, 2)
    down = {
        machine: sum(len(places) for (sender, to), places in carried.items() if sender < to)
        for machine in (tables.Siblings, tables.ThroughRoot)
        for carried in [exchange(tree, machine, _First())[1]]
    }
    up = sum(tree.below(place) for place in range(1, tree.size))
    assert down[tables.ThroughRoot] == 254 * 255
    assert down[tables.Siblings] == 254 * 255 - up


@pytest.mark.parametrize("machine", [tables.Siblings, tables.ThroughRoot])
def test_tables_from_strangers_are_refused(machine):
    node = machine(Tree(7, 2), 1)
    for sender in (1, 2, 5):
        with pytest.raises(CoschedError, match="were not expected"):
            node.handle(tables.TablesArrived(sender, (sender,), last=False))
    with pytest.raises(CoschedError, match="is of no node"):
        node.handle(tables.TablesArrived(3, (9,), last=False))
    for sender, place in ((3, 1), (3, 4), (0, 1)):
        if machine is tables.Siblings or sender:
            with pytest.raises(CoschedError, match="another part of the tree"):
                node.handle(tables.TablesArrived(sender, (place,), last=False))
    with pytest.raises(CoschedError, match="left out a table"):
        node.handle(tables.TablesArrived(3, (), last=True))
    node.handle(tables.TablesArrived(3, (3,), last=True))
    with pytest.raises(CoschedError, match="were not expected"):
        node.handle(tables.TablesArrived(3, (), last=True))


# -- the gate ---------------------------------------------------------------------------


def start(tree, chance, failing=(), go_when_prepared=True):
    """Returns the stage of each node after all messages, and the manager's reports."""
    nodes = [TwoPhaseStart(tuple(tree.children(place))) for place in range(tree.size)]
    links, reports, opened = Links(chance), [], Counter()

    def report(sender, message):
        parent = tree.parent(sender)
        if parent is not None:
            links.send(sender, parent, message)
            return
        reports.append(message)
        if isinstance(message, SubtreePrepared) and go_when_prepared:
            links.send(-1, 0, Ordered(go=True))

    def take(to, _sender, message):
        for command in nodes[to].handle(message):
            if isinstance(command, ReportPrepared):
                report(to, SubtreePrepared(to))
            elif isinstance(command, ReportFailure):
                report(to, PrepareFailed(command.place, command.reason))
            elif isinstance(command, Order):
                links.send(to, command.child, Ordered(command.go))
            elif isinstance(command, Begin):
                opened[to] += 1

    for place in range(tree.size):
        failed = PrepareFailed(place, "no such program")
        links.send(-1, place, failed if place in failing else Prepared())
    links.deliver_all(take)
    assert max(opened.values(), default=0) <= 1
    return [node.stage for node in nodes], reports, opened


@given(TREES, st.randoms())
def test_all_nodes_go_when_all_are_prepared(tree, chance):
    stages, reports, opened = start(tree, chance)
    assert set(stages) == {Stage.GONE}
    assert reports == [SubtreePrepared(0)]
    assert len(opened) == tree.size


@given(TREES, st.randoms(), st.data())
def test_no_node_goes_if_one_fails(tree, chance, data):
    failing = data.draw(st.sets(st.integers(0, tree.size - 1), min_size=1))
    stages, reports, opened = start(tree, chance, failing)
    assert not opened
    assert set(stages) <= {Stage.ABORTED}
    places = {report.place for report in reports if isinstance(report, PrepareFailed)}
    assert places
    assert places <= failing
    assert SubtreePrepared(0) not in reports


def test_no_node_goes_before_the_order():
    stages, _, opened = start(Tree(9, 2), _First(), go_when_prepared=False)
    assert set(stages) == {Stage.PREPARED}
    assert not opened


def test_node_that_fails_after_the_order_is_reported():
    root = TwoPhaseStart((1,))
    for event in (
        Prepared(),
        SubtreePrepared(1),
        Ordered(go=True),
    ):
        root.handle(event)
    lost = root.handle(PrepareFailed(1, "node n2 is lost"))
    assert lost == (ReportFailure(1, "node n2 is lost"),)
    assert root.stage is Stage.GONE


# -- counts and assignments -------------------------------------------------------------

CORES = 4
STEPS = st.lists(
    st.tuples(st.integers(1, 3), st.integers(1, 4), st.booleans(), st.booleans()),
    max_size=30,
)


@given(STEPS, st.integers(1, 3))
def test_a_counted_job_always_gets_its_units(steps, dom):
    """The counts of the manager and the units of the nodes never disagree."""
    nodes = {f"n{place}": Inventory(units(dom)) for place in range(3)}
    matcher = Matcher()
    for name, inventory in nodes.items():
        matcher.join(NodeOffer(name, inventory.totals))
    running = {}
    for job, (wanted, tasks, exclusive, ends) in enumerate(steps):
        if ends and running:
            ended = min(running)
            for name in matcher.release(ended):
                nodes[name].release(ended)
            del running[ended]
        request = Request(wanted, tasks, (("cores", 1), ("ports", 2)), exclusive=exclusive)
        selected = matcher.select(request)
        matches = (block.match() for block in blocks_of(matcher, request, 2))
        assert first_of(matches, wanted) == selected
        if selected is None:
            continue
        matcher.take(job, selected, request)
        running[job] = (selected, exclusive)
        for name in selected:
            made = nodes[name].assign(job, tasks, dict(request.per_task))
            assert len({unit for task in made for unit in task["cores"]}) == tasks
        check(nodes, matcher, running, dom)


def test_job_gets_units_of_its_own_where_others_have_piled_up():
    """Job 3 comes while all units are used, and job 4 after most of them are free again."""
    node = Inventory(units(2))
    for job, tasks in ((1, 1), (2, 3), (3, 1)):
        node.assign(job, tasks, {"cores": 1})
    node.release(2)
    assert node.jobs[1] == node.jobs[3] == ({"cores": (0,)},)
    made = node.assign(4, 4, {"cores": 1})
    assert {task["cores"] for task in made} == {(0,), (1,), (2,), (3,)}
    with pytest.raises(CoschedError, match="needs 3 cores on this node, which has 2 free"):
        node.assign(5, 3, {"cores": 1})


def units(dom):
    return {
        "cores": Units(tuple(range(CORES)), dom),
        "ports": Units(tuple(range(900, 932))),
    }


def check(nodes, matcher, running, dom):
    for name, inventory in nodes.items():
        here = [job for job, (selected, _) in running.items() if name in selected]
        assert set(inventory.jobs) == set(here)
        if any(running[job][1] for job in here):
            assert len(here) == 1
        used = Counter(
            (what, unit)
            for made in inventory.jobs.values()
            for task in made
            for what, numbers in task.items()
            for unit in numbers
        )
        assert all(count == 1 for (what, _), count in used.items() if what == "ports")
        assert dom > 1 or all(count == 1 for count in used.values())
        free = matcher.free(name)
        for what in ("cores", "ports"):
            taken = sum(count for (which, _), count in used.items() if which == what)
            assert free[what] == inventory.totals[what] - taken >= 0


class _First:
    """Delivers the first link's messages first."""

    def randrange(self, _count):
        return 0


@pytest.fixture(params=range(3))
def randomly(request):
    from random import Random

    return Random(request.param)
