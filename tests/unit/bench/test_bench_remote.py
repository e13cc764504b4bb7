"""Settings of nodes out of reach: changed and put back by a command of the user's."""

from pathlib import Path

import pytest

from cosched.bench.run import daemons
from cosched.bench.run.remote import RemoteSettings
from cosched.bench.run.site import Site
from cosched.core.errors import CoschedError


@pytest.fixture
def log(tmp_path):
    return tmp_path / "log"


def site(*command):
    return Site(Path("/run/x"), ("n1", "n2"), None, False, remote=RemoteSettings(command))


def test_what_is_changed_goes_back_in_turn(log):
    nodes = site("sh", "-c", f'echo "$@" >> {log}', "set")
    with (
        daemons.settings_changed(nodes, {"slice": "15s", "gmet": "5s"}),
        daemons.settings_changed(nodes, {"slice": "5s"}),
        daemons.settings_changed(nodes, {}),
        daemons.settings_changed(nodes, {"align": "off"}),
    ):
        pass
    assert log.read_text().splitlines() == [
        *("slice=15s gmet=5s", "slice=5s", "align=off"),
        *("align=on", "slice=15s", "slice=auto gmet=auto"),
    ]


def test_it_goes_back_after_an_error(log):
    nodes = site("sh", "-c", f'echo "$@" >> {log}', "set")
    with pytest.raises(KeyboardInterrupt), daemons.settings_changed(nodes, {"gmet": "1s"}):
        raise KeyboardInterrupt
    assert log.read_text().splitlines() == ["gmet=1s", "gmet=auto"]


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (["/nonexistent"], "cannot run '/nonexistent': No such file or directory"),
        (["sh", "-c", "echo hm; exit 3"], "'sh -c echo hm; exit 3 slice=1s' failed: hm"),
        (["false"], "'false slice=1s' failed: status 1"),
    ],
)
def test_a_command_that_fails_gets_one_line(command, message):
    with pytest.raises(CoschedError) as caught:
        RemoteSettings(command).change({"slice": "1s"})
    assert str(caught.value) == message
