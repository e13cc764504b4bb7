"""Which sizes a user may give a malleable job."""

import pytest

from cosched.cluster.submission import Submission, convert_submission
from cosched.core.errors import CoschedError

JOB = {"token": "t", "name": "a", "argv": ("/bin/true",), "environ": {}, "cwd": "/"}


@pytest.mark.parametrize(
    ("sizes", "reason"),
    [
        ({"minimum": 0, "ideal": 4}, "minimum 0: a malleable job has 1 or more"),
        ({"minimum": -1, "ideal": 4}, "minimum -1: a malleable job has 1 or more"),
        ({"minimum": 5, "ideal": 4}, "minimum 5: is above the ideal of 4 nodes"),
        ({"minimum": 5, "ideal": -1}, "minimum 5: is above the ideal of -1 nodes"),
        ({"minimum": 1, "ideal": 1 << 40}, "a job has at most 4294967296 ranks or nodes"),
        ({"preferred": 2}, "minimum 0: a malleable job has 1 or more"),
        ({"minimum": 2, "preferred": 1}, "not between the minimum of 2 and any ideal"),
        (
            {"minimum": 1, "ideal": 4, "preferred": 5},
            "preferred 5: is not between the minimum of 1 and the ideal of 4 nodes",
        ),
        ({"minimum": 1, "ideal": 4, "preferred": -1}, "preferred -1: is not between"),
        ({"minimum": 1, "preferred": 1 << 40}, "a job has at most 4294967296 ranks"),
        ({"minimum": 1, "ideal": 4, "nodes": 2}, "in place of nodes and ranks"),
        ({"minimum": 1, "ideal": 4, "ranks": 2}, "in place of nodes and ranks"),
        (
            {"minimum": 1, "ideal": 4, "mates": "b:1"},
            "a job with mates cannot be malleable",
        ),
    ],
)
def test_sizes_that_make_no_sense_are_refused(sizes, reason):
    with pytest.raises(CoschedError, match=reason) as refused:
        convert_submission({**JOB, **sizes})
    assert "\n" not in str(refused.value)


def test_malleable_job_counts_at_its_ideal():
    job = Submission(**JOB, minimum=2, ideal=6, ppn=3)
    assert job.malleable
    assert job.tasks == 18
    assert job.counts(slots=4, nodes_most=8) == (3,) * 6


def test_ideal_may_be_unknown():
    job = Submission(**JOB, minimum=2)
    assert job.malleable
    assert job.counts(slots=4, nodes_most=4) == (1,) * 4


def test_malleable_job_counts_on_all_nodes_if_its_ideal_is_above_the_domain():
    job = Submission(**JOB, minimum=2, ideal=6)
    assert job.counts(slots=4, nodes_most=4) == (1,) * 4


@pytest.mark.parametrize(
    ("sizes", "reason"),
    [
        ({"minimum": 5, "ideal": 6}, "infeasible: needs 5 nodes, the domain has 4"),
        ({"minimum": 1, "ideal": 6, "ppn": 3}, "needs 3 tasks on a node, a node takes 2"),
    ],
)
def test_malleable_job_that_the_domain_can_never_run(sizes, reason):
    with pytest.raises(CoschedError, match=reason):
        Submission(**JOB, **sizes).counts(slots=2, nodes_most=4)


def test_job_without_these_sizes_is_rigid():
    assert not Submission(**JOB, nodes=3).malleable
