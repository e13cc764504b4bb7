"""sinfo and Slurm's configuration are read for a job that waits for nodes."""

from __future__ import annotations

import pytest

from cosched.cluster.engines.slurm.sinfo_text import in_service, may_be_free, preempts


@pytest.mark.parametrize(
    ("state", "serves", "free"),
    [
        ("idle", True, True),
        ("idle~", True, True),
        ("mixed", True, True),
        ("planned", True, True),
        ("completing", True, True),
        ("allocated", True, False),
        ("allocated*", True, False),
        ("allocated+", True, True),
        ("down*", False, False),
        ("drained", False, False),
        ("draining", False, False),
        ("powering_up", False, True),
    ],
)
def test_state_of_a_node(state, serves, free):
    shown = f"n1 {state} NO main\n"
    assert (in_service(shown), may_be_free(shown, ["main"])) == (serves, free)


@pytest.mark.parametrize(
    ("shares", "free"), [("NO", 0), ("EXCLUSIVE", 0), ("YES:4", 1), ("FORCE:2", 1)]
)
def test_full_node_has_room_where_jobs_share_it(shares, free):
    assert may_be_free(f"n1 allocated {shares} main\n", ["main"]) == free


TWO_PARTITIONS = """\
n1 idle NO main
n1 idle FORCE:4 shared
n2 allocated NO main
n2 allocated FORCE:4 shared
n3 idle NO other
"""


@pytest.mark.parametrize(
    ("partitions", "free"),
    [(["main"], 1), (["shared"], 2), (["main", "shared"], 2), (["hidden"], None)],
)
def test_node_of_two_partitions_counts_once(partitions, free):
    assert in_service(TWO_PARTITIONS) == 3
    assert may_be_free(TWO_PARTITIONS, partitions) == free


@pytest.mark.parametrize(
    ("config", "takes"),
    [
        ({}, False),
        ({"PreemptType": "(null)"}, False),
        ({"PreemptType": "preempt/none"}, False),
        ({"PreemptType": "preempt/partition_prio"}, True),
        ({"PreemptType": "preempt/qos"}, True),
    ],
)
def test_jobs_may_take_the_nodes_of_others(config, takes):
    assert preempts(config) is takes


@pytest.mark.parametrize(
    "line", ["", "slurm_load_partitions: Unable to contact slurm controller", "n2"]
)
def test_lines_of_another_form_count_as_no_node(line):
    shown = f"n1 idle NO main\n{line}\n"
    assert (in_service(shown), may_be_free(shown, ["main"])) == (1, 1)
