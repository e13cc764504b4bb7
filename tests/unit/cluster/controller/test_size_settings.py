"""The settings of the sizes of jobs in domain.toml."""

import pytest

from cosched.config.domain import parse_config, write_config
from cosched.config.queue import ChangeSettings, QueueSettings
from cosched.core.cluster.queue.places.elastic import Elastic
from cosched.core.cluster.queue.plans.malleable_easy import MalleableEasy
from cosched.core.cluster.queue.sizes.harvest_policies import EVEN
from cosched.core.cluster.queue.sizes.settings import MOLDABLE, Control, Distribution
from cosched.core.cluster.queue.sizes.suspension import Suspension
from cosched.core.config.mistakes import Invalid
from cosched.core.units import NS_PER_S
from cosched.documents import decode_toml

FILE = {"controller": "127.0.0.1:1", "nodes": {"n1": "127.0.0.1:2"}}
COUPLING = {"listen": "127.0.0.1:5", "domains": {"b": "127.0.0.1:6"}}


@pytest.mark.parametrize(
    ("queue", "more", "mistakes"),
    [
        (
            {"size": "malleable", "policy": "conservative"},
            {},
            ['queue.policy: conservative does not combine with size = "malleable"; '
             'write "easy" or "fcfs"'],
        ),
        (
            {"size": "malleable", "policy": "easy", "changes": {"degree": 3}},
            {},
            ["queue.changes.degree: does not combine with easy: the first job relies on "
             "harvests"],
        ),
        (
            {"size": "malleable", "changes": {"harvest": "long"}},
            {},
            ["queue.changes.harvest: long does not combine with easy; want even or "
             "low-impact"],
        ),
        (
            {"size": "moldable", "policy": "wfp", "jobs_per_node": 2},
            {},
            ['queue.policy: wfp does not combine with size = "moldable"; '
             'write "easy" or "fcfs"',
             'queue.jobs_per_node: write 1: size = "moldable" needs nodes with one job '
             'each'],
        ),
        (
            {"size": "malleable", "policy": "fcfs"},
            {"coupling": COUPLING},
            ['queue.size: malleable does not combine with [coupling]; write "rigid"'],
        ),
        (
            {"size": "elastic"},
            {},
            ["queue.size: 'elastic' is none of rigid, moldable, malleable"],
        ),
        (
            {"changes": {"harvest": "evn", "spared": "0s", "least_benefit": -1}},
            {},
            ["queue.changes.harvest: 'evn' is none of never, even, fair, long, short, "
             "low-impact; did you mean 'even'?",
             "queue.changes.spared: '0s' is too short; write more than 0s",
             "queue.changes.least_benefit: -1 is not a number of 0 or more"],
        ),
    ],
)  # fmt: skip
def test_settings_that_do_not_combine_have_one_line_each(queue, more, mistakes):
    with pytest.raises(Invalid) as refused:
        parse_config({**FILE, "queue": queue, **more})
    assert [str(each) for each in refused.value.mistakes] == mistakes


def test_jobs_are_rigid_unless_a_file_has_another_size():
    assert parse_config(FILE).queue.decides.sizes is None


def test_easy_takes_all_sizes():
    for kind in ("moldable", "malleable"):
        found = parse_config({**FILE, "queue": {"size": kind}}).queue
        place = Elastic(((0, 7),))
        assert isinstance(found.decides.planner(place), MalleableEasy)


def test_moldable_jobs_do_not_change():
    assert QueueSettings("fcfs", size="moldable").decides.sizes is MOLDABLE


@pytest.mark.parametrize("size", ["moldable", "malleable"])
def test_suspensions_need_arrivals_in_order(size):
    changes = ChangeSettings(suspend_ns=9, suspend_limit=3)
    sizes = QueueSettings("fcfs", size=size, changes=changes).decides.sizes
    assert sizes.suspension == Suspension(9, 3)
    assert sizes.changes == (size == "malleable")
    (mistake,) = QueueSettings("easy", size=size, changes=changes).contradictions()
    assert str(mistake) == (
        "changes.suspend: does not combine with easy, which reserves nodes"
    )


def test_all_changes_are_settings():
    changes = {
        "harvest": "even",
        "distribution": "queued-only",
        "degree": 3,
        "harvest_limit": 0,
        "protected": "2s",
        "least_benefit": 1.5,
        "late_after": "3s",
        "spared": "4s",
        "suspend": "5s",
        "suspend_limit": 6,
    }
    queue = {"size": "malleable", "policy": "fcfs", "changes": changes}
    config = parse_config({**FILE, "queue": queue})
    assert config == parse_config(decode_toml(write_config(config), "a file"))
    sizes = config.queue.decides.sizes
    assert (sizes.harvest, sizes.degree) == (EVEN, 3)
    assert sizes.distribution is Distribution.QUEUED_ONLY
    seconds = [each * NS_PER_S for each in (2, 3, 4)]
    assert sizes.control == Control(0, seconds[0], 1.5, seconds[1], seconds[2])
    assert sizes.suspension == Suspension(5 * NS_PER_S, 6)


def test_late_changes_are_withdrawn_by_default():
    """A program may never come to a boundary."""
    assert ChangeSettings().sizes.control.change_ns == 60 * NS_PER_S
