"""The rows of the page from looks at a made-up domain and its nodes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from cosched.core.units import NS_PER_MS, NS_PER_S
from cosched.dashboard.looks import DomainLook, Look
from cosched.dashboard.picture import Picture
from tests.tools.played_site import Played, Site
from tests.unit.observe.top_samples import job, sample, status, task

AT_S = 1000.0


@pytest.fixture
def picture():
    return Picture(lambda uid: f"user{uid}")


def look(seen, domain=None, *, troubles=(), silent=False, at_s=None):
    wall_ns = round((at_s or (seen.at_s if seen else AT_S)) * NS_PER_S)
    return Look(wall_ns, seen, silent, domain, troubles)


def at(node_status, at_s):
    return {**node_status, "wall_ns": round(at_s * NS_PER_S)}


def alone(at_s, *, scheduled=True):
    """A job without a domain on one node."""
    spans = {"7.a": [[round(990 * NS_PER_S), None]]} if scheduled else {}
    jobs = [job("a", [task(1)], scheduled=scheduled, scheduled_s=at_s - 990)]
    return sample(at_s, at(status("n", jobs, scheduled=spans), at_s))


def played(now_s=AT_S):
    site = Played(Site(nodes=3, jobs=12, at_s=AT_S), Path("/nowhere"))
    jobs = [site._job(each, now_s) for each in site.site.jobs]
    nodes = [site._node_info(name, now_s) for name in site.site.nodes]
    return site, DomainLook(Path("/run"), jobs, nodes, (), ())


def test_job_without_a_domain_begins_at_its_first_span_and_stays_when_it_has_left(picture):
    picture.take(look(alone(AT_S)))
    row = picture.since(0)["jobs"]["set"]["7.a"]
    assert (row["state"], row["began_ms"], row["nodes"]) == ("running", 990_000, ["n"])
    assert (row["number"], row["user"]) == (None, "user7")
    picture.take(look(alone(AT_S + 2)))
    assert picture.since(1)["jobs"]["set"] == {}
    picture.take(look(sample(AT_S + 4, at(status("n", []), AT_S + 4))))
    ended = picture.since(2)["jobs"]["set"]["7.a"]
    assert (ended["state"], ended["ended_ms"]) == ("ended", 1_004_000)
    assert picture.since(2)["spans"] == {"n": {"7.a": [990_000, 12_000]}}


def test_domain_names_the_jobs_of_nodes(picture):
    _, domain = played()
    running = next(each for each in domain.jobs if each["state"] == "running")
    label = f"{running['name']}-{running['job']}"
    here = job(label, [task(1)], uid=running["uid"])
    spans = {here["key"]: [[round(990 * NS_PER_S), None]]}
    for at_s in (AT_S, AT_S + 1):
        found = sample(at_s, at(status("n1", [here], scheduled=spans), at_s))
        picture.take(look(found, domain))
    news = picture.since(0)
    number = str(running["job"])
    assert number in news["jobs"]["set"]
    assert here["key"] not in news["jobs"]["set"]
    assert news["running"] == {"n1": {number: 990_000}}
    assert set(news["live"]["set"]) == {number}


def test_job_is_in_one_row_when_the_domain_answers_later_than_its_node(picture):
    _, domain = played()
    running = next(each for each in domain.jobs if each["state"] == "running")
    here = job(f"{running['name']}-{running['job']}", [task(1)], uid=running["uid"])
    for at_s, answer in ((AT_S, None), (AT_S + 1, domain)):
        picture.take(look(sample(at_s, at(status("n1", [here]), at_s)), answer))
    assert picture.since(0)["jobs"]["set"].keys() == {str(j["job"]) for j in domain.jobs}
    assert picture.since(1)["jobs"]["gone"] == [here["key"]]


def test_waiting_jobs_have_an_expected_start_and_no_nodes(picture):
    _, domain = played(AT_S - 419)
    picture.take(look(None, domain))
    news = picture.since(0)
    waiting = [key for key, row in news["jobs"]["set"].items() if row["state"] == "queued"]
    assert waiting
    assert set(news["starts"]["set"]) == set(waiting)
    assert all(news["jobs"]["set"][key]["nodes"] == [] for key in waiting)
    assert set(news["waits"]["set"]) == set(waiting)
    assert all(row["reason"] == "" for row in news["jobs"]["set"].values())
    assert news["totals"]["waiting"] == len(waiting)
    assert news["daemons_up"] is False


def test_a_reason_that_changes_is_no_news_of_its_job(picture):
    """Each start changes the reasons of all waiting jobs."""
    _, domain = played(AT_S - 419)
    picture.take(look(None, domain))
    changed = [
        {**each, "reason": "other"} if each["state"] == "queued" else each
        for each in domain.jobs
    ]
    picture.take(look(None, replace(domain, jobs=changed)))
    news = picture.since(1)
    assert news["jobs"]["set"] == {}
    assert set(news["waits"]["set"].values()) == {"other"}


def test_other_domains_and_pairs(picture):
    site, domain = played()
    site.is_coupled = True
    others = site._domains()
    picture.take(look(None, replace(domain, mates=site._mates(), domains=others)))
    news = picture.since(0)
    assert news["domains"]["set"]["eureka"] == {
        "state": "up",
        "down_since_ms": None,
        "waiting": 1,
        "running": 1,
    }
    assert news["domains"]["set"]["lens"]["state"] == "down"
    jittered = [{**each} for each in others]
    jittered[1]["down_since_ns"] += 3_000
    picture.take(look(None, replace(domain, mates=site._mates(), domains=jittered)))
    assert picture.since(1)["domains"] == {"set": {}, "gone": []}
    picture.take(look(None, domain))
    assert picture.since(2)["domains"]["gone"] == ["eureka", "lens"]


def test_silent_daemons_leave_the_picture_as_it_was(picture):
    picture.take(look(alone(AT_S)))
    picture.take(look(None, silent=True, troubles=["n: busy"], at_s=AT_S + 2))
    news = picture.since(0)
    assert news["troubles"] == ("n: busy",)
    assert news["jobs"]["set"]["7.a"]["state"] == "running"
    assert news["running"] == {"n": {"7.a": 990_000}}
    picture.take(look(None, at_s=AT_S + 4))
    assert picture.since(0)["jobs"]["set"]["7.a"]["state"] == "ended"
    assert picture.since(0)["daemons"]["set"] == {}


def test_health_of_daemons(picture):
    ill = at(status("n", []), AT_S)
    ill["timer"]["pid"] = None
    ill["settings"]["warnings"] = ["gmet is above the slice"]
    picture.take(look(sample(AT_S, ill)))
    row = picture.since(0)["daemons"]["set"]["n"]
    assert row["timer_up"] is False
    assert row["warnings"] == ["gmet is above the slice"]
    assert row["up_since_ms"] == pytest.approx(AT_S * 1000, abs=10_000)


def test_unknown_version_gets_everything(picture):
    picture.take(look(alone(AT_S)))
    assert picture.since(5)["after"] == 0
    assert picture.since(1)["after"] == 1
    assert NS_PER_MS * picture.since(0)["at_ms"] == AT_S * NS_PER_S


def test_rows_have_the_halves_and_the_jobs_beside(picture):
    _, domain = played()
    running = next(job for job in domain.jobs if job["state"] == "running")
    running |= {"halves": ["top"] * len(running["hosts"]), "neighbours": [8, 9]}
    waiting = next(job for job in domain.jobs if job["state"] == "queued")
    picture.take(look(None, domain))
    rows = picture.since(0)["jobs"]["set"]
    row = rows[str(running["job"])]
    assert row["halves"] == ["top"] * len(row["nodes"])
    assert row["beside"] == ["8", "9"]
    other = rows[str(waiting["job"])]
    assert (other["nodes"], other["halves"], other["beside"]) == ([], [], [])
