"""Requests to the dashboard: who gets an answer, and what the browser may do with it."""

from __future__ import annotations

import json
import threading
from wsgiref.util import setup_testing_defaults

import pytest

from cosched.core.errors import CoschedError
from cosched.dashboard.pages import HOSTS, WHY_MOST, Pages

TOKEN = "5ec2e7" * 8


def why(job):
    if job == "12":
        return {"text": "job 12: runs", "job": None}
    raise CoschedError(f"job {job}: not found")


@pytest.fixture
def pages():
    return Pages(TOKEN, lambda run, after: json.dumps([run, after]).encode(), why)


def ask(pages, path, *, host="127.0.0.1:8800", method="GET", query=""):
    environ = {"REQUEST_METHOD": method, "PATH_INFO": path, "QUERY_STRING": query}
    environ["HTTP_HOST"] = host
    setup_testing_defaults(environ)
    got = {}

    def start_response(status, headers):
        got.update(status=int(status.split()[0]), headers=dict(headers))

    got["body"] = b"".join(pages(environ, start_response))
    return got


def test_page_and_all_its_files_are_there(pages):
    page = ask(pages, f"/{TOKEN}/")
    assert (page["status"], page["headers"]["Content-Type"][:9]) == (200, "text/html")
    for name in (
        "base.css",
        "dashboard.css",
        "spans.js",
        "dashboard.js",
        "uPlot.iife.min.js",
    ):
        assert name.encode() in page["body"]
        assert ask(pages, f"/{TOKEN}/{name}")["status"] == 200


@pytest.mark.parametrize("part", ["", "news", "why", "dashboard.js"])
@pytest.mark.parametrize("token", ["", "wrong", TOKEN[:-1], TOKEN + "0", "\xff"])
def test_without_the_token_there_is_nothing(pages, token, part):
    found = ask(pages, f"/{token}/{part}")
    assert found["status"] == 404
    assert b"address that cosched dashboard printed" in found["body"]


@pytest.mark.parametrize("path", ["", "/", "*", "//"])
def test_odd_paths_are_refused(pages, path):
    assert ask(pages, path)["status"] == 404


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:8800", "127.0.0.1.x:80", ""]
)
def test_other_host_names_are_refused_even_with_the_token(pages, host):
    assert ask(pages, f"/{TOKEN}/news", host=host)["status"] == 421


@pytest.mark.parametrize("name", HOSTS)
def test_own_names_are_answered_at_any_port(pages, name):
    assert ask(pages, f"/{TOKEN}/", host=name)["status"] == 200
    assert ask(pages, f"/{TOKEN}/", host=f"{name}:9")["status"] == 200


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS"])
def test_nothing_can_be_changed(pages, method):
    assert ask(pages, f"/{TOKEN}/news", method=method)["status"] == 405


@pytest.mark.parametrize("name", ["../page.py", "etc", "dashboard.html", "news/x"])
def test_other_files_are_not_there(pages, name):
    assert ask(pages, f"/{TOKEN}/{name}")["status"] == 404


def test_browser_may_load_nothing_from_elsewhere_and_others_may_not_read(pages):
    headers = ask(pages, f"/{TOKEN}/news")["headers"]
    policy = headers["Content-Security-Policy"]
    assert policy.startswith("default-src 'none'; script-src 'self';")
    assert "unsafe" not in policy
    assert headers["Referrer-Policy"] == "no-referrer"
    assert not [name for name in headers if name.startswith("Access-Control-")]


def test_news_are_those_after_the_version_of_a_run(pages):
    found = ask(pages, f"/{TOKEN}/news", query="run=ab&after=7")
    assert json.loads(found["body"]) == ["ab", 7]
    assert ask(pages, f"/{TOKEN}/news", query="after=-1")["status"] == 400
    assert ask(pages, f"/{TOKEN}/news", query="after=x")["status"] == 400
    assert ask(pages, f"/{TOKEN}/news", query="after=" + "1" * 300)["status"] == 414


def test_job_is_explained_or_not_found_in_a_line(pages):
    found = ask(pages, f"/{TOKEN}/why", query="job=12")
    assert json.loads(found["body"])["text"] == "job 12: runs"
    found = ask(pages, f"/{TOKEN}/why", query="job=%3Cb%3E")
    assert json.loads(found["body"])["text"] == "job <b>: not found"


def test_few_jobs_are_explained_at_a_time():
    begun, go_on = threading.Semaphore(0), threading.Event()

    def slow(job):
        begun.release()
        go_on.wait(30)
        return {"text": "", "job": None}

    pages = Pages(TOKEN, lambda run, after: b"", slow)
    asked = [
        threading.Thread(target=ask, args=(pages, f"/{TOKEN}/why")) for _ in range(WHY_MOST)
    ]
    for thread in asked:
        thread.start()
        begun.acquire()
    assert ask(pages, f"/{TOKEN}/why")["status"] == 503
    go_on.set()
    for thread in asked:
        thread.join()
    assert ask(pages, f"/{TOKEN}/why")["status"] == 200
