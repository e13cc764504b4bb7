"""A command of the user's changes and restores the settings of unreachable nodes."""

from pathlib import Path

import pytest

from cosched.bench.run import daemons
from cosched.bench.run.remote import RemoteSettings
from cosched.bench.run.site import Site
from cosched.core.errors import CoschedError

BEFORE = "slice=3s gmet=200ms align=off"
#: As pdsh prints it, each line with its host in front.
TWO_NODES = f"n1: node n1: {BEFORE}\nn2: node n2: {BEFORE}"


@pytest.fixture
def log(tmp_path):
    return tmp_path / "log"


def command(log, printed=TWO_NODES):
    """Logs its words; without any it prints the settings of the nodes."""
    script = f"[ $# -gt 0 ] && echo \"$@\" >> {log} || echo '{printed}'"
    return ("sh", "-c", script, "set")


def site(log):
    remote = RemoteSettings(command(log))
    return Site(Path("/run/x"), ("n1", "n2"), None, False, remote=remote)


def test_remote_settings_are_restored_in_reverse_order(log):
    nodes = site(log)
    with (
        daemons.settings_changed(nodes, {"slice": "15s", "gmet": "5s"}),
        daemons.settings_changed(nodes, {"slice": "5s"}),
        daemons.settings_changed(nodes, {}),
        daemons.settings_changed(nodes, {"align": "on"}),
    ):
        pass
    assert log.read_text().splitlines() == [
        *("slice=15s gmet=5s", "slice=5s", "align=on"),
        *("align=off", "slice=15s", "slice=3s gmet=200ms"),
    ]


def test_remote_settings_are_read_from_all_lines(log):
    order = "order=rest least_share=25%/30s fairness=jobs"
    lines = [f"{n}: node {n}: {text}" for text in (BEFORE, order) for n in ("n1", "n2")]
    assert RemoteSettings(command(log, "\n".join(lines))).now == {
        **{"slice": "3s", "gmet": "200ms", "align": "off"},
        **{"order": "rest", "least_share": "25%/30s", "fairness": "jobs"},
    }


def test_remote_settings_are_restored_after_an_error(log):
    nodes = site(log)
    with pytest.raises(KeyboardInterrupt), daemons.settings_changed(nodes, {"gmet": "1s"}):
        raise KeyboardInterrupt
    assert log.read_text().splitlines() == ["gmet=1s", "gmet=200ms"]


@pytest.mark.parametrize(
    ("printed", "message"),
    [
        ("", "does not print the nodes' settings"),
        (
            f"node n1: {BEFORE}\nnode n2: slice=1s gmet=auto align=on",
            "the nodes have different settings",
        ),
    ],
)
def test_unknown_settings_are_not_changed(log, printed, message):
    remote = RemoteSettings(command(log, printed))
    nodes = Site(Path("/run/x"), ("n1", "n2"), None, False, remote=remote)
    with (
        pytest.raises(CoschedError, match=message),
        daemons.settings_changed(nodes, {"gmet": "1s"}),
    ):
        pytest.fail("the settings were changed")
    assert not log.exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["/nonexistent"], "cannot run '/nonexistent': No such file or directory"),
        (["sh", "-c", "echo hm; exit 3"], "'sh -c echo hm; exit 3 slice=1s' failed: hm"),
        (["false"], "'false slice=1s' failed: status 1"),
    ],
)
def test_failing_command_is_one_line(words, message):
    with pytest.raises(CoschedError) as caught:
        RemoteSettings(words).change({"slice": "1s"})
    assert str(caught.value) == message
