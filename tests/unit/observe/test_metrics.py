"""Checks the metrics by the rules of Prometheus, and the dashboard that reads them."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector

from cosched.core.node.messages import Branch, Refusal
from cosched.launch.environment import default_job_name
from cosched.observe.metrics import MARK_NS, REFUSALS, metrics_of
from cosched.observe.series import (
    LANES,
    MOST_NAMES,
    OTHER,
    JobLabels,
    lane_of,
    name_of_runs,
)
from tests.places import ROOT
from tests.unit.observe.top_samples import filling, job, status, task

RULES = ROOT / "docs/prometheus/cosched.rules.yml"
RULES_TEST = Path(__file__).parent / "cosched.rules.test.yml"
DASHBOARD = ROOT / "docs/grafana/cosched.json"
#: PromQL words in front of a bracket or a brace, and labels.
NAMES = re.compile(r"\bcosched_\w+")
NOW_S = 1000.0


class Fixed(Collector):
    def __init__(self, node):
        self.node = node

    def collect(self):
        jobs = list(JobLabels().label(self.node["jobs"], NOW_S))
        return metrics_of(self.node, NOW_S, jobs)


@pytest.fixture
def families():
    tasks = [task(1, sent=3, waited_ns=10**9), task(2, 1, sent=4, waited_ns=10**9 // 2)]
    refused = {reason.value: 0 for reason in Refusal} | {"gmet": 5}
    jobs = [
        job(
            'a"b\\',
            tasks,
            left={"sent": 5},
            scheduled_s=2.5,
            switches=7,
            granted=2,
            filling=filling(4.0, [("7.b", 1.5)], [("7.b", 0.5, 2.0)]),
            refused=refused,
        ),
        job("b", [task(3)], scheduled=False, cpu_s=None, share_percent=None),
    ]
    counters = {
        Branch.CSW_SWITCHED.value: 8,
        Branch.SCH_GRANTED.value: 3,
        Branch.SCH_REFUSED_GMET.value: 5,
        Branch.REG_NEW_JOB.value: 2,
    }
    registry = CollectorRegistry()
    registry.register(Fixed(status("n1", jobs, counters=counters, cpu_s=0.25)))
    text = generate_latest(registry).decode()
    return {family.name: family for family in text_string_to_metric_families(text)}


def value(families, sample_name, **labels):
    found = [
        sample.value
        for family in families.values()
        for sample in family.samples
        if sample.name == sample_name and labels.items() <= sample.labels.items()
    ]
    assert len(found) == 1, (sample_name, labels, found)
    return found[0]


def test_metrics_have_values_of_status(families):
    who = {"job_name": 'a"b\\', "uid": "7"}
    assert value(families, "cosched_job_scheduled", **who) == 1
    assert value(families, "cosched_job_scheduled", job_name="b") == 0
    assert value(families, "cosched_job_scheduled_seconds_total", **who) == 2.5
    assert value(families, "cosched_job_share_ratio", **who) == pytest.approx(0.99)
    assert value(families, "cosched_job_messages_sent_total", **who) == 12
    assert value(families, "cosched_job_wait_seconds_total", **who) == 1.5
    assert value(families, "cosched_job_filled_seconds_total", **who) == 1.5
    assert value(families, "cosched_job_fills_seconds_total", **who) == 0.5
    assert value(families, "cosched_job_requests_refused_total", **who, reason="gmet") == 5
    assert value(families, "cosched_switches_total", cause="slice") == 8
    assert value(families, "cosched_switches_total", cause="message") == 3
    assert value(families, "cosched_requests_refused_total", reason="gmet") == 5
    assert value(families, "cosched_requests_granted_total") == 3
    assert value(families, "cosched_jobs") == 2
    assert value(families, "cosched_tasks") == 3
    assert value(families, "cosched_jobs_waiting") == 0
    assert value(families, "cosched_memory_free_bytes") == 1000
    assert value(families, "cosched_start_time_seconds") == NOW_S - 5
    assert value(families, "cosched_daemon_cpu_seconds_total") == 0.25
    assert value(families, "cosched_timer_late_seconds_total") == pytest.approx(2e-4)
    assert value(families, "cosched_node_info", node="n1", class_scheduler="cgroup1") == 1


def test_unknown_value_has_no_metric(families):
    for name in ("cosched_job_share_ratio", "cosched_job_cpu_seconds"):
        assert {s.labels["job_name"] for s in families[name].samples} == {'a"b\\'}


def test_names_and_units_follow_prometheus(families):
    assert families
    for name, family in families.items():
        assert re.fullmatch(r"cosched_[a-z_]+", name), name
        assert not re.search(r"_(ms|us|ns|percent|milliseconds|count|total)$", name), name
        assert family.documentation, name
        assert family.type in ("gauge", "counter"), name
        totals = [s.name.endswith("_total") for s in family.samples]
        assert all(totals) if family.type == "counter" else not any(totals), name


def test_every_reason_and_branch_is_a_metric():
    branches = {branch.value for branch in Branch}
    assert set(REFUSALS.values()) <= branches
    documented = {name for name in branches if name.startswith("sch_refused_")}
    assert documented == set(REFUSALS.values())


def test_docs_page_names_every_metric_and_no_other(families):
    page = (ROOT / "docs/metrics.md").read_text()
    rows = [line.split("|")[1] for line in page.splitlines() if line.startswith("| `")]
    documented = {name for row in rows for name in NAMES.findall(row)}
    assert documented == {s.name for family in families.values() for s in family.samples}


# -- the labels of jobs ------------------------------------------------------------------


@given(
    st.from_regex(r"[a-z][a-z.]{0,30}[a-z]", fullmatch=True),
    st.binary(min_size=8, max_size=8),
    st.sampled_from(["", "4711", "4711.0"]),
)
def test_runs_of_a_program_have_one_name(program, noise, number):
    assert name_of_runs(default_job_name(program, noise, number)) == program


@pytest.mark.parametrize(
    ("name", "short"),
    [
        ("lu-a1b2c", "lu"),
        ("lu.B.4-a1b2c", "lu.B"),
        ("lu-4711.0", "lu"),
        ("lu-4711-a1b2c", "lu"),
        ("wavefront", "wavefront"),
        ("12345", "12345"),
        ("-abcde", "-abcde"),
        ("a-bcde", "a-bcde"),
    ],
)
def test_number_and_suffix_are_cut_off(name, short):
    assert name_of_runs(name) == short


def many_jobs(count, name="lu-{:05}", uid=7):
    return [job(name.format(n), [], uid=uid) for n in range(count)]


def test_runs_at_once_have_lanes_of_their_own():
    labels = [one for _, one in JobLabels().label(many_jobs(LANES + 5), NOW_S)]
    assert len(labels) == LANES == len(set(labels))
    assert {(name, uid) for name, uid, _ in labels} == {("lu", "7")}


def test_lane_is_the_same_on_all_nodes():
    jobs = many_jobs(3)
    (alone,) = (one for _, one in JobLabels().label(jobs[1:2], NOW_S))
    assert alone in [one for _, one in JobLabels().label(jobs, NOW_S)]


def test_names_are_bounded_and_forgotten_later():
    labels, seen = JobLabels(), set()
    for n in range(1000):
        name = "".join(chr(ord("a") + int(digit)) for digit in str(n))
        seen |= {one for _, one in labels.label([job(f"x{name}", [])], NOW_S + n)}
    assert len({name for name, _, _ in seen}) == MOST_NAMES + 1
    assert OTHER in {name for name, _, _ in seen}
    ((_, (name, _, _)),) = labels.label([job("new", [])], NOW_S + 10_000)
    assert name == "new"


def test_mark_is_the_state_at_a_moment_common_to_all_nodes():
    jobs = [job(name, []) for name in "abcd"]
    mark_ns = 7 * MARK_NS
    spans = {
        "7.a": [[mark_ns - 5, mark_ns + 5]],
        "7.b": [[mark_ns - 5, mark_ns], [mark_ns + 1, None]],
        "7.c": [[mark_ns, None]],
    }
    node = {**status("n1", jobs, scheduled=spans), "wall_ns": mark_ns + MARK_NS - 1}
    registry = CollectorRegistry()
    registry.register(Fixed(node))
    found = {
        name: registry.get_sample_value(
            "cosched_job_scheduled_mark",
            {"job_name": name, "uid": "7", "lane": str(lane_of(f"7.{name}"))},
        )
        for name in "abcd"
    }
    assert found == {"a": 1, "b": 0, "c": 1, "d": 0}


# -- the rules of alerts -----------------------------------------------------------------


def promtool(*words):
    if shutil.which("promtool") is None:
        pytest.skip("no promtool: apt-get install prometheus")
    done = subprocess.run(
        ["promtool", *words], capture_output=True, text=True, timeout=240, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def rules_test(folder, rules):
    (folder / "rules.yml").write_text(rules)
    text = RULES_TEST.read_text().replace("RULES", str(folder / "rules.yml"))
    (folder / "test.yml").write_text(text)
    return str(folder / "test.yml")


def test_rules_are_valid_and_alert_in_time(tmp_path):
    promtool("check", "rules", str(RULES))
    promtool("test", "rules", rules_test(tmp_path, RULES.read_text()))


@pytest.mark.parametrize(
    ("right", "wrong"),
    [("(min by (job_name", "(max by (job_name"), ("> 10 * rate", "> 1000 * rate")],
)
def test_wrong_rule_is_noticed(tmp_path, right, wrong):
    rules = RULES.read_text()
    assert right in rules
    with pytest.raises(AssertionError, match="FAILED"):
        promtool("test", "rules", rules_test(tmp_path, rules.replace(right, wrong)))


def test_rules_read_existing_metrics(families):
    exist = {s.name for family in families.values() for s in family.samples}
    named = set(re.findall(r"\bcosched_\w+", RULES.read_text()))
    assert named
    assert named <= exist


def test_docs_page_describes_each_alert():
    alerts = re.findall(r"alert: (\w+)", RULES.read_text())
    page = (ROOT / "docs/metrics.md").read_text()
    assert re.findall(r"^\| `(Cosched\w+)` \|", page, re.M) == alerts


# -- the dashboard -----------------------------------------------------------------------


def panels():
    return json.loads(DASHBOARD.read_text())["panels"]


def test_dashboard_reads_existing_metrics(families):
    exist = {s.name for family in families.values() for s in family.samples}
    document = json.loads(DASHBOARD.read_text())
    asked = [target["expr"] for panel in panels() for target in panel["targets"]]
    asked += [
        variable["definition"]
        for variable in document["templating"]["list"]
        if variable["type"] == "query"
    ]
    named = {name for expression in asked for name in NAMES.findall(expression)}
    assert named
    assert named <= exist
    labels = {k for family in families.values() for s in family.samples for k in s.labels}
    for expression in asked:
        used = re.findall(r'(\w+)=~?"', expression) + [
            label.strip()
            for group in re.findall(r"by \(([^)]*)\)", expression)
            for label in group.split(",")
        ]
        # Prometheus itself makes these two.
        assert set(used) <= labels | {"instance", "job"}, expression
        assert expression.count("(") == expression.count(")")
        counters = re.findall(r"(\w+)\((cosched_\w+_total)", expression)
        assert all(function == "rate" for function, _ in counters), expression


def test_dashboard_has_fields_for_import():
    document = json.loads(DASHBOARD.read_text())
    assert document["schemaVersion"] >= 30
    assert document["title"]
    assert document["uid"]
    assert "id" not in document  # an id of another installation would be refused
    ids = [panel["id"] for panel in panels()]
    assert len(set(ids)) == len(ids)
    variables = {variable["name"] for variable in document["templating"]["list"]}
    used = set(re.findall(r"\$\{?(\w+)", json.dumps(panels()))) - {"__rate_interval"}
    assert used <= variables
    cells = set()
    for panel in panels():
        assert panel["title"]
        assert panel["description"]
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24
        mine = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & mine, panel["title"]
        cells |= mine
        for target in panel["targets"]:
            assert target["datasource"] == panel["datasource"]
