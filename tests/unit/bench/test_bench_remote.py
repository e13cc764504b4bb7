"""A command of the user's holds the settings of unreachable nodes during a bench."""

from pathlib import Path

import pytest

from cosched.bench.run import daemons, remote
from cosched.bench.run.remote import RemoteSettings
from cosched.bench.run.site import Site
from cosched.core.errors import CoschedError

BEFORE = "slice=3s gmet=200ms align=off"
#: As pdsh prints it, each line with its host in front.
TWO_NODES = f"n1: node n1: {BEFORE}\nn2: node n2: {BEFORE}"
#: Waits for the end of its input, as ``cosched config set --hold`` does.
HOLDS = "cat > /dev/null"


@pytest.fixture
def log(tmp_path):
    return tmp_path / "log"


def command(log, printed=TWO_NODES, holding=HOLDS):
    """Prints the settings of the nodes; logs its words and then its end."""
    script = f"""
        [ $# = 0 ] || echo "$@" >> {log}
        echo '{printed}'
        [ $# = 0 ] || {{ {holding}; echo end >> {log}; }}
    """
    return ("sh", "-c", script, "set")


def site(log):
    return Site(
        Path("/run/x"), ("n1", "n2"), None, False, remote=RemoteSettings(command(log))
    )


def test_remote_settings_are_held_one_in_another(log):
    nodes = site(log)
    with (
        daemons.settings_changed(nodes, {"slice": "15s", "gmet": "5s"}),
        daemons.settings_changed(nodes, {}),
        daemons.settings_changed(nodes, {"align": "on"}),
    ):
        assert nodes.remote.now == {"slice": "15s", "gmet": "5s", "align": "on"}
        assert "end" not in log.read_text()
    assert log.read_text().splitlines() == [
        *("--hold slice=15s gmet=5s", "--hold align=on", "end", "end"),
    ]
    assert nodes.remote.now == {"slice": "3s", "gmet": "200ms", "align": "off"}


def test_remote_settings_are_read_from_all_lines(log):
    order = "order=rest least_share=25%/30s fairness=jobs"
    lines = [f"{n}: node {n}: {text}" for text in (BEFORE, order) for n in ("n1", "n2")]
    assert RemoteSettings(command(log, "\n".join(lines))).now == {
        **{"slice": "3s", "gmet": "200ms", "align": "off"},
        **{"order": "rest", "least_share": "25%/30s", "fairness": "jobs"},
    }


def test_remote_settings_are_given_back_after_an_error(log):
    nodes = site(log)
    with pytest.raises(KeyboardInterrupt), daemons.settings_changed(nodes, {"gmet": "1s"}):
        raise KeyboardInterrupt
    assert log.read_text().splitlines() == ["--hold gmet=1s", "end"]


@pytest.mark.parametrize("holding", ["exec", "trap '' TERM; exec"])
def test_command_that_does_not_pass_on_the_end_of_its_input_is_ended(
    log, monkeypatch, holding
):
    monkeypatch.setattr(remote, "END_S", 0.1)
    nodes = RemoteSettings(command(log, holding=f"{holding} sleep 611.3"))
    nodes.hold({"gmet": "1s"}).give_back()
    assert nodes.now["gmet"] == "200ms"


def test_settings_that_were_not_held_to_the_end_are_an_error(log):
    held = RemoteSettings(command(log, holding="true")).hold({"gmet": "1s"})
    held._process.wait()
    with pytest.raises(CoschedError, match="gmet=1s' ended before the run did"):
        held.give_back()


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
    with pytest.raises(CoschedError, match=message):
        RemoteSettings(command(log, printed)).hold({"gmet": "1s"})
    assert not log.exists()


def test_node_that_does_not_answer_is_an_error(log):
    nodes = RemoteSettings(command(log))
    assert nodes.now["slice"] == "3s"
    one = f'[ $# = 0 ] || echo "node n1: {BEFORE}"; echo "n2: lost" >&2; exit 1'
    nodes._command = ("sh", "-c", one, "set")
    with pytest.raises(CoschedError, match="failed: n2: lost"):
        nodes.hold({"gmet": "1s"})


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["/nonexistent"], "cannot run '/nonexistent': no such command"),
        (["sh", "-c", "echo hm; exit 3"], "'sh -c echo hm; exit 3' failed: hm"),
        (["false"], "'false' failed: status 1"),
    ],
)
def test_failing_command_is_one_line(words, message):
    with pytest.raises(CoschedError) as caught:
        RemoteSettings(words).hold({"slice": "1s"})
    assert str(caught.value) == message
