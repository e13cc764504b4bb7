"""``cosched cluster up`` names the settings that it does not use."""

from dataclasses import replace

import pytest

from cosched.cli.cluster.site import Site
from cosched.cli.commands import cosched
from cosched.cli.entry import run_cli
from cosched.cluster.paths import DomainPaths
from cosched.config.domain import DomainConfig, write_config
from cosched.config.queue import QueueSettings

RUNNING = DomainConfig("d", "127.0.0.1:7570", {"n1": "127.0.0.1:7571"})


@pytest.fixture
def file(monkeypatch, tmp_path):
    """The domain.toml of a domain of which a member was killed."""
    monkeypatch.setattr(Site, "start_killed", lambda *_: ["n1"])
    monkeypatch.setenv("COSCHED_RUN_DIR", str(tmp_path))
    file = DomainPaths(tmp_path).config
    file.parent.mkdir()
    file.write_text(write_config(RUNNING))
    return file


def up(capsys, *words):
    assert run_cli(cosched, ["cluster", "up", *words]) == 0
    out, err = capsys.readouterr()
    assert out == "the domain goes on; started again: n1\n"
    return err


def test_settings_of_a_file_stay_unused_in_a_domain_that_goes_on(file, tmp_path, capsys):
    mine = tmp_path / "mine.toml"
    mine.write_text(write_config(replace(RUNNING, slots=3, queue=QueueSettings("fcfs"))))
    assert up(capsys, "--config", str(mine)) == (
        "its settings stay, and these are not used: slots, queue.policy; write them into "
        f"{file}, then: cosched cluster reload\n"
    )
    mine.write_text(write_config(replace(RUNNING, controller="127.0.0.2:1")))
    assert up(capsys, "--config", str(mine)) == ""


def test_settings_of_options_stay_unused_in_a_domain_that_goes_on(file, capsys):
    file.write_text(write_config(replace(RUNNING, slots=3, queue=QueueSettings("fcfs"))))
    assert up(capsys) == ""
    assert up(capsys, "--slots", "3") == ""
    assert "not used: queue.policy;" in up(capsys, "--slots", "3", "--queue", "easy")


def test_option_beside_a_file_that_has_its_setting_is_refused(file, capsys):
    words = ["cluster", "up", "--config", str(file), "--slots", "3"]
    assert run_cli(cosched, words) == 2
    assert "--config has the setting slots: write it there." in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (
            ("--unit", "cpu", "--queue", "conservative"),
            'queue.policy: conservative does not combine with unit = "cpu"; choose another '
            "one.",
        ),
        (
            ("--block", "2", "--jobs-per-node", "2"),
            "queue.jobs_per_node: write 1: another number does not combine with block = 2.",
        ),
        (
            ("--size", "malleable", "--queue", "wfp"),
            'queue.policy: wfp does not combine with size = "malleable"; write "easy" or',
        ),
    ],
)
def test_options_that_do_not_combine_are_refused_with_the_reason(words, line, capsys):
    assert run_cli(cosched, ["cluster", "up", *words]) == 2
    assert line in capsys.readouterr().err
