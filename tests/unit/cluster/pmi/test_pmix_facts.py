"""What Open MPI's tasks learn of their job through PMIx, and errors of its start."""

from __future__ import annotations

from pathlib import Path

import pytest

from cosched.cluster.pmi.pmix import PmixService
from cosched.cluster.pmi.pmix_facts import Kind, job_facts, rank_variables, server_facts
from cosched.cluster.pmi.service import JobLayout, NodeTasks
from cosched.core.errors import CoschedError

LAYOUT = JobLayout(
    "job-1.2", (NodeTasks("n1", 0, 3), NodeTasks("n2", 3, 1), NodeTasks("n3", 4, 2)), 2
)
HERE = Path("/run/job")


def values(facts, key):
    return [fact.value for fact in facts if fact.key == key]


def arrays(facts, key):
    return [{inner.key: inner.value for inner in array} for array in values(facts, key)]


@pytest.fixture
def facts():
    return job_facts(LAYOUT, HERE, crowded=True)


def test_maps_name_nodes_and_their_ranks(facts):
    assert values(facts, "pmix.nmap") == ["n1,n2,n3"]
    assert values(facts, "pmix.pmap") == ["0,1,2;3;4,5"]


def test_sizes(facts):
    for key in ("pmix.job.size", "pmix.univ.size", "pmix.max.size"):
        assert values(facts, key) == [6]
    assert values(facts, "pmix.num.nodes") == [3]


def test_each_node_is_described(facts):
    nodes = arrays(facts, "pmix.node.arr")
    assert [node["pmix.hname"] for node in nodes] == ["n1", "n2", "n3"]
    assert [node["pmix.lpeers"] for node in nodes] == ["0,1,2", "3", "4,5"]
    assert [node["pmix.local.size"] for node in nodes] == [3, 1, 2]
    assert [node["pmix.lldr"] for node in nodes] == [0, 3, 4]


def test_only_this_node_is_crowded(facts):
    assert ["pmix.ndosub" in node for node in arrays(facts, "pmix.node.arr")] == [
        False,
        False,
        True,
    ]
    calm = arrays(job_facts(LAYOUT, HERE, crowded=False), "pmix.node.arr")
    assert not any("pmix.ndosub" in node for node in calm)


def test_each_rank_is_described_rank_first(facts):
    assert all(array[0].key == "pmix.rank" for array in values(facts, "pmix.pdata"))
    ranks = arrays(facts, "pmix.pdata")
    assert [rank["pmix.rank"] for rank in ranks] == list(range(6))
    assert [rank["pmix.lrank"] for rank in ranks] == [0, 1, 2, 0, 0, 1]
    assert [rank["pmix.nodeid"] for rank in ranks] == [0, 0, 0, 1, 2, 2]
    assert [rank.get("pmix.pdir") for rank in ranks] == [
        *[None] * 4,
        "/run/job/job/4",
        "/run/job/job/5",
    ]


def test_server_takes_the_name_of_its_node():
    facts = server_facts(LAYOUT, HERE)
    assert values(facts, "pmix.hname") == ["n3"]
    assert values(facts, "pmix.srv.rank") == [2]
    assert values(facts, "pmix.srvr.tmpdir") == ["/run/job"]


def test_values_fit_their_kinds(facts):
    def check(some):
        for fact in some:
            if fact.kind is Kind.FACTS:
                check(fact.value)
            else:
                texts = (Kind.TEXT, Kind.NODES, Kind.PLACES)
                assert isinstance(fact.value, str) == (fact.kind in texts)

    check((*facts, *server_facts(LAYOUT, HERE)))


def test_variables_of_open_mpis_launcher():
    found = rank_variables(LAYOUT, 5)
    assert found["OMPI_COMM_WORLD_RANK"] == "5"
    assert found["OMPI_COMM_WORLD_SIZE"] == "6"
    assert found["OMPI_COMM_WORLD_LOCAL_RANK"] == "1"
    assert found["OMPI_COMM_WORLD_LOCAL_SIZE"] == "2"


@pytest.mark.parametrize("library", ["/none/libpmix.so.2", "libc.so.6"])
def test_wrong_library_is_one_line(library, tmp_path):
    with pytest.raises(CoschedError) as caught:
        PmixService(Path(library), LAYOUT, None, tmp_path, tmp_path / "none")
    assert library in str(caught.value)
    assert "\n" not in str(caught.value)
