"""``cosched dashboard`` beside a domain and daemons that are played."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from cosched.core.errors import CoschedError
from cosched.dashboard.server import LOOPBACK, can_open, listen, opened
from tests.tools.json_fields import differences, sections
from tests.tools.played_site import Played, Site, playing


@pytest.fixture(scope="module")
def run_dir():
    with tempfile.TemporaryDirectory(prefix="cosched-t-") as name:
        place = Path(name) / "run"
        place.mkdir()
        with playing(Played(Site(nodes=2, jobs=8, at_s=time.time()), place)):
            yield place


def command(*words, **environ):
    return subprocess.Popen(
        [sys.executable, "-m", "cosched.cli.main", "dashboard", *map(str, words)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **environ},
    )


def get(url):
    with urllib.request.urlopen(url, timeout=60) as answer:
        return json.loads(answer.read())


def test_address_is_served_until_it_is_interrupted(run_dir):
    served = command("--run-dir", run_dir, "--no-open", "--interval", "0.5")
    url = served.stdout.readline().strip()
    first = get(url + "news")
    assert first["totals"]["nodes"] == 2
    assert first["after"] == 0
    later = get(f"{url}news?run={first['run']}&after={first['version']}")
    while later["version"] == first["version"]:
        later = get(f"{url}news?run={first['run']}&after={first['version']}")
    assert later["after"] == first["version"]
    assert later["nodes"] == {"set": {}, "gone": []}
    running = next(job for job in first["jobs"]["set"].values() if job["began_ms"])
    why = get(f"{url}why?job={running['number']}")
    assert why["text"].startswith(f"job {running['number']}: ")
    served.send_signal(signal.SIGINT)
    assert served.communicate(timeout=60) == ("", "")
    assert served.returncode == 0
    with socket.socket() as knock:
        assert knock.connect_ex((LOOPBACK, urlsplit(url).port)) != 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_no_signal_leaves_the_file_of_the_browser(run_dir, tmp_path, number):
    served = command(
        *("--run-dir", run_dir),
        DISPLAY=":0",
        BROWSER="echo %s",
        XDG_STATE_HOME=str(tmp_path),
    )
    url, shown = served.stdout.readline().strip(), served.stdout.readline().strip()
    (path,) = (tmp_path / "cosched").iterdir()
    assert shown == path.as_uri()
    assert url in path.read_text()
    served.send_signal(number)
    assert served.communicate(timeout=60) == ("", "")
    assert not path.exists()
    assert served.returncode == (0 if number == signal.SIGINT else 128 + number)


def test_json_is_what_the_page_reads(run_dir):
    once = command("--run-dir", run_dir, "--json", "--interval", "0.5")
    out, err = once.communicate(timeout=60)
    assert (once.returncode, err) == (0, "")
    found = json.loads(out)
    assert found["version"] == 2
    assert found["totals"]["daemons"] == 2
    assert found["troubles"] == []
    assert set(found["live"]["set"]) <= set(found["jobs"]["set"])
    assert differences(sections()["cosched dashboard"], found) == ([], [])


def test_nothing_is_up_is_no_error(tmp_path):
    once = command("--run-dir", tmp_path, "--json", "--interval", "0.5")
    out, err = once.communicate(timeout=60)
    assert (once.returncode, err) == (0, "")
    found = json.loads(out)
    assert (found["daemons_up"], found["domain"], found["troubles"]) == (False, None, [])


def test_taken_port_is_an_error_in_one_line():
    with listen(0) as taken:
        assert taken.getsockname()[0] == "127.0.0.1"
        port = taken.getsockname()[1]
        with pytest.raises(CoschedError, match=f"port {port}: .*leave out --port"):
            listen(port)


def test_browser_gets_a_file_that_only_the_user_can_read(tmp_path, monkeypatch):
    shown = []
    monkeypatch.setattr("webbrowser.open", shown.append)
    with opened("http://127.0.0.1:1/secret/", tmp_path / "state"):
        (path,) = (tmp_path / "state").iterdir()
        assert path.stat().st_mode & 0o777 == 0o600
        assert "secret" in path.read_text()
        assert shown == [path.as_uri()]
        assert "secret" not in shown[0]
        assert str(os.getpid()) in path.name
    assert not path.exists()


def test_no_browser_opens_without_a_screen():
    assert not can_open({})
    assert can_open({"DISPLAY": ":0"})
    assert can_open({"WAYLAND_DISPLAY": "wayland-0"})
