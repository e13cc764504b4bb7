"""[resources] of domain.toml, and what jobs ask of it."""

from __future__ import annotations

import pytest

from cosched.cluster.engines.native.job_needs import check_declared, offer_of, request_of
from cosched.cluster.engines.native.node_entries import NodeEntry
from cosched.cluster.submission import make_submission
from cosched.config.domain import load_config, parse_config, write_config
from cosched.core.errors import CoschedError

NODES = {"n1": "h1:7571", "n2": "h2:7571", "n3": "h3:7571"}
RESOURCES = {
    "features": {"bigmem": "n[2-3]", "fast": "n3"},
    "counts": {"gpu": {"n[1-2]": 4, "n3": 1}},
    "licences": {"matlab": 2},
}


def parse(resources, unit="cpu"):
    queue = {"unit": unit}
    document = {"name": "d", "controller": "h1:7570", "nodes": NODES}
    return parse_config({**document, "queue": queue, "resources": resources})


def job(**more):
    return make_submission(["a"], environ={}, cwd="/", **more)


def test_a_node_offers_what_the_operator_declares_and_its_own_memory():
    resources = parse(RESOURCES).resources
    node = NodeEntry("n3", 7, "h3:7571", memory_bytes=1 << 30)
    offer = offer_of(resources, node)
    assert (offer.name, offer.features) == (7, {"bigmem", "fast"})
    assert offer.totals == {"memory": 1 << 30, "gpu": 1}
    assert offer_of(resources, NodeEntry("n4", 9, "h4:1")).features == frozenset()


def test_a_file_that_is_written_means_the_same(tmp_path):
    config = parse(RESOURCES)
    (tmp_path / "domain.toml").write_text(write_config(config))
    assert load_config(tmp_path / "domain.toml") == config


def test_what_a_job_needs_of_its_nodes_and_of_the_domain():
    resources = parse(RESOURCES).resources
    needs = {"gpu": 2, "matlab": 1}
    found = request_of(resources, job(features=("fast",), needs=needs), 2)
    assert found.nodes == 2
    assert found.features == {"fast"}
    assert found.on_a_node == {"gpu": 2}
    assert found.in_domain == (("matlab", 1),)
    assert request_of(resources, job(memory_bytes=5), 1).on_a_node == {"memory": 5}
    assert request_of(resources, job(), 1) is None


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        (
            {"features": ("slow",)},
            "infeasible: the domain has no feature 'slow'; it has bigmem, fast",
        ),
        (
            {"needs": {"tpu": 1}},
            "infeasible: the domain has no count or licence 'tpu'; it has gpu, matlab",
        ),
    ],
)
def test_an_unknown_need_is_named(asked, says):
    with pytest.raises(CoschedError) as caught:
        check_declared(parse(RESOURCES).resources, job(**asked))
    assert str(caught.value) == says


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({"needs": {"gpu": 0}}, "need gpu:0"),
        ({"needs": {"a b": 1}}, "'a b': is no name of a feature or count"),
        ({"features": ("x\n",)}, "is no name of a feature or count"),
        ({"memory_bytes": -1}, "memory of -1 bytes"),
        ({"features": tuple(f"f{n}" for n in range(33))}, "at most 32 features"),
    ],
)
def test_a_submission_with_needs_that_no_job_has(more, says):
    with pytest.raises(CoschedError, match=says):
        job(**more).check()


@pytest.mark.parametrize(
    ("resources", "says"),
    [
        ({"features": {"big mem": "n1"}}, "resources.features: 'big mem' cannot be a name"),
        ({"features": {"memory": "n1"}}, "resources.features: 'memory' cannot be a name"),
        ({"features": {"fast": "n[1-4]"}}, "resources.features.fast: 'n4' is not in"),
        ({"features": {"fast": "n[1-"}}, "resources.features.fast: 'n.1-' is not a list"),
        ({"counts": {"gpu": {"n1": 1, "n[1-2]": 2}}}, "counts.gpu: 'n1' has two numbers"),
        ({"counts": {"gpu": {"n1": -1}}}, "resources.counts.gpu.n1: "),
        (
            {"counts": {"gpu": {"n1": 1}}, "licences": {"gpu": 1}},
            "resources.counts.gpu: is the name of a licence, too",
        ),
    ],
)
def test_a_wrong_table_is_one_line(resources, says):
    with pytest.raises(CoschedError, match=says) as caught:
        parse(resources)
    assert "\n" not in str(caught.value)


def test_whole_nodes_have_no_resources():
    with pytest.raises(CoschedError, match=r'resources: needs unit = "cpu" in .queue.'):
        parse(RESOURCES, unit="node")
    assert not parse({}, unit="node").resources
